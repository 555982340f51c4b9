// How workers that are made alike come to keys of their own.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/wire/security.h"
#include "worker/agent/take_key.h"

namespace worker {
namespace {

class TakeKeyTest : public testing::Test {
 protected:
  std::string secret() const { return scratch_.path() + "/secret"; }
  std::string own() const { return scratch_.path() + "/own.key"; }
  void put_keys(int count) {
    ASSERT_TRUE(common::make_directories(secret()).ok());
    for (int k = 0; k < count; ++k) {
      std::string path = common::cat(secret(), "/", k, ".key");
      ASSERT_TRUE(common::load_or_create_key_pair(path).ok());
      // As a kubelet leaves a pod's secrets.
      std::filesystem::permissions(
          path, std::filesystem::perms::owner_read | std::filesystem::perms::group_read);
    }
  }
  std::string taken_by(const std::string& name) {
    common::Status taken = take_key(secret(), own(), name);
    EXPECT_TRUE(taken.ok()) << taken.error().message;
    auto pair = common::load_key_pair(own());
    EXPECT_TRUE(pair.ok()) << "lfarm refuses the file";
    return pair.ok() ? pair->public_key : "";
  }
  common::ScratchDirectory scratch_ =
      std::move(common::ScratchDirectory::create("take-key")).value();
};

TEST_F(TakeKeyTest, NamesDecideAndAllKeysAreOfUse) {
  put_keys(3);
  std::set<std::string> used;
  for (int k = 0; k < 60; ++k) {
    std::string name = common::cat("lfarm-worker-cpu-7d9f-", k);
    std::string key = taken_by(name);
    EXPECT_EQ(taken_by(name), key) << "a pod that starts again has another key";
    used.insert(key);
  }
  EXPECT_EQ(used.size(), 3u);
}

TEST_F(TakeKeyTest, WithoutKeysTheErrorSaysHowToMakeThem) {
  ASSERT_TRUE(common::make_directories(secret()).ok());
  std::ofstream(secret() + "/README") << "no key";
  for (const std::string& from : {secret(), scratch_.path() + "/nowhere"}) {
    common::Status taken = take_key(from, own(), "w");
    ASSERT_FALSE(taken.ok());
    EXPECT_EQ(taken.error().code, common::Code::kInvalidInput);
    EXPECT_NE(taken.error().message.find("lfarm keys init --workers"), std::string::npos);
  }
  EXPECT_FALSE(std::filesystem::exists(own()));
}

}  // namespace
}  // namespace worker
