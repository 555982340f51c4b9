// The compile child: the process that NVRTC runs in, and the frames it is asked with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace worker {

// What a program is started with to be a compile child, // followed by the driver's version
// (12040) where there is one.
inline constexpr const char* kNvrtcChildFlag = "--nvrtc-child";

// One text to compile, or the question what the library is.
struct NvrtcRequest {
  bool describe = false;
  std::string arch;  // "sm_90a"
  std::vector<std::string> options;
  std::string source;
  uint64_t timeout_s = 0;  // the child ends itself when it took longer: its parent may be gone
};

struct NvrtcReply {
  bool ok = false;
  common::Error error;  // when not ok
  common::Bytes cubin;  // of a text, or PTX
  std::string build;    // of a question: Nvrtc::build(),
  std::string note;     // and Nvrtc::compromise()
  // Of a question: those of its options that the library knows, in order.
  std::vector<std::string> options;
};

common::Bytes encode(const NvrtcRequest& request);
common::Bytes encode(const NvrtcReply& reply);
// kCorrupt for what encode() did not make.
common::Result<NvrtcRequest> decode_nvrtc_request(common::ByteView frame);
common::Result<NvrtcReply> decode_nvrtc_reply(common::ByteView frame);

// Serves requests from the socket `fd` for drivers of this version of CUDA, as in Nvrtc::open();
// returns the exit code once the parent is gone.
int run_nvrtc_child(int fd, int driver_version = 0);

}  // namespace worker
