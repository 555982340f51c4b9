// Temporary folders of processes: if these fail, killed workers fill the disk, or one removes what
// another works with.
#include "common/process/own_directory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/base/files.h"

namespace common {
namespace {

namespace fs = std::filesystem;

class OwnDirectoryTest : public testing::Test {
 protected:
  OwnDirectoryTest() : scratch_(ScratchDirectory::create("lfarm-test").value()) {
    ::setenv("TMPDIR", scratch_.path().c_str(), 1);
  }
  ~OwnDirectoryTest() override { ::unsetenv("TMPDIR"); }

  static OwnDirectory make() { return OwnDirectory::create("test").value(); }
  // Of a process that makes one with a file in it and is killed.
  std::string left_behind() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid_t child = ::fork();
    if (child == 0) {
      OwnDirectory own = make();
      std::ofstream(own.path() + "/kernels.c") << "half a";
      if (::write(ends[1], own.path().data(), own.path().size()) < 0) ::_exit(1);
      ::raise(SIGKILL);
    }
    char path[256] = "";
    EXPECT_GT(::read(ends[0], path, sizeof path - 1), 0);
    ::waitpid(child, nullptr, 0);
    ::close(ends[0]);
    ::close(ends[1]);
    return path;
  }

  ScratchDirectory scratch_;
};

TEST_F(OwnDirectoryTest, IsPrivateAndGoesWithItsOwner) {
  std::string path;
  {
    OwnDirectory own = make();
    path = own.path();
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    std::ofstream(path + "/object") << "code";
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(OwnDirectoryTest, WhatTheDeadLeftIsRemovedAndTheLivingKeepTheirs) {
  std::string dead = left_behind();
  EXPECT_TRUE(fs::exists(dead + "/kernels.c")) << "a killed process cleans up nothing";
  fs::create_directory(scratch_.path() + "/test-own-begun");  // another's, that is being made
  fs::create_directory(scratch_.path() + "/test-other");
  OwnDirectory first = make();
  EXPECT_FALSE(fs::exists(dead));
  std::ofstream(first.path() + "/object") << "code";
  OwnDirectory second = make();
  EXPECT_TRUE(fs::exists(first.path() + "/object"));
  EXPECT_NE(first.path(), second.path());
  EXPECT_TRUE(fs::exists(scratch_.path() + "/test-own-begun"));
  EXPECT_TRUE(fs::exists(scratch_.path() + "/test-other"));
}

TEST_F(OwnDirectoryTest, ALinkIsNotFollowed) {
  std::string elsewhere = scratch_.path() + "/precious";
  fs::create_directory(elsewhere);
  std::ofstream(elsewhere + "/owner.lock") << "";
  fs::create_directory_symlink(elsewhere, scratch_.path() + "/test-own-linked");
  OwnDirectory own = make();
  EXPECT_TRUE(fs::exists(elsewhere + "/owner.lock"));
}

TEST_F(OwnDirectoryTest, AFolderThatIsNotThereIsNamed) {
  ::setenv("TMPDIR", "/nonexistent", 1);
  auto own = OwnDirectory::create("test");
  ASSERT_FALSE(own.ok());
  EXPECT_NE(own.error().message.find("/nonexistent"), std::string::npos) << own.error().message;
}

}  // namespace
}  // namespace common
