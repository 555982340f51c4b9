// When compilers stand still for measurements.
#include "worker/agent/pipeline/measurement_pauses.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>

#include "common/base/cat.h"

namespace worker {
namespace {

class CountingCompiler final : public Compiler {
 public:
  common::Result<common::Bytes> compile(std::string_view, int) const override {
    return common::Bytes{};
  }
  const common::Digest& identity() const override { return identity_; }
  std::string description() const override { return "none"; }
  void pause() const override {
    EXPECT_FALSE(paused.exchange(true)) << "pauses do not nest";
    ++pauses;
  }
  void resume() const override { EXPECT_TRUE(paused.exchange(false)); }

  mutable std::atomic<bool> paused = false;
  mutable std::atomic<int> pauses = 0;

 private:
  common::Digest identity_{};
};

class MeasurementPausesTest : public testing::Test {
 protected:
  ~MeasurementPausesTest() override {
    std::filesystem::remove(common::cat(DeviceLock::kDirectory, "/", device_, ".lock"));
  }
  bool becomes(bool paused) const {
    for (int k = 0; k < 60'000; ++k) {
      if (compiler_->paused == paused) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  std::string device_ = common::cat("pauses-", ::getpid());
  std::shared_ptr<CountingCompiler> compiler_ = std::make_shared<CountingCompiler>();
  std::shared_ptr<common::PausableGroups> executors_ = std::make_shared<common::PausableGroups>();
};

TEST_F(MeasurementPausesTest, LastAsLongAsAMeasurement) {
  MeasurementPauses pauses(compiler_, executors_, device_);
  pauses.begin();
  auto measurement = std::make_unique<DeviceLock>(device_);
  EXPECT_TRUE(becomes(true));
  measurement.reset();
  EXPECT_TRUE(becomes(false));
}

TEST_F(MeasurementPausesTest, StopVerificationToo) {
  MeasurementPauses pauses(compiler_, executors_, device_);
  pauses.begin();
  EXPECT_EQ(executors_->paused_ns(), 0);
  DeviceLock measurement(device_);
  EXPECT_TRUE(becomes(true));
  EXPECT_TRUE(becomes(false));
  EXPECT_GT(executors_->paused_ns(), 0);
}

TEST_F(MeasurementPausesTest, GoOnUntilTheLastActivityEnds) {
  MeasurementPauses pauses(compiler_, executors_, device_);
  DeviceLock measurement(device_);
  pauses.begin();
  pauses.begin();
  pauses.end();
  EXPECT_TRUE(becomes(true));
}

TEST_F(MeasurementPausesTest, EndWithTheLastActivity) {
  MeasurementPauses pauses(compiler_, executors_, device_);
  DeviceLock measurement(device_);
  pauses.begin();
  EXPECT_TRUE(becomes(true));
  pauses.end();
  EXPECT_TRUE(becomes(false));
}

TEST_F(MeasurementPausesTest, DoNotLookWhileNothingRuns) {
  MeasurementPauses pauses(compiler_, executors_, device_);
  DeviceLock measurement(device_);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(compiler_->pauses, 0);
}

TEST_F(MeasurementPausesTest, EndWhereANeighbourMeasuresForEver) {
  MeasurementPauses pauses(compiler_, executors_, device_);
  DeviceLock measurement(device_);
  pauses.begin();
  EXPECT_TRUE(becomes(true));
  EXPECT_TRUE(becomes(false));
  EXPECT_TRUE(becomes(true)) << "and they begin again";
  EXPECT_EQ(compiler_->pauses, 2);
}

TEST_F(MeasurementPausesTest, AreOverWhenTheWorkerEnds) {
  DeviceLock measurement(device_);
  {
    MeasurementPauses pauses(compiler_, executors_, device_);
    pauses.begin();
    EXPECT_TRUE(becomes(true));
  }
  EXPECT_FALSE(compiler_->paused);
}

}  // namespace
}  // namespace worker
