#include "clients/cli/access/farm_options.h"

#include <charconv>
#include <filesystem>

#include "clients/runtime/farm/state_directory.h"
#include "clients/runtime/model/instance.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/runtime/machine_class.h"
#include "common/wire/codec.h"

namespace clients {
namespace {

// As help lists them; the first is the library's for what is said to be of no other.
constexpr const char* kOwnHeading = "Options";
constexpr const char* kFarmHeading = "Farm";

std::string device_problem(const std::string& text) {
  if (common::is_device_name(text)) return "";
  return common::cat(text, " is not auto, cpu, cuda or, for the second GPU, cuda:1");
}

std::string in_flight_problem(const std::string& text) {
  if (text == "auto") return "";
  const char* end = text.data() + text.size();
  uint32_t number = 0;
  auto read = std::from_chars(text.data(), end, number);
  bool fits =
      read.ec == std::errc() && read.ptr == end && number >= 1 && number <= common::kInFlightMax;
  return fits ? "" : common::cat("Value ", text, " not in range 1 to ", common::kInFlightMax);
}

std::string model_problem(const std::string& path) {
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  bool is_lacking = path.ends_with("/model.pt2") && !common::file_exists(path) &&
                    std::filesystem::is_directory(folder, ignored);
  return is_lacking ? common::cat("the folder ", folder.string(),
                                  " has no model.pt2; name the file that torch.export.save wrote")
                    : "";
}

// "cuda-sm_90a": a number and, of some, a letter.
bool is_gpu_target(std::string_view name) {
  constexpr std::string_view kBegin = "cuda-sm_";
  if (!name.starts_with(kBegin)) return false;
  std::string_view version = name.substr(kBegin.size());
  size_t digits = std::min(version.find_first_not_of("0123456789"), version.size());
  std::string_view letter = version.substr(digits);
  return digits >= 2 && digits <= 3 && (letter.empty() || letter == "a" || letter == "f");
}

std::string target_problem(const std::string& name) {
  constexpr std::string_view kKnown[] = {"cpu",
                                         "cpu-x86_64",
                                         "cpu-x86_64-avx2",
                                         "cpu-x86_64-avx512",
                                         "cpu-x86_64-avx512bf16",
                                         "cpu-x86_64-amxbf16",
                                         "cpu-aarch64",
                                         "cuda"};
  if (is_gpu_target(name)) return "";
  std::string all;
  for (std::string_view known : kKnown) {
    if (name == known) return "";
    all += common::cat(known, ", ");
  }
  return common::cat(name, " is no target; there are ", all, "and cuda-sm_N, such as cuda-sm_90a");
}

}  // namespace

std::string model_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? common::cat(path, "/model.pt2") : path;
}

common::Result<common::FoundDevice> device_of(const FarmOptions& options) {
  auto found = common::find_device(options.device);
  if (found.ok()) return found;
  return common::invalid_input(
      common::cat("--device ", options.device, ": ", found.error().message));
}

common::Result<common::Target> target_of(const FarmOptions& options) {
  if (!options.target.empty()) {
    if (options.device != "auto" &&
        common::device_family(options.device) != common::family_of(options.target)) {
      return common::invalid_input(common::cat("--device ", options.device, " and --target ",
                                               options.target, " are different machines"));
    }
    return common::Target{options.target};
  }
  auto device = device_of(options);
  if (device.ok()) return device->target;
  // A number is of this machine's.
  if (options.elsewhere && !common::device_number(options.device)) {
    return common::Target{std::string(common::device_family(options.device))};
  }
  return device.error();
}

std::string machine_of(const FarmOptions& options) {
  FarmOptions here = options;
  if (!options.target.empty() && options.device == "auto") {
    here.device = common::family_of(options.target);
  }
  auto device = device_of(here);
  bool is_here = device.ok() &&
                 (options.target.empty() || common::is_target(device->target.name, options.target));
  return is_here ? common::machine_class_of(device->name, default_threads(), device->index) : "";
}

void add_model_argument(Command* command, std::string* model) {
  command
      ->value("model", model, "MODEL.pt2", "What torch.export.save wrote; of a folder, model.pt2")
      .required()
      .stands_for(model_file)
      .check(model_problem);
}

