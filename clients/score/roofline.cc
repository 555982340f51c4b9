#include "clients/score/roofline.h"

#include <unistd.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "common/base/cat.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/cost/gpu_machine.h"

namespace clients {

using common::cat;
using common::Result;
using Json = nlohmann::ordered_json;

namespace {

// Of what a file keeps: another one when something is measured in another way.
constexpr int kRooflineVersion = 3;
constexpr double kPerSecond = 1e9;  // of what there is in a nanosecond
// Of a launch that follows others, as the cost model has it; nobody measures it here.
constexpr double kGpuLaunchNs = 2000;

std::string kept_path(const std::string& folder, int threads) {
  char machine[256] = {};
  (void)::gethostname(machine, sizeof machine - 1);
  common::Digest digest = common::digest_of(cat(machine, "\n", processor_name(), "\n", threads));
  return cat(folder, "/roofline-", digest.short_hex(), ".json");
}

bool is_rate(double value) { return std::isfinite(value) && value > 0; }

}  // namespace

double read_bandwidth(const Roofline& roofline, double bytes) {
  for (const Bandwidth& read : roofline.reads) {
    if (bytes <= read.bytes) return read.bytes_per_s;
  }
  return roofline.reads.empty() ? 0 : roofline.reads.back().bytes_per_s;
}

std::optional<Roofline> data_sheet(std::string_view name) {
  const common::GpuMachine* machine = common::find_gpu_machine(name);
  if (machine == nullptr) return std::nullopt;
  Roofline roofline;
  roofline.device = std::string(name);
  roofline.source = "data sheet";
  roofline.operations_per_s = machine->single_per_ns * kPerSecond;
  roofline.half_operations_per_s = machine->half_tensor_per_ns * kPerSecond;
  roofline.reads = {{0, machine->dram_bytes_per_ns * kPerSecond}};
  roofline.launch_ns = kGpuLaunchNs;
  return roofline;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos)
      return line.substr(colon + 2);
  }
#if defined(__aarch64__)
  return "aarch64";
#else
  return "x86_64";
#endif
}

std::string encode_roofline(const Roofline& roofline) {
  Json reads = Json::array();
  for (const Bandwidth& read : roofline.reads) reads.push_back({read.bytes, read.bytes_per_s});
  Json json{{"roofline", kRooflineVersion},
            {"device", roofline.device},
            {"source", roofline.source},
            {"operations_per_s", roofline.operations_per_s},
            {"half_operations_per_s", roofline.half_operations_per_s},
            {"reads", std::move(reads)},
            {"launch_ns", roofline.launch_ns}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Roofline> decode_roofline(std::string_view text) {
  Roofline roofline;
  try {
    Json json = Json::parse(text.begin(), text.end());
    if (json.at("roofline") != kRooflineVersion)
      return common::corrupt("a roofline of another version");
    roofline.device = json.at("device").get<std::string>();
    roofline.source = json.at("source").get<std::string>();
    roofline.operations_per_s = json.at("operations_per_s").get<double>();
    roofline.half_operations_per_s = json.at("half_operations_per_s").get<double>();
    for (const Json& read : json.at("reads")) {
      roofline.reads.push_back({read.at(0).get<double>(), read.at(1).get<double>()});
    }
    roofline.launch_ns = json.at("launch_ns").get<double>();
  } catch (const Json::exception& error) {
    return common::corrupt(cat("no roofline: ", error.what()));
  }
  bool fits = is_rate(roofline.operations_per_s) && roofline.half_operations_per_s >= 0 &&
              roofline.launch_ns >= 0 && !roofline.reads.empty();
  for (const Bandwidth& read : roofline.reads) fits = fits && is_rate(read.bytes_per_s);
  if (!fits) return common::corrupt("a roofline of no device");
  return roofline;
}

std::optional<Roofline> kept_roofline_of_processor(const std::string& folder, int threads) {
  constexpr size_t kKeptMax = 1 << 16;
  auto text = common::read_file(kept_path(folder, threads), kKeptMax);
  if (!text.ok()) return std::nullopt;
  auto kept = decode_roofline(*text);
  return kept.ok() ? std::optional(std::move(*kept)) : std::nullopt;
}

Result<Roofline> roofline_of_processor(const std::string& folder, int threads, bool again) {
  std::string path = kept_path(folder, threads);
  if (!again) {
    if (auto kept = kept_roofline_of_processor(folder, threads)) return std::move(*kept);
  }
  Roofline measured = measure_processor(threads);
  LFARM_RETURN_IF_ERROR(common::make_directories(folder));
  LFARM_RETURN_IF_ERROR(
      common::write_file_atomic(path, common::as_bytes(encode_roofline(measured))));
  return measured;
}

}  // namespace clients
