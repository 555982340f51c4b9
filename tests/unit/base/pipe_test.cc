// Frames between a process and its child, larger than what a socket buffers.
#include "common/process/pipe.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace common {
namespace {

TEST(Pipe, LargeFramesPassInBothDirections) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe.ok());
  Bytes large(5 << 20);
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::byte>(i * 7);
  std::thread echo([&] {
    auto frame = read_frame(pipe->child);
    ASSERT_TRUE(frame.ok());
    EXPECT_TRUE(write_frame(pipe->child, *frame).ok());
  });
  FrameStream stream(pipe->parent);
  stream.send(large);
  Bytes back;
  while (!stream.take(back)) {
    ASSERT_TRUE(stream.pump().ok());
    std::this_thread::yield();
  }
  echo.join();
  EXPECT_EQ(back, large);
  ::close(pipe->child);
  EXPECT_FALSE(stream.pump().ok());
  ::close(pipe->parent);
}

}  // namespace
}  // namespace common
