// lfarm doctor: what this machine has of what lfarm uses, what is missing, and what to install.
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clients/cli/access/farm_options.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/cli/base/table.h"
#include "clients/cli/farm/calibrate.h"
#include "common/base/cat.h"
#include "common/cuda/cublaslt.h"
#include "common/cuda/driver.h"
#include "common/cuda/nvrtc.h"
#include "common/cuda/toolkit.h"
#include "common/process/host_compiler.h"
#include "common/process/processors.h"
#include "common/process/subprocess.h"
#include "common/runtime/device/blas.h"
#include "common/runtime/device/cpu_device.h"
#include "common/runtime/machine_class.h"
#include "common/sandbox/sandbox.h"

namespace clients {
namespace {

using common::cat;
using common::Result;
using Json = nlohmann::ordered_json;

struct DoctorOptions {
  FarmOptions farm;
  bool calibrate = false;
  int64_t candidates = kCalibrationCandidates;
  bool json = false;
};

// One line of the report.
struct Finding {
  std::string name;
  bool found = false;
  std::string what;  // what was found, or why it was not and what to install
};

// What can be done for one kind of device.
struct Verdict {
  std::string device;
  bool runs = false;      // plans
  bool compiles = false;  // new ones
  std::string target;     // of the plans; empty without a device
  std::string missing;    // empty when both are true
};

class Report {
 public:
  // Returns whether it was found.
  bool add(std::string name, const Result<std::string>& result) {
    findings_.push_back(
        {std::move(name), result.ok(), result.ok() ? *result : result.error().message});
    return findings_.back().found;
  }
  const std::vector<Finding>& findings() const { return findings_; }
  const std::string& last() const { return findings_.back().what; }

