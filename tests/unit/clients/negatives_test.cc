// What clients remember of farms' refusals: if these fail, programs ask farms again and again for
// what they do not have, or never again.
#include "clients/runtime/farm/negatives.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "common/base/cat.h"
#include "common/base/files.h"

namespace clients {
namespace {

class NegativesTest : public testing::Test {
 protected:
  NegativesTest() : scratch_(make()) {}
  static common::ScratchDirectory make() {
    auto made = common::ScratchDirectory::create("negatives");
    if (!made.ok()) throw std::runtime_error(made.error().message);
    return std::move(made).value();
  }
  std::string directory() const { return scratch_.path() + "/negatives"; }
  // As another process would open it.
  Negatives open() {
    return Negatives(directory(), [this] { return now_s_; });
  }
  common::ScratchDirectory scratch_;
  int64_t now_s_ = 1'000'000;
  const common::Digest what_ = common::digest_of("farm and key");
  const common::Error why_ = common::unsupported("no such operator\nhere");
};

TEST_F(NegativesTest, AnAnswerHoldsForAllProcessesUntilItExpires) {
  EXPECT_FALSE(open().find(what_));
  open().note(what_, why_, 100);
  now_s_ += 99;
  auto found = open().find(what_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->code, common::Code::kUnsupported);
  EXPECT_EQ(found->message, why_.message);
  EXPECT_FALSE(open().find(common::digest_of("another")));
  now_s_ += 1;
  EXPECT_FALSE(open().find(what_));
  EXPECT_TRUE(std::filesystem::is_empty(directory()));
}

TEST_F(NegativesTest, AClockThatWasSetBackMakesNothingLast) {
  open().note(what_, why_, Negatives::kUnsupportedS);
  now_s_ -= 100'000;
  EXPECT_FALSE(open().find(what_));
}

TEST_F(NegativesTest, WhatIsForgottenIsAskedAgain) {
  open().note(what_, why_, 100);
  open().forget(what_);
  EXPECT_FALSE(open().find(what_));
}

TEST_F(NegativesTest, DamagedFilesAreNone) {
  for (const char* text :
       {"", "x", "12", "12 ", "99999999 2", "99999999 99\nwhy", "1000050 x\nwhy"}) {
    open().note(what_, why_, 100);
    std::ofstream(common::cat(directory(), "/", what_.hex()), std::ios::binary) << text;
    EXPECT_FALSE(open().find(what_)) << text;
  }
}

TEST_F(NegativesTest, OldAnswersDoNotPileUp) {
  for (int i = 0; i < 400; ++i) {
    open().note(common::digest_of(common::cat("key ", i)), why_, 10);
    now_s_ += 1;
  }
  auto files = std::filesystem::directory_iterator(directory());
  EXPECT_LT(std::distance(files, std::filesystem::directory_iterator()), 300);
}

}  // namespace
}  // namespace clients
