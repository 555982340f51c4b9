// Files and their descriptors: if these fail, descriptors run out or are closed under their users.
#include "common/base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
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

// Pages of files that are mapped here and in memory.
int64_t file_pages() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0, of_files = 0;
  file >> size >> resident >> of_files;
  return of_files;
}

TEST(MappedFile, WhatIsReleasedLeavesMemoryAndComesAgain) {
  auto directory = ScratchDirectory::create("lfarm-files");
  ASSERT_TRUE(directory.ok()) << directory.error().message;
  constexpr size_t kBytes = size_t{8} << 20;
  const int64_t pages = static_cast<int64_t>(kBytes) / ::sysconf(_SC_PAGESIZE);
  const Bytes content(kBytes, std::byte{7});
  const std::string path = directory->path() + "/seven";
  ASSERT_TRUE(write_file_atomic(path, content).ok());
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  auto is_whole = [&] {
    return std::equal(content.begin(), content.end(), (*file)->bytes().data());
  };
  ASSERT_TRUE(is_whole());
  const int64_t before = file_pages();
  (*file)->release((*file)->bytes().subspan(100, kBytes / 2));
  EXPECT_NEAR(static_cast<double>(before - file_pages()), static_cast<double>(pages) / 2, 64);
  (*file)->release(content);  // not of this file
  EXPECT_TRUE(is_whole());
  (*file)->release((*file)->bytes());
  EXPECT_NEAR(static_cast<double>(before - file_pages()), static_cast<double>(pages), 64);
  EXPECT_TRUE(is_whole());
}

}  // namespace
}  // namespace common
