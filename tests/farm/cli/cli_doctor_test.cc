// lfarm doctor: what it says must agree with what the other programs do on the same machine.
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "common/runtime/device/cpu_device.h"
#include "common/sandbox/sandbox.h"
#include "tests/farm/cli/cli_testing.h"
#include "tests/paths/paths.h"

namespace {

using cli_testing::CliTest;
using cli_testing::Invocation;

class CliDoctor : public CliTest {
 protected:
  // The part of the JSON that is about a kind of device.
  static std::string about(const std::string& json, const std::string& device) {
    size_t devices = json.find("\"devices\":");
    size_t start = json.find("\"" + device + "\":", devices);
    return json.substr(start, json.find('}', start) - start);
  }
};

TEST_F(CliDoctor, TheProcessorRunsPlansAndFindsThem) {
  Invocation doctor = lfarm({"doctor", "--json"});
  EXPECT_EQ(doctor.wait(), 0) << doctor.err();
  std::string json = doctor.out();
  EXPECT_EQ(json.find('\n'), json.size() - 1) << json;
  std::string cpu = about(json, "cpu");
  EXPECT_EQ(field(cpu, "target"), common::host_cpu_target().name);
  EXPECT_EQ(field(cpu, "runs"), "true");
  EXPECT_EQ(field(cpu, "compiles"), "true") << json;
  Invocation text = lfarm({"doctor"});
  EXPECT_NE(text.out().find("--device cpu"), std::string::npos) << text.out();
}

// Each measure of the sandbox, on or with the reason why not, as the workers' logs have them.
TEST_F(CliDoctor, WhatConfinesChildrenIsSaid) {
  Invocation text = lfarm({"doctor"});
  Invocation json = lfarm({"doctor", "--json"});
  for (auto [children, profile] : {std::pair{"executors", common::SandboxProfile::kComputing},
                                   std::pair{"GPU executors", common::SandboxProfile::kDevice},
                                   std::pair{"compilers", common::SandboxProfile::kCompiling}}) {
    size_t at = json.out().find(common::cat("\"", children, "\":["));
    ASSERT_NE(at, std::string::npos) << json.out();
    std::string list = json.out().substr(at, json.out().find(']', at) - at);
    auto sandbox = common::Sandbox::find(profile);
    for (const common::SandboxMeasure& measure : sandbox->measures()) {
      std::string entry =
          common::cat("{\"name\":\"", measure.name, "\",\"on\":", measure.on ? "true" : "false");
      EXPECT_NE(list.find(entry), std::string::npos) << entry << " is not in " << list;
      EXPECT_NE(text.out().find(measure.what), std::string::npos) << text.out();
    }
  }
}

TEST_F(CliDoctor, AMissingCompilerIsNamedWithItsRemedy) {
  ::setenv("LFARM_CC", "/nonexistent/compiler", 1);
  Invocation doctor = lfarm({"doctor", "--json"});
  ::unsetenv("LFARM_CC");
  EXPECT_EQ(doctor.wait(), 0) << "plans that are there already need no compiler";
  std::string cpu = about(doctor.out(), "cpu");
  EXPECT_EQ(field(cpu, "runs"), "true");
  EXPECT_EQ(field(cpu, "compiles"), "false");
  EXPECT_NE(cpu.find("install clang-14"), std::string::npos) << cpu;
}

TEST_F(CliDoctor, TheExitCodeSaysWhetherTheDeviceThatWasAskedForRunsPlans) {
  EXPECT_EQ(lfarm({"doctor", "--device", "cpu"}).wait(), 0);
  Invocation doctor = lfarm({"doctor", "--device", "cuda", "--json"});
  std::string cuda = about(doctor.out(), "cuda");
  bool runs = field(cuda, "runs") == "true";
  EXPECT_EQ(doctor.wait(), runs ? 0 : 1) << doctor.out();
  EXPECT_EQ(field(cuda, "target").empty(), !runs) << cuda;
  EXPECT_EQ(field(cuda, "missing").empty(), runs && field(cuda, "compiles") == "true") << cuda;
}

TEST_F(CliDoctor, AnEmulatedDeviceIsADevice) {
  ::setenv("LD_LIBRARY_PATH", paths::binaries("/../tests/emulator").c_str(), 1);
  Invocation doctor = lfarm({"doctor", "--device", "cuda", "--json"});
  ::unsetenv("LD_LIBRARY_PATH");
  EXPECT_EQ(doctor.wait(), 0) << doctor.out();
  std::string cuda = about(doctor.out(), "cuda");
  EXPECT_EQ(field(cuda, "target"), "cuda-sm_90a");
  EXPECT_EQ(field(cuda, "runs"), "true");
  EXPECT_EQ(field(cuda, "compiles"), "true") << doctor.out();
}

// A device whose driver is there, while every NVRTC that could be found is none.
TEST_F(CliDoctor, PlansRunWithoutACompiler) {
  std::filesystem::create_symlink(paths::binaries("/../tests/emulator/libcuda.so.1"),
                                  path("libcuda.so.1"));
  for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"}) {
    write(name, "no library");
  }
  std::map<std::string, std::string> before;
  for (const char* name : {"LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "PATH"}) {
    const char* value = std::getenv(name);
    before[name] = value == nullptr ? "" : value;
    ::setenv(name, path("").c_str(), 1);
  }
  Invocation doctor = lfarm({"doctor", "--device", "cuda", "--json"});
  for (const auto& [name, value] : before) {
    value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
  }
  EXPECT_EQ(doctor.wait(), 0) << doctor.out();
  std::string cuda = about(doctor.out(), "cuda");
  EXPECT_EQ(field(cuda, "runs"), "true");
  EXPECT_EQ(field(cuda, "compiles"), "false") << doctor.out();
  EXPECT_NE(cuda.find("install CUDA"), std::string::npos) << cuda;
}

TEST_F(CliDoctor, ProgramsThatAreMissingAreNamed) {
  std::filesystem::copy_file(paths::binaries("/lfarm"), path("lfarm"));
  Invocation doctor(path(""), 1000, {"doctor", "--json"}, path("lfarm"));
  EXPECT_EQ(doctor.wait(), 0) << doctor.err();
  std::string cpu = about(doctor.out(), "cpu");
  EXPECT_EQ(field(cpu, "runs"), "true");
  EXPECT_EQ(field(cpu, "compiles"), "false") << doctor.out();
  EXPECT_NE(cpu.find("lfarm-worker"), std::string::npos) << cpu;
}

// What a farm learns of small graphs is what it begins with at their next sizes; asked again, it
// measures nothing more.
TEST_F(CliDoctor, CalibratingSaysHowWellTimesArePredicted) {
  std::vector<std::string> words{"doctor",   "--calibrate", "--device", "cpu",
                                 "--budget", "3",           "--json"};
  Invocation first = lfarm(words);
  ASSERT_EQ(first.wait(), 0) << first.err();
  nlohmann::json report = nlohmann::json::parse(first.out());
  EXPECT_EQ(report.at("target"), common::host_cpu_target().name);
  EXPECT_EQ(report.at("rank_correlation").size(), 2u);
  EXPECT_GE(report.at("graphs").size(), 10u);
  for (const auto& graph : report.at("graphs")) {
    ASSERT_EQ(graph.at("rounds").size(), 2u) << graph;
    for (const auto& round : graph.at("rounds")) {
      EXPECT_GT(round.at("schedules").get<int>(), 0) << graph;
      for (const char* order : {"by_constants", "predicted"}) {
        double value = round.at("rank_correlation").at(order).get<double>();
        EXPECT_LE(std::abs(value), 1) << graph;
      }
    }
    EXPECT_EQ(graph.at("rounds")[1].at("calibration"), "measured") << graph;
  }
  EXPECT_EQ(report.at("graphs")[0].at("rounds")[0].at("calibration"), "default");
  Invocation again = lfarm(words);
  EXPECT_EQ(again.wait(), 0) << again.err();
  EXPECT_EQ(nlohmann::json::parse(again.out()), report);
}

TEST_F(CliDoctor, EveryDeviceIsListed) {
  ::setenv("LD_LIBRARY_PATH", paths::binaries("/../tests/emulator").c_str(), 1);
  ::setenv("LFARM_EMULATOR_GPUS", "3", 1);
  Invocation all = lfarm({"doctor", "--json"});
  ::setenv("CUDA_VISIBLE_DEVICES", "2,1", 1);
  Invocation some = lfarm({"doctor", "--json"});
  for (const char* name : {"LD_LIBRARY_PATH", "LFARM_EMULATOR_GPUS", "CUDA_VISIBLE_DEVICES"}) {
    ::unsetenv(name);
  }
  EXPECT_NE(all.out().find("CUDA device 2"), std::string::npos) << all.out();
  EXPECT_EQ(all.out().find("CUDA device 3"), std::string::npos) << all.out();
  EXPECT_NE(some.out().find("CUDA device 1"), std::string::npos) << some.out();
  EXPECT_EQ(some.out().find("CUDA device 2"), std::string::npos) << some.out();
}

TEST_F(CliDoctor, ADriverWithoutADeviceIsNoDevice) {
  ::setenv("LD_LIBRARY_PATH", paths::binaries("/../tests/emulator").c_str(), 1);
  ::setenv("LFARM_EMULATOR_GPUS", "0", 1);
  Invocation doctor = lfarm({"doctor", "--device", "cuda", "--json"});
  for (const char* name : {"LD_LIBRARY_PATH", "LFARM_EMULATOR_GPUS"}) ::unsetenv(name);
  EXPECT_EQ(doctor.wait(), 1) << doctor.out();
  std::string cuda = about(doctor.out(), "cuda");
  EXPECT_EQ(field(cuda, "runs"), "false");
  EXPECT_NE(cuda.find("the CUDA driver sees no device"), std::string::npos) << cuda;
}

}  // namespace
