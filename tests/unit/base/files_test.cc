// Files and their descriptors: if these fail, descriptors run out or are closed under their users.
#include "common/base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <utility>

namespace common {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

FileDescriptor opened() { return FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

TEST(FileDescriptor, IsClosedWithItsLastOwner) {
  int number = -1;
  {
    FileDescriptor first = opened();
    number = first.get();
    ASSERT_TRUE(is_open(number));
    FileDescriptor second = std::move(first);
    EXPECT_FALSE(first.is_open());  // NOLINT(bugprone-use-after-move): what is left has none
    EXPECT_EQ(second.get(), number);
  }
  EXPECT_FALSE(is_open(number));
}

TEST(FileDescriptor, AssignmentClosesWhatWasThere) {
  FileDescriptor file = opened();
  int number = file.get();
  file = FileDescriptor();
  EXPECT_FALSE(file.is_open());
  EXPECT_FALSE(is_open(number));
}

TEST(FileDescriptor, WhatIsReleasedStaysOpen) {
  FileDescriptor file = opened();
  FileDescriptor taken(file.release());
  EXPECT_FALSE(file.is_open());
  file = FileDescriptor();
  EXPECT_TRUE(is_open(taken.get()));
}

}  // namespace
}  // namespace common