void add_state_option(Command* command, FarmOptions* farm) {
  command->heading(kFarmHeading);
  command->value("--state", &farm->state, "DIR",
                 "State directory: cache, keys and logs of the farm on this machine\n"
                 "(default: $LFARM_STATE, $XDG_STATE_HOME/lfarm or ~/.local/state/lfarm)");
  command->when_read([farm] {
    if (farm->state.empty()) farm->state = common::default_state_directory();
  });
  command->heading(kOwnHeading);
}

void add_farm_options(Command* command, FarmOptions* farm) {
  command->heading(kFarmHeading);
  command
      ->value("--farm", &farm->farm, "ENDPOINT",
              "The farm's endpoint, such as tcp://127.0.0.1:7171")
      .from_environment("LFARM_FARM");
  command
      ->value("--farm-key", &farm->server_key, "KEY",
              "The farm's public key; needed for farms on other machines")
      .from_environment("LFARM_FARM_KEY");
  command
      ->value("--keys", &farm->keys, "FILE",
              "This client's key pair (default: client_keys in the state directory)")
      .from_environment("LFARM_KEYS");
  command
      ->value("--trust", &farm->trust, "KEY",
              "The key that the farm signs plans with (default: the one that it had at the first\n"
              "meeting, kept in known_farms in the state directory)")
      .from_environment("LFARM_TRUST");
  add_state_option(command, farm);
}

void add_allow_option(Command* command, std::string* allow) {
  command->value("--allow", allow, "FILE",
                 "The farm's allow-list (default: allow in the state directory)");
}

std::string allow_path(const FarmOptions& farm, const std::string& allow) {
  return allow.empty() ? StateDirectory{farm.state}.allow_file() : allow;
}

void add_device_option(Command* command, FarmOptions* farm) {
  command
      ->value("--device", &farm->device, "auto|cpu|cuda|cuda:N",
              "What plans are measured and run on; GPUs are numbered from 0.\n"
              "auto: a GPU where there is one")
      .check(device_problem)
      .shows_default();
}

void add_target_option(Command* command, FarmOptions* farm) {
  command
      ->value("--target", &farm->target, "NAME",
              "What plans are for, such as cuda-sm_90a, or cuda for that of the farm's GPUs;\n"
              "this machine needs no such device (default: that of --device)")
      .check(target_problem);
  farm->elsewhere = true;
}

void add_process_options(Command* command, FarmOptions* farm) {
  command
      ->value("--workers", &farm->workers, "N",
              "Worker processes; of several GPUs each takes the next\n"
              "(default: one for each GPU, or 2 for processors)")
      .in_range(int64_t{1}, int64_t{256});
  add_device_option(command, farm);
}

void add_policy_options(Command* command, common::PlanPolicy* policy) {
  command
      ->value("--numerics", &policy->numerics, "strict|relaxed",
              "strict: every rewrite holds for all values, infinities and NaN included.\n"
              "relaxed: some hold only while all values are finite")
      .one_of({"strict", "relaxed"})
      .shows_default();
  command
      ->value("--memory", &policy->memory_bytes, "BYTES",
              "A run's values between kernels and scratch areas take at most this much: what\n"
              "does not fit is computed again (default: as much as the fastest plan needs)")
      .in_range(int64_t{1}, int64_t{1} << 50);
}

void add_compile_options(Command* command, FarmOptions* farm, BudgetOptions* budget,
                         const char* seed) {
  command->heading("Search");
  command->value("--budget", &budget->candidates, "N", "Candidates to try at most (default: 64)")
      .in_range(int64_t{1}, int64_t{1} << 40);
  command->value("--time", &budget->seconds, "S", "Seconds to search at most").in_range(0.001, 1e7);
  command->value(seed, &budget->seed, "K", "Seed of the search");
  command
      ->value("--priority", &budget->priority, "N",
              "1 to 100: the job's share of the workers among those of one tenant")
      .in_range(int64_t{1}, int64_t{common::kPriorityMax})
      .shows_default();
  command
      ->value("--in-flight", &budget->in_flight, "N|auto",
              "Candidates sent before the first one's result must be known; another number leads\n"
              "the search another way. auto: as many as there are slots, 12 to 64 (default:\n"
              "auto, and at most a fifth of the budget)")
      .check(in_flight_problem);
  command->flag(
      "--only-reverify", &budget->only_reverify,
      "Where an earlier compiler's plan can be made anew, that is all: no search follows");
  add_policy_options(command, &budget->policy);
  command->heading(kFarmHeading);
  add_process_options(command, farm);
  add_farm_options(command, farm);
}

}  // namespace clients
