// Length-prefixed frames between a process and its child, and the flat format inside them. Both
// ends are the same binary, so there are no versions; nothing here crosses machines.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace common {

// One frame: 8 bytes of length, then the content.
inline constexpr size_t kFrameBytesMax = size_t{2} << 30;

// A connected pair of stream sockets, closed on exec. [0] is the parent's end and non-blocking.
struct PipePair {
  int parent = -1, child = -1;
};
Result<PipePair> make_pipe();

// Waits as long as it takes. kUnavailable when the other side is gone.
Status write_frame(int fd, ByteView content);
Result<Bytes> read_frame(int fd);

// Sends one frame and collects incoming ones without ever waiting: the parent's end.
class FrameStream {
 public:
  explicit FrameStream(int fd) : fd_(fd) {}
  // `content` stays valid until sent() or the stream's end.
  void send(ByteView content);
  bool sent() const { return head_left_ == 0 && body_.empty(); }
  // Moves what can be moved now. kUnavailable when the child's end is closed.
  Status pump();
  // Takes the next whole frame; false when there is none yet.
  bool take(Bytes& frame);

 private:
  Status pump_out();
  Status pump_in();
  int fd_;
  std::byte head_[8] = {};
  size_t head_left_ = 0;
  ByteView body_;
  Bytes received_;
};

// Appends fields to a frame.
class FrameWriter {
 public:
  void u64(uint64_t value);
  void f64(double value) { u64(std::bit_cast<uint64_t>(value)); }
  void bytes(ByteView value);
  Bytes take() { return std::move(out_); }

 private:
  Bytes out_;
};

// Reads them back. After the end of the frame every field is 0 and ok() is false.
class FrameReader {
 public:
  explicit FrameReader(ByteView frame) : left_(frame) {}
  uint64_t u64();
  double f64() { return std::bit_cast<double>(u64()); }
  // A view into the frame.
  ByteView bytes();
  // A count of items that take at least 8 bytes each: never more than the frame can hold.
  size_t count();
  bool ok() const { return ok_; }

 private:
  ByteView left_;
  bool ok_ = true;
};

}  // namespace common
