// Which sandbox executors get.
#include <gtest/gtest.h>

#include <vector>

#include "worker/agent/executor_sandbox.h"

namespace worker {
namespace {

// What executor_sandbox() asked, in order: true for a sandbox, false for none.
struct Driver {
  bool in_sandbox = true, outside = true;
  std::vector<bool> asked;
  std::shared_ptr<const common::Sandbox> choose(bool has_driver) {
    return executor_sandbox(has_driver, [this](const common::Sandbox* sandbox) {
      asked.push_back(sandbox != nullptr);
      return sandbox != nullptr ? in_sandbox : outside;
    });
  }
};

bool has_measure(const common::Sandbox& sandbox, const std::string& name) {
  for (const common::SandboxMeasure& measure : sandbox.measures()) {
    if (measure.name == name) return true;
  }
  return false;
}

TEST(ExecutorSandbox, ProcessorsAreNotAsked) {
  Driver none;
  auto sandbox = none.choose(false);
  ASSERT_NE(sandbox, nullptr);
  EXPECT_TRUE(none.asked.empty());
  EXPECT_TRUE(has_measure(*sandbox, "private temporary directory"));
}

TEST(ExecutorSandbox, DriversKeepTheirFiles) {
  Driver driver;
  auto sandbox = driver.choose(true);
  ASSERT_NE(sandbox, nullptr);
  EXPECT_EQ(driver.asked, std::vector<bool>{true});
  EXPECT_FALSE(has_measure(*sandbox, "private temporary directory"));
}

TEST(ExecutorSandbox, OnlyADeviceThatTheSandboxKeepsFromOpeningGoesWithout) {
  Driver shut_out{false, true, {}};
  EXPECT_EQ(shut_out.choose(true), nullptr);
  Driver sick{false, false, {}};
  EXPECT_NE(sick.choose(true), nullptr);
}

}  // namespace
}  // namespace worker
