// The options that commands share: which farm, and how long to search.
#pragma once

#include <cstdint>
#include <string>

#include "clients/cli/base/command_line.h"
#include "common/base/result.h"
#include "common/plan/policy.h"
#include "common/runtime/device/devices.h"

namespace clients {

// Where plans come from.
// As many workers as there are GPUs, or two for processors.
inline constexpr int kWorkersOfDevice = -1;

struct FarmOptions {
  std::string farm;        // endpoint; empty: the state directory's farm, or one of our own
  std::string server_key;  // the farm's CURVE public key, for farms on other machines
  std::string keys;        // this client's CURVE key pair; empty: a file in the state directory
  std::string trust;       // the farm's signing key; empty: the one it had when it was first met
  std::string state;       // state directory, never empty after parsing
  std::string device = "auto";  // of this machine: what plans are for
  // What plans are for, whatever this machine has; empty: its device. A family ("cuda") is
  // whichever target of it the farm has workers for.
  std::string target;
  bool elsewhere = false;          // plans are not run by this process, so that it needs no device
  int workers = kWorkersOfDevice;  // of a farm of our own
};

// What to search for, and for how long.
struct BudgetOptions {
  int64_t candidates = 0;  // 0: no such limit
  double seconds = 0;      // 0: no such limit
  uint64_t seed = 0;
  common::PlanPolicy policy;
  int64_t priority = 10;       // among the jobs of one tenant
  bool force = false;          // a search although the plan that is there was given as much
  bool only_reverify = false;  // no search after an earlier compiler's winner was made anew
  std::string in_flight;       // a number, "auto", or empty for the farm's default
  std::string name;            // what people call the model, as common::Submit takes it
  bool takes_first = false;    // the first plan that is right will do
};

// The device that the options name. kInvalidInput says what is missing.
common::Result<common::FoundDevice> device_of(const FarmOptions& options);

// What the options ask plans for: --target, else what the device is. A device that this machine
// lacks is asked for by its family where plans are for elsewhere.
common::Result<common::Target> target_of(const FarmOptions& options);

// The machine class of the device that plans are for, with all threads, where it is this machine's;
// else empty: any.
std::string machine_of(const FarmOptions& options);

// A path to a model: of a folder, the model.pt2 within. Other texts stay as they are.
std::string model_file(const std::string& path);
// The model file, by position.
void add_model_argument(Command* command, std::string* model);
// --state. Every command has it, by itself or among the following.
void add_state_option(Command* command, FarmOptions* farm);
// --farm and its keys, --state: a farm that somebody runs.
void add_farm_options(Command* command, FarmOptions* farm);
// --allow: a farm's allow-list, and which file it is.
void add_allow_option(Command* command, std::string* allow);
std::string allow_path(const FarmOptions& farm, const std::string& allow);
// --device: what plans are for.
void add_device_option(Command* command, FarmOptions* farm);
// --target: plans that this process does not run.
void add_target_option(Command* command, FarmOptions* farm);
// --workers, --device: a farm of our own.
void add_process_options(Command* command, FarmOptions* farm);
// --numerics, --memory.
void add_policy_options(Command* command, common::PlanPolicy* policy);
// All of the above and the search's: what it takes to find a plan where nobody runs a farm.
// `seed` names the option of the search's seed.
void add_compile_options(Command* command, FarmOptions* farm, BudgetOptions* budget,
                         const char* seed = "--seed");

}  // namespace clients
