// cuBLASLt where it is installed, on machines without a device: it is found with all that lfarm
// calls, and says so in one line when it cannot be used.
#include <gtest/gtest.h>

#include "common/cuda/cublaslt.h"

namespace common {
namespace {

TEST(CublasLt, AllFunctionsAreFound) {
  auto version = CublasLt::find_version();
  if (!version.ok()) {
    EXPECT_EQ(version.error().code, Code::kUnavailable);
    GTEST_SKIP() << version.error().message;
  }
  EXPECT_GE(std::stoi(*version), 12) << *version;
}

TEST(CublasLt, AMachineWithoutADeviceIsALineOfText) {
  auto opened = CublasLt::open();
  if (opened.ok()) GTEST_SKIP() << "there is a device here";
  EXPECT_FALSE(opened.error().message.empty());
  EXPECT_EQ(opened.error().message.find('\n'), std::string::npos) << opened.error().message;
}

}  // namespace
}  // namespace common
