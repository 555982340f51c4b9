// The unmodified binaries on an emulated GPU: if these fail, a user with a GPU gets no plan, or one
// for another device.
#include "tests/farm/cli_testing.h"

namespace {

using cli_testing::CliTest;
using cli_testing::Invocation;

using CudaFarm = CliTest;

TEST_F(CudaFarm, PlansForTheGpuGiveWhatPyTorchGave) {
  // States stay on the device from step to step; sizes of a dynamic model bind calls anew.
  Invocation check = lfarm({"check", fixture("mlp"), fixture("kv_step"), fixture("mlp_dynamic"),
                            "--device", "cuda", "--budget", "2", "--workers", "1"});
  EXPECT_EQ(check.wait(), 0) << check.out() << check.err();
  EXPECT_NE(check.out().find("3 passed"), std::string::npos) << check.out();
}

TEST_F(CudaFarm, DevicesHavePlansOfTheirOwn) {
  auto submit = [&](const char* device) {
    Invocation run = lfarm(
        {"submit", model("mlp"), "--device", device, "--budget", "1", "--workers", "1", "--json"});
    EXPECT_EQ(run.wait(), 0) << run.err();
    return run.out();
  };
  std::string first = submit("auto");
  EXPECT_EQ(field(first, "target"), "cuda-sm_90a");
  EXPECT_EQ(field(first, "cache"), "miss");
  std::string other = submit("cpu");
  EXPECT_EQ(field(other, "target").substr(0, 4), "cpu-");
  EXPECT_EQ(field(other, "cache"), "miss");
  EXPECT_EQ(field(submit("cuda"), "plan"), field(first, "plan"));

  Invocation run = lfarm({"run", model("mlp"), "--device", "cuda", "--inputs",
                          fixture("mlp") + "/inputs", "--outputs", path("out")});
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_TRUE(std::filesystem::exists(path("out/0.npy")));
  Invocation show = lfarm({"plan", "show", model("mlp"), "--device", "cuda"});
  EXPECT_NE(show.out().find("cuda-sm_90a"), std::string::npos) << show.out() << show.err();
}

TEST_F(CudaFarm, SourcesArePrinted) {
  Invocation print = lfarm({"print", model("mlp"), "--stage", "source", "--device", "cuda"});
  EXPECT_EQ(print.wait(), 0) << print.err();
  EXPECT_NE(print.out().find("extern \"C\" __global__ void"), std::string::npos);
}

}  // namespace
