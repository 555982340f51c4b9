// Measurements kept in a file, so that another cost model can be held against the same ones: what
// was measured once is not measured again.
#pragma once

#include <memory>
#include <string>

#include "tests/bench/search/cpu_device.h"

namespace bench {

// The n-th time that a program is to be measured it gets the n-th time's result of earlier runs of
// the benchmark, where the file has one; all others come from the device and are appended.
std::unique_ptr<CpuDevice> keep_measurements(std::unique_ptr<CpuDevice> device, std::string file);

}  // namespace bench
