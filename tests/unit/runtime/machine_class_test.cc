// The text of a machine class: if these fail, machines that differ pass for one, and plans and
// measurements of one are used on the other; or a client's text differs from its worker's.
#include "common/runtime/machine_class.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "common/base/cat.h"
#include "common/base/files.h"

namespace common {
namespace {

constexpr int64_t kKi = 1024, kMi = kKi * kKi, kGi = kMi * kKi;

// /proc and /sys of a machine that is not this one.
class MachineFiles {
 public:
  MachineFiles() : scratch_(ScratchDirectory::create("machine").value()) {}
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::path file = scratch_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    ASSERT_TRUE(write_file_atomic(file.string(), as_bytes(text)).ok());
  }
  void cache(int index, const std::string& level, const std::string& type,
             const std::string& size) const {
    std::string directory = cat("/sys/devices/system/cpu/cpu0/cache/index", index);
    write(directory + "/level", level + "\n");
    write(directory + "/type", type + "\n");
    write(directory + "/size", size + "\n");
  }
  const std::string& root() const { return scratch_.path(); }

 private:
  ScratchDirectory scratch_;
};

std::string cpuinfo(const std::string& model) {
  return cat("processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\n",
             "model name\t: ", model, "\nstepping\t: 1\ncpu MHz\t\t: 2445.406\n",
             "\nprocessor\t: 1\nmodel name\t: another\n");
}

TEST(MachineClass, AProcessorIsItsModelCachesAndThreads) {
  MachineFiles files;
  files.write("/proc/cpuinfo", cpuinfo("AMD EPYC 7763 64-Core Processor"));
  files.cache(0, "1", "Data", "32K");
  files.cache(1, "1", "Instruction", "64K");
  files.cache(2, "2", "Unified", "512K");
  files.cache(3, "3", "Unified", "32768K");
  EXPECT_EQ(class_text(read_processor_facts(files.root(), 2)),
            "AMD EPYC 7763 64-Core Processor, L1d 32 KiB, L2 512 KiB, L3 32 MiB, 2 threads");
  // Threads are part of it.
  EXPECT_NE(class_text(read_processor_facts(files.root(), 2)),
            class_text(read_processor_facts(files.root(), 64)));
}

TEST(MachineClass, WhereTheNameSaysNothingTheDesignsNumbersDo) {
  for (const char* vague : {"AMD EPYC Processor", "Common KVM processor",
                            "QEMU Virtual CPU version 2.5+", "Intel(R) Xeon(R) CPU @ 2.20GHz"}) {
    MachineFiles files;
    files.write("/proc/cpuinfo", cpuinfo(vague));
    EXPECT_EQ(class_text(read_processor_facts(files.root(), 1)),
              cat(vague, " family 25/1/1, 1 thread"));
  }
  MachineFiles arm;
  arm.write("/proc/cpuinfo",
            "processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU variant\t: 0x3\n"
            "CPU part\t: 0xd0c\nCPU revision\t: 1\n");
  EXPECT_EQ(class_text(read_processor_facts(arm.root(), 4)), "family 0x41/0xd0c/0x3/1, 4 threads");
}

TEST(MachineClass, WhatTheSystemDoesNotSayIsLeftOut) {
  MachineFiles empty;
  EXPECT_EQ(class_text(read_processor_facts(empty.root(), 3)), "3 threads");
  MachineFiles odd;
  odd.write("/proc/cpuinfo", cpuinfo("Model 7,\x01 of\xc3\xa9   commas"));
  odd.cache(0, "1", "Data", "?");
  odd.cache(1, "2", "Unified", "-4K");
  EXPECT_EQ(class_text(read_processor_facts(odd.root(), 1)), "Model 7 of commas, 1 thread");
}

TEST(MachineClass, AGpuIsItsProductSizeMemoryAndPower) {
  EXPECT_EQ(class_text(GpuFacts{"NVIDIA H200", 132, 141 * kGi, 700}),
            "NVIDIA H200, 132 SMs, 141 GiB, 700 W");
  // The same product with another power limit, or a slice of it, is another class.
  EXPECT_EQ(class_text(GpuFacts{"NVIDIA H100 PCIe", 114, 80 * kGi - 400 * kMi, 350}),
            "NVIDIA H100 PCIe, 114 SMs, 80 GiB, 350 W");
  EXPECT_EQ(class_text(GpuFacts{"NVIDIA H100 PCIe MIG 1g.10gb", 14, 10 * kGi, 350}),
            "NVIDIA H100 PCIe MIG 1g.10gb, 14 SMs, 10 GiB, 350 W");
  EXPECT_EQ(class_text(GpuFacts{"NVIDIA H200", 132, 141 * kGi, 0}),
            "NVIDIA H200, 132 SMs, 141 GiB");
}

TEST(MachineClass, IsAlwaysFitToBeANameOnTheWire) {
  ProcessorFacts facts;
  facts.model = std::string(4'000, 'x') + "1";
  EXPECT_EQ(class_text(facts).size(), kMachineBytesMax);
  std::string here = machine_class_of("cpu", 2);
  EXPECT_FALSE(here.empty());
  for (char c : here) EXPECT_TRUE(c >= ' ' && c <= '~') << here;
  EXPECT_EQ(here, machine_class_of("cpu", 2)) << "it varies from moment to moment";
  EXPECT_EQ(machine_class_of("abacus", 2), "");
}

}  // namespace
}  // namespace common
