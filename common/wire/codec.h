// Messages to envelope bytes and back: the one place where bytes from another process become
// values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/wire/messages.h"

namespace common {

// What this binary says of itself in envelopes and hellos, such as "lfarm 0.1.0".
std::string_view build_name();

// The envelope frame of a message. Diagnostic texts are made clean and cut to their limit; nothing
// else is checked: the receiver refuses what validate() refuses. Call validate() first where a
// value comes from a user. The version must have the message.
Bytes encode(const Message& message, uint32_t version = kProtocolVersion);

// The first version of the protocol that has such a message.
uint32_t introduced_in(const Message& message);
// The highest version in both ranges; empty when there is none.
std::optional<uint32_t> agreed_version(const ProtocolRange& a, const ProtocolRange& b);
// "protocol 3 to 4"; of one, "protocol 3".
std::string text_of(const ProtocolRange& range);

// About how many bytes the envelope will have, never far below.
size_t envelope_bytes_about(const Message& message);

// The message in an envelope frame, validated. kCorrupt when the bytes are damaged, kInvalidInput
// when they break a limit, kUnsupported when they are of a version that is not spoken, but for
// hellos and Refused, which can be read in all versions. Never fails
// in another way, whatever the bytes are. `version`: the message's, as far as it could be read.
Result<Message> decode(ByteView envelope, const ProtocolRange& spoken = kProtocolsSpoken,
                       uint32_t* version = nullptr);

// Checks every limit of limits.h on one message. kInvalidInput names the message, field and value.
Status validate(const Message& message);

// Whether a packet of this message must (kRequired), may or must not carry a blob frame.
enum class BlobFrame { kNone, kOptional, kRequired };
BlobFrame blob_frame_of(const Message& message);

// The digest that the message gives for its blob frame; zero when it has none.
Digest blob_digest_of(const Message& message);

// Where the next part of a blob frame begins, after one that ends at `bytes`.
constexpr size_t part_end(size_t bytes) {
  return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
}
// The parts of the message's blob frame of so many bytes: the blob, unless the message says more.
std::vector<BlobPart> blob_parts_of(const Message& message, size_t bytes);
// Views of the parts, each of which has its digest. kCorrupt when the frame is not made of them.
Result<std::vector<ByteView>> split_blob(ByteView blob, const std::vector<BlobPart>& parts);

// Free text made fit for a message: invalid UTF-8 and control characters become '?', and what is
// beyond kTextBytesMax is cut off at a character.
std::string clean_text(std::string_view text);
// Whether clean_text() would leave it as it is, up to `bytes_max`.
bool is_clean_text(std::string_view text, size_t bytes_max);
// The same of at most kNameBytesMax bytes, in one line, without what terminals obey.
bool is_clean_line(std::string_view text);

}  // namespace common
