// What a coordinator and its signer say to each other over a Unix socket: one request, one answer.
// Both are of one build and on one machine.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/bytes.h"
#include "common/base/files.h"
#include "common/base/result.h"
#include "common/plan/delegation.h"
#include "coordinator/service/signing/statements.h"

namespace coordinator::service {

// A plan is the largest.
inline constexpr size_t kSignerFrameBytesMax = (size_t{256} << 20) + 4096;

// Asks for the authority alone when `statement` is empty.
struct SignRequest {
  uint64_t statement = 0;  // a Statement, or 0
  common::Bytes bytes;
};
common::Bytes encode(const SignRequest& request);
common::Result<SignRequest> decode_sign_request(common::ByteView frame);

struct SignAnswer {
  common::Status status;  // else nothing of the rest counts
  common::PublicKey authority{};
  common::Proof proof;
};
common::Bytes encode(const SignAnswer& answer);
common::Result<SignAnswer> decode_sign_answer(common::ByteView frame);

// A frame is its length in 8 bytes and its content. kUnavailable when the other side is gone or
// does not go on within `timeout_ms`; kCorrupt when it announces more than a frame may have.
common::Status send_frame(int fd, common::ByteView content, int64_t timeout_ms);
// `idle_ms`: for the first byte; -1: as long as it takes.
common::Result<common::Bytes> receive_frame(int fd, int64_t idle_ms, int64_t timeout_ms);

// kUnavailable when nobody listens there; kInvalidInput when the path is too long for a socket's.
common::Result<common::FileDescriptor> connect_to_socket(const std::string& path);
// Makes the socket with mode 0660 in the place of one on which nobody listens any more.
// kInvalidInput when another process listens there, or the path cannot be bound.
common::Result<common::FileDescriptor> listen_on_socket(const std::string& path);

}  // namespace coordinator::service
