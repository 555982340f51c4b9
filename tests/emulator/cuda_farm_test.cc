// The unmodified binaries on an emulated GPU: if these fail, a user with a GPU gets no plan, or one
// for another device.
#include <cstdlib>
#include <set>

#include "tests/farm/cli/cli_testing.h"

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

TEST_F(CudaFarm, AnOlderDriverIsToldOfAndServed) {
  ::setenv("LFARM_EMULATOR_DRIVER", "12040", 1);
  Invocation doctor = lfarm({"doctor"});
  doctor.wait();
  EXPECT_NE(doctor.out().find("the driver is of CUDA 12.4"), std::string::npos) << doctor.out();
  EXPECT_NE(doctor.out().find("PTX 8.4 is written"), std::string::npos) << doctor.out();
  Invocation check =
      lfarm({"check", fixture("mlp"), "--device", "cuda", "--budget", "1", "--workers", "1"});
  EXPECT_EQ(check.wait(), 0) << check.out() << check.err();
  ::unsetenv("LFARM_EMULATOR_DRIVER");
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

// Of processes that were started from now on: whether they find the emulated GPU.
void show_gpu(bool there) {
  static const std::string path = ::getenv("LD_LIBRARY_PATH");
  there ? ::setenv("LD_LIBRARY_PATH", path.c_str(), 1) : ::unsetenv("LD_LIBRARY_PATH");
  there ? ::unsetenv("CUDA_VISIBLE_DEVICES") : ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
}

TEST_F(CudaFarm, AMachineWithoutAGpuGetsPlansFromAFarmThatHasThem) {
  Invocation up = start({"up", "--device", "cuda", "--workers", "1", "--state", path("far")});
  ASSERT_TRUE(up.until_out("farm at ")) << up.err();
  std::string farm = up.out().substr(8, up.out().find('\n') - 8);
  show_gpu(false);
  std::string cache = "miss";
  const std::pair<const char*, const char*> wishes[] = {
      {"--device", "cuda"}, {"--target", "cuda"}, {"--target", "cuda-sm_90a"}};
  for (auto [option, value] : wishes) {
    Invocation submit =
        lfarm({"submit", model("mlp"), "--farm", farm, "--budget", "1", "--json", option, value});
    EXPECT_EQ(submit.wait(), 0) << submit.err();
    EXPECT_EQ(field(submit.out(), "target"), "cuda-sm_90a") << submit.out();
    EXPECT_EQ(field(submit.out(), "cache"), cache) << submit.out();
    cache = "hit";
  }
  // Plans are not made for what nobody has, and not run where they cannot be.
  Invocation alone = lfarm({"submit", model("mlp"), "--target", "cuda-sm_90a"});
  EXPECT_EQ(alone.wait(), 2);
  EXPECT_NE(alone.err().find("--farm"), std::string::npos) << alone.err();
  Invocation run = lfarm({"run", model("mlp"), "--farm", farm, "--device", "cuda", "--inputs",
                          fixture("mlp") + "/inputs", "--outputs", path("out")});
  EXPECT_EQ(run.wait(), 2);
  Invocation mixed = lfarm({"submit", model("mlp"), "--device", "cpu", "--target", "cuda"});
  EXPECT_EQ(mixed.wait(), 2);
  Invocation source =
      lfarm({"print", model("mlp"), "--stage", "source", "--target", "cuda-sm_90a"});
  EXPECT_EQ(source.wait(), 0) << source.err();
  EXPECT_NE(source.out().find("extern \"C\" __global__ void"), std::string::npos);
  show_gpu(true);
  up.signal(SIGTERM);
  EXPECT_EQ(up.wait(), 0) << up.err();
}

// The value of a variable among those that a process was started with.
std::string variable_of(pid_t pid, const std::string& name) {
  std::ifstream file(common::cat("/proc/", pid, "/environ"), std::ios::binary);
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (entry.rfind(name + "=", 0) == 0) return entry.substr(name.size() + 1);
  }
  return "";
}

