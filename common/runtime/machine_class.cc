#include "common/runtime/machine_class.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <vector>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/cuda/cublaslt.h"
#include "common/cuda/driver.h"
#include "common/cuda/nvml.h"

namespace common {
namespace {

constexpr size_t kSystemFileBytesMax = size_t{1} << 22;

std::string trimmed(std::string_view text) {
  while (!text.empty() && text.front() <= ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() <= ' ') text.remove_suffix(1);
  return std::string(text);
}

// Single blanks, and nothing but printable ASCII, of which a comma would look like a separator.
std::string as_part(std::string_view text) {
  std::string out;
  for (char c : text) {
    bool is_blank = c <= ' ' || c > '~' || c == ',';
    if (is_blank && (out.empty() || out.back() == ' ')) continue;
    out += is_blank ? ' ' : c;
  }
  return trimmed(out);
}

// Models have numbers, which hypervisors hide: "AMD EPYC Processor", "Common KVM processor". Clock
// rates and versions ("2.20GHz", "2.5+") are no models.
bool names_model(const std::string& name) {
  auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::istringstream words(name);
  for (std::string word; words >> word;) {
    bool is_rate = is_digit(word.front()) && word.find('.') != std::string::npos;
    if (!is_rate && std::any_of(word.begin(), word.end(), is_digit)) return true;
  }
  return false;
}

std::string size_text(int64_t bytes) {
  constexpr int64_t kKi = 1024, kMi = kKi * 1024;
  return bytes % kMi == 0 ? cat(bytes / kMi, " MiB") : cat(bytes / kKi, " KiB");
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!part.empty()) text += cat(text.empty() ? "" : ", ", part);
  }
  if (text.size() > kMachineBytesMax) text.resize(kMachineBytesMax);
  return text;
}

// The value of the first line "NAME : VALUE".
std::string field_of(const std::string& cpuinfo, std::string_view name) {
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line);) {
    size_t colon = line.find(':');
    if (colon == std::string::npos || trimmed(line.substr(0, colon)) != name) continue;
    return trimmed(std::string_view(line).substr(colon + 1));
  }
  return {};
}

// "32K", "512K", "32M"; 0 for anything else.
int64_t bytes_of(const std::string& size) {
  int64_t number = 0;
  auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), number);
  if (error != std::errc() || number <= 0) return 0;
  char unit = end == size.data() + size.size() ? ' ' : *end;
  return number * (unit == 'K' ? 1024 : unit == 'M' ? 1024 * 1024 : 1);
}

std::string text_of(const std::string& path) {
  auto text = read_file(path, kSystemFileBytesMax);
  return text.ok() ? trimmed(*text) : "";
}

Result<std::string> cuda_class(int index) {
  LFARM_ASSIGN_OR_RETURN(auto driver, CudaDriver::open());
  LFARM_ASSIGN_OR_RETURN(CudaDeviceFacts device, driver->device(index));
  GpuFacts facts{device.name, device.multiprocessors, device.memory_bytes, 0};
  // Without NVML, as in some containers, the class says less.
  if (auto nvml = NvmlDevice::open(device.uuid); nvml.ok()) {
    facts.power_limit_w = (*nvml)->power_limit_w();
    std::string name = (*nvml)->name();
    if (name.find(" MIG ") != std::string::npos) facts.name = name;
  }
  return class_text(facts);
}

}  // namespace

std::string class_text(const ProcessorFacts& facts) {
  std::string model = as_part(facts.model);
  if (!names_model(model) && !facts.family.empty()) {
    model += cat(model.empty() ? "" : " ", "family ", as_part(facts.family));
  }
  auto cache = [](const char* name, int64_t bytes) {
    return bytes > 0 ? cat(name, " ", size_text(bytes)) : std::string();
  };
  return joined({model, cache("L1d", facts.l1_bytes), cache("L2", facts.l2_bytes),
                 cache("L3", facts.l3_bytes),
                 cat(facts.threads, facts.threads == 1 ? " thread" : " threads")});
}

ProcessorFacts read_processor_facts(const std::string& root, int threads) {
  ProcessorFacts facts;
  facts.threads = threads;
  auto cpuinfo = read_file(root + "/proc/cpuinfo", kSystemFileBytesMax);
  if (cpuinfo.ok()) {
    facts.model = field_of(*cpuinfo, "model name");
    std::string family = field_of(*cpuinfo, "cpu family");
    if (!family.empty()) {
      facts.family =
          cat(family, "/", field_of(*cpuinfo, "model"), "/", field_of(*cpuinfo, "stepping"));
    }
    // Arm names parts by numbers only.
    std::string implementer = field_of(*cpuinfo, "CPU implementer");
    if (facts.family.empty() && !implementer.empty()) {
      facts.family =
          cat(implementer, "/", field_of(*cpuinfo, "CPU part"), "/",
              field_of(*cpuinfo, "CPU variant"), "/", field_of(*cpuinfo, "CPU revision"));
    }
  }
  constexpr int kCachesMax = 8;
  for (int index = 0; index < kCachesMax; ++index) {
    std::string cache = cat(root, "/sys/devices/system/cpu/cpu0/cache/index", index);
    std::string level = text_of(cache + "/level");
    if (level.empty() || text_of(cache + "/type") == "Instruction") continue;
    int64_t bytes = bytes_of(text_of(cache + "/size"));
    if (level == "1") facts.l1_bytes = bytes;
    if (level == "2") facts.l2_bytes = bytes;
    if (level == "3") facts.l3_bytes = bytes;
  }
  return facts;
}

std::string class_text(const GpuFacts& facts) {
  constexpr double kGi = 1024.0 * 1024 * 1024;
  std::string memory =
      facts.memory_bytes > 0
          ? cat(std::llround(static_cast<double>(facts.memory_bytes) / kGi), " GiB")
          : "";
  return joined({as_part(facts.name),
                 facts.multiprocessors > 0 ? cat(facts.multiprocessors, " SMs") : "", memory,
                 facts.power_limit_w > 0 ? cat(facts.power_limit_w, " W") : ""});
}

std::string machine_class_of(std::string_view device, int threads, int index) {
  if (device == "cpu") return class_text(read_processor_facts("", threads));
  auto text = device == "cuda" ? cuda_class(index) : unavailable("no such device");
  return text.ok() ? *text : "";
}

std::string cuda_library_text() {
  auto driver = CudaDriver::open();
  if (!driver.ok()) return {};
  std::string version = cat("CUDA ", (*driver)->version());
  auto device = (*driver)->device(0);
  auto nvml = device.ok() ? NvmlDevice::open(device->uuid) : device.error();
  if (nvml.ok()) version = cat((*nvml)->driver_version(), " (", version, ")");
  auto products = CublasLt::find_version();
  return cat("driver ", version, ", ", products.ok() ? cat("cuBLASLt ", *products) : "no cuBLASLt");
}

}  // namespace common
