// The nearest known word: if these fail, mistyped commands are told a wrong one, or none.
#include "clients/cli/base/nearest.h"

#include <gtest/gtest.h>

namespace clients {
namespace {

const std::vector<std::string> kWords{"status", "submit", "up", "jobs", "cache"};

TEST(Nearest, EditsAreInsertionsDeletionsSubstitutionsAndSwaps) {
  EXPECT_EQ(nearest("submt", kWords), "submit");
  EXPECT_EQ(nearest("submitt", kWords), "submit");
  EXPECT_EQ(nearest("sumbit", kWords), "submit");
  EXPECT_EQ(nearest("staxus", kWords), "status");
  EXPECT_EQ(nearest("job", kWords), "jobs");
}

TEST(Nearest, WhatIsTooFarHasNone) {
  EXPECT_EQ(nearest("frobnicate", kWords), "");
  EXPECT_EQ(nearest("xy", kWords), "");
  EXPECT_EQ(nearest("", kWords), "");
  EXPECT_EQ(nearest("submit", {}), "");
}

}  // namespace
}  // namespace clients