TEST_F(CudaFarm, EveryWorkerHasAGpuOfItsOwn) {
  ::setenv("LFARM_EMULATOR_GPUS", "3", 1);
  ::setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
  Invocation up = start({"up", "--device", "cuda", "--workers", "3"});
  // Of the executors, which are the workers' children.
  std::multiset<std::string> gpus;
  up.until([&] {
    gpus.clear();
    for (pid_t worker : cli_testing::children(up.pid(), "lfarm-worker")) {
      for (pid_t child : cli_testing::children(worker, "lfarm-worker")) {
        gpus.insert(variable_of(child, "CUDA_VISIBLE_DEVICES"));
        break;
      }
    }
    // A child that begins or ends shows its worker's variables, or none.
    return gpus.size() == 3 && gpus.count("2,0") == 0 && gpus.count("") == 0;
  });
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  ::unsetenv("LFARM_EMULATOR_GPUS");
  EXPECT_EQ(gpus, (std::multiset<std::string>{"0", "2", "2"})) << up.err();
  up.signal(SIGTERM);
  EXPECT_EQ(up.wait(), 0) << up.err();
}

// Two workers on one GPU would take turns at measuring, and each compile what the other does.
TEST_F(CudaFarm, WithoutANumberEveryGpuHasAWorker) {
  Invocation one = start({"up", "--device", "cuda"});
  EXPECT_TRUE(one.until_out("1 worker, ")) << one.out() << one.err();
  one.signal(SIGTERM);
  EXPECT_EQ(one.wait(), 0) << one.err();
  ::setenv("LFARM_EMULATOR_GPUS", "3", 1);
  Invocation three = start({"up", "--device", "cuda"});
  EXPECT_TRUE(three.until_out("3 workers, ")) << three.out() << three.err();
  three.signal(SIGTERM);
  EXPECT_EQ(three.wait(), 0) << three.err();
  // Processors are enough for two that compile and measure beside each other.
  Invocation processors = start({"up", "--device", "cpu"});
  EXPECT_TRUE(processors.until_out("2 workers, ")) << processors.out() << processors.err();
  processors.signal(SIGTERM);
  EXPECT_EQ(processors.wait(), 0) << processors.err();
  ::unsetenv("LFARM_EMULATOR_GPUS");
}

// On a host of two kinds of GPUs the client's class and the worker's are those of the GPU that is
// named.
TEST_F(CudaFarm, AGpuIsChosenByItsNumber) {
  ::setenv("LFARM_EMULATOR_GPUS", "2", 1);
  ::setenv("LFARM_EMULATOR_SMS", "132,66", 1);
  Invocation up = start({"up", "--device", "cuda:1"});
  EXPECT_TRUE(up.until_out("1 worker, ")) << up.out() << up.err();
  Invocation submit = lfarm({"submit", model("mlp"), "--device", "cuda:1", "--budget", "1"});
  EXPECT_EQ(submit.wait(), 0) << submit.err();
  Invocation show = lfarm({"plan", "show", model("mlp"), "--device", "cuda:1"});
  EXPECT_EQ(show.wait(), 0) << show.err();
  EXPECT_NE(show.out().find("66 SMs"), std::string::npos) << show.out();
  Invocation missing = lfarm({"submit", model("mlp"), "--device", "cuda:2"});
  EXPECT_EQ(missing.wait(), 2);
  EXPECT_NE(missing.err().find("there is no CUDA device 2, only 2"), std::string::npos)
      << missing.err();
  up.signal(SIGTERM);
  EXPECT_EQ(up.wait(), 0) << up.err();
  ::unsetenv("LFARM_EMULATOR_GPUS");
  ::unsetenv("LFARM_EMULATOR_SMS");
}

TEST_F(CudaFarm, SourcesArePrinted) {
  Invocation print = lfarm({"print", model("mlp"), "--stage", "source", "--device", "cuda"});
  EXPECT_EQ(print.wait(), 0) << print.err();
  EXPECT_NE(print.out().find("extern \"C\" __global__ void"), std::string::npos);
}

}  // namespace