 private:
  std::vector<Finding> findings_;
};

Result<std::string> c_compiler() {
  LFARM_ASSIGN_OR_RETURN(common::HostCompiler found, common::find_host_compiler());
  return cat(found.program, ": ", found.version);
}

Result<std::string> openblas() {
  auto blas = common::Blas::open();
  if (!blas.ok()) {
    return common::unavailable(
        cat(blas.error().message, "; matrix products are generated code then"));
  }
  return common::blas_description();
}

// The farm's other programs, which stand beside this one.
Result<std::string> program(const char* name) {
  std::string path = cat(common::executable_directory(), "/", name);
  if (::access(path.c_str(), X_OK) == 0) return path;
  return common::unavailable(cat(path, " is not there; put it beside lfarm"));
}

Verdict examine_processor(Report& report) {
  Verdict verdict{"cpu", true, false, common::host_cpu_target().name, ""};
  int processors = common::usable_processors();
  report.add("processor",
             cat(verdict.target, ", ", processors, processors == 1 ? " processor" : " processors"));
  report.add("machine class", common::machine_class_of("cpu", processors));
  verdict.compiles = report.add("C compiler", c_compiler());
  if (!verdict.compiles) verdict.missing = report.last();
  report.add("OpenBLAS", openblas());
  for (const char* name : {"lfarm-coordinator", "lfarm-worker"}) {
    if (report.add(name, program(name))) continue;
    verdict.compiles = false;
    verdict.missing = report.last();
  }
  return verdict;
}

std::string describe(const common::CudaDeviceFacts& facts) {
  return cat(facts.name, ", ", common::cuda_architecture(facts.major, facts.minor), ", ",
             facts.multiprocessors, " multiprocessors, ",
             bytes_text(static_cast<double>(facts.memory_bytes)));
}

// `architecture`: of the device, empty without one.
Result<std::string> describe(const common::Nvrtc& nvrtc, std::string architecture) {
  if (architecture.empty()) architecture = cat("sm_", nvrtc.architectures().back());
  std::string text =
      cat(nvrtc.major_version(), ".", nvrtc.minor_version(), " (", nvrtc.library(), ")");
  if (!nvrtc.supports(architecture)) {
    return common::unavailable(cat(text, " does not compile for ", architecture,
                                   "; install a CUDA that is as new as the device"));
  }
  // An installation that lacks a part says so at the first text.
  auto nothing = nvrtc.compile("", architecture, {});
  if (!nothing.ok()) return common::unavailable(cat(text, ": ", nothing.error().message));
  text += ", compiles for sm_";
  const char* separator = "";
  for (int number : nvrtc.architectures()) {
    text += cat(separator, number);
    separator = ", ";
  }
  if (!nvrtc.compromise().empty()) text += cat("; ", nvrtc.compromise());
  return text;
}

// The architecture of the first device; empty without one. `driver_version`: of CUDA, 0 without.
std::string examine_devices(Report& report, int& driver_version) {
  auto driver = common::CudaDriver::open();
  if (!driver.ok()) {
    report.add("CUDA driver", driver.error());
    return "";
  }
  report.add("CUDA driver", (*driver)->version());
  driver_version = (*driver)->version_number();
  auto count = (*driver)->device_count();
  if (!count.ok()) {
    report.add("CUDA device", count.error());
    return "";
  }
  std::string architecture;
  for (int k = 0; k < std::max(1, *count); ++k) {
    auto facts = (*driver)->device(k);
    if (!facts.ok()) {
      report.add(cat("CUDA device ", k), facts.error());
      continue;
    }
    report.add(cat("CUDA device ", k), describe(*facts));
    if (architecture.empty()) architecture = common::cuda_architecture(facts->major, facts->minor);
  }
  return architecture;
}

Verdict examine_cuda(Report& report) {
  Verdict verdict{"cuda", false, false, "", ""};
  int driver_version = 0;
  std::string architecture = examine_devices(report, driver_version);
  verdict.runs = !architecture.empty();
  if (verdict.runs) {
    verdict.target = "cuda-" + architecture;
  } else {
    verdict.missing = report.last();
  }
  if (verdict.runs) report.add("GPU machine class", common::machine_class_of("cuda", 1));
  auto nvrtc = common::Nvrtc::open(driver_version);
  bool compiles = report.add(
      "NVRTC", nvrtc.ok() ? describe(**nvrtc, architecture) : Result<std::string>(nvrtc.error()));
  verdict.compiles = verdict.runs && compiles;
  if (verdict.runs && !compiles) verdict.missing = report.last();
  report.add("cuBLASLt", common::CublasLt::find_version());
  return verdict;
}

// Where the cache, keys and farms of this machine live. What is missing is made when it is needed.
Result<std::string> examine_state(const std::string& state) {
  std::filesystem::path there = state;
  std::error_code error;
  while (!std::filesystem::exists(there, error) && there.has_parent_path() &&
         there != there.parent_path()) {
    there = there.parent_path();
  }
  struct statvfs disk {};
  if (::statvfs(there.c_str(), &disk) != 0 || ::access(there.c_str(), W_OK) != 0 ||
      (disk.f_flag & ST_RDONLY) != 0) {
    return common::invalid_input(
        cat(state, " cannot be written: plans run, none can be found or kept here; choose another ",
            "with --state"));
  }
  constexpr uint64_t kRoomMin = uint64_t{64} << 20;
  uint64_t free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
  std::string room = cat(state, ", ", bytes_text(static_cast<double>(free_bytes)), " free");
  if (free_bytes < kRoomMin) {
    return common::unavailable(cat(room, ": free space or run lfarm cache gc"));
  }
  return room;
}

std::string describe(const Verdict& verdict) {
  if (!verdict.runs) return cat("plans do not run here: ", verdict.missing);
  std::string text = cat("plans for ", verdict.target, " run here");
  return verdict.compiles ? cat(text, ", and new ones are found here")
                          : cat(text, "; none can be found here: ", verdict.missing);
}

// What confines candidates and compilers here, for each kind of child.
struct Confinement {
  const char* children;
  std::shared_ptr<const common::Sandbox> sandbox;
};

std::vector<Confinement> examine_confinement() {
  using common::Sandbox;
  using common::SandboxProfile;
  return {{"executors", Sandbox::find(SandboxProfile::kComputing)},
          {"GPU executors", Sandbox::find(SandboxProfile::kDevice)},
          {"compilers", Sandbox::find(SandboxProfile::kCompiling)}};
}

// A measure is the same for all children that it is for.
void add_confinement(const std::vector<Confinement>& all, Table& table) {
  for (const common::SandboxMeasure& measure : all[0].sandbox->measures()) {
    std::string whose;
    for (const Confinement& confinement : all) {
      for (const common::SandboxMeasure& other : confinement.sandbox->measures()) {
        if (other.name == measure.name) {
          whose += cat(whose.empty() ? "" : ", ", confinement.children);
        }
      }
    }
    table.row({measure.name, measure.on ? "on" : "not here",
               measure.on ? cat(measure.what, " (", whose, ")") : measure.what});
  }
}

void print(const Report& report, const std::vector<Confinement>& confinements,
           const std::vector<Verdict>& verdicts) {
  Table table({});
  for (const Finding& finding : report.findings()) {
    table.row({finding.name, finding.found ? "found" : "missing", finding.what});
  }
  add_confinement(confinements, table);
  for (const Verdict& verdict : verdicts) {
    bool good = verdict.runs && verdict.compiles;
    table.row({"--device " + verdict.device,
               good           ? "yes"
               : verdict.runs ? "partly"
                              : "no",
               describe(verdict)});
  }
  table.print();
}

void print_json(const Report& report, const std::vector<Confinement>& confinements,
                const std::vector<Verdict>& verdicts) {
  Json json;
  for (const Finding& finding : report.findings()) {
    json["findings"].push_back(
        {{"name", finding.name}, {"found", finding.found}, {"what", finding.what}});
  }
  for (const Confinement& confinement : confinements) {
    for (const common::SandboxMeasure& measure : confinement.sandbox->measures()) {
      json["confinement"][confinement.children].push_back(
          {{"name", measure.name}, {"on", measure.on}, {"what", measure.what}});
    }
  }
  for (const Verdict& verdict : verdicts) {
    json["devices"][verdict.device] = {{"target", verdict.target},
                                       {"runs", verdict.runs},
                                       {"compiles", verdict.compiles},
                                       {"missing", verdict.missing}};
  }
  std::printf("%s\n", json.dump().c_str());
}

int examine(const DoctorOptions& options) {
  if (options.calibrate) return calibrate(options.farm, options.candidates, options.json);
  Report report;
  report.add("state directory", examine_state(options.farm.state));
  std::vector<Verdict> verdicts;
  verdicts.push_back(examine_processor(report));
  verdicts.push_back(examine_cuda(report));
  std::vector<Confinement> confinements = examine_confinement();
  options.json ? print_json(report, confinements, verdicts) : print(report, confinements, verdicts);
  for (const Verdict& verdict : verdicts) {
    bool asked = options.farm.device == "auto" || options.farm.device == verdict.device;
    if (asked && verdict.runs) return kExitDone;
  }
  return kExitFailed;
}

}  // namespace

void declare_doctor(CommandLine* line) {
  auto options = std::make_shared<DoctorOptions>();
  Command command = line->add(
      "doctor",
      "Says what this machine has of what lfarm uses, and what to install. Exits 0 when plans for\n"
      "the device run here.",
      [options] { return examine(*options); });
  command
      .value("--device", &options->farm.device, "auto|cpu|cuda",
             "What plans have to run on. auto: on anything")
      .one_of({"auto", "cpu", "cuda"})
      .shows_default();
  command.flag(
      "--calibrate", &options->calibrate,
      "Have small graphs compiled until the farm knows what kernels take on the device, and\n"
      "print how well their order was predicted; minutes, once for each machine");
  command.value("--budget", &options->candidates, "N", "Candidates of each graph, with --calibrate")
      .in_range(int64_t{2}, int64_t{10'000})
      .shows_default();
  add_farm_options(&command, &options->farm);
  command.flag("--json", &options->json, "Print JSON");
}

}  // namespace clients
