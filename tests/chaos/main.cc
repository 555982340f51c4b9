// lfarm-chaos [--seconds N] [--seed S] [--only FAULT] [--coordinators N [--shards 64]]
//             [--searchers N] [--simulated WORKERS]
// A farm of real processes under faults, for a bounded time. Goal: whatever is killed, stopped,
// filled or cut, every model that a user keeps asking for gets exactly one plan, that plan is
// right, no worker of several coordinators is idle for long while tasks wait, and no process dies
// by itself. Method: clients submit models while a seed draws faults; then all is healed, clients
// must come to an end, and what they were told is compared with what the store holds and with
// PyTorch's outputs.
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "common/base/cat.h"
#include "tests/chaos/faults.h"
#include "tests/paths/paths.h"

namespace {

using chaos::Farm;
using common::cat;

// How often processes are looked after.
constexpr std::chrono::milliseconds kTick{10};
// How long clients may take to get their plans once nothing disturbs the farm any more.
constexpr int64_t kRecoveryNs = 180'000'000'000;

struct Options {
  int64_t seconds = 60;
  uint64_t seed = 1;
  int coordinators = 1;
  bool has_shards = false;
  int searchers = 0;  // of the coordinators in turn
  int simulated = 0;  // workers without a device
  std::string only;   // the name of a fault
};

// False after a mistake.
bool parse(int argc, char** argv, Options& options) {
  for (int k = 1; k < argc; k += 2) {
    if (k + 1 == argc) return false;
    if (std::strcmp(argv[k], "--only") == 0) {
      options.only = argv[k + 1];
      continue;
    }
    char* end = nullptr;
    errno = 0;
    unsigned long long value = std::strtoull(argv[k + 1], &end, 10);
    if (errno != 0 || *end != '\0' || end == argv[k + 1]) return false;
    if (std::strcmp(argv[k], "--seconds") == 0) {
      options.seconds = static_cast<int64_t>(std::min<unsigned long long>(value, 86'400));
    } else if (std::strcmp(argv[k], "--coordinators") == 0) {
      if (value < 1 || value > 16) return false;
      options.coordinators = static_cast<int>(value);
    } else if (std::strcmp(argv[k], "--shards") == 0) {
      if (value != 1 && value != 64) return false;
      options.has_shards = value == 64;
    } else if (std::strcmp(argv[k], "--searchers") == 0) {
      if (value > 16) return false;
      options.searchers = static_cast<int>(value);
    } else if (std::strcmp(argv[k], "--simulated") == 0) {
      if (value > 1024) return false;
      options.simulated = static_cast<int>(value);
    } else if (std::strcmp(argv[k], "--seed") == 0) {
      options.seed = value;
    } else {
      return false;
    }
  }
  return !options.has_shards || options.coordinators > 1;
}

// Small models and single operators, in an order that the seed decides.
std::vector<std::string> shuffled_cases(uint64_t seed) {
  std::vector<std::string> cases;
  for (const char* folder : {"models", "operators"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(cat(paths::fixtures(), "/", folder))) {
      cases.push_back(entry.path().string());
    }
  }
  std::sort(cases.begin(), cases.end());
  common::Random random(seed);
  for (size_t left = cases.size(); left > 1; --left) {
    std::swap(cases[left - 1], cases[random.below(left)]);
  }
  return cases;
}

// Clients that still wait are named.
void await_clients(Farm& farm) {
  common::SteadyClock clock;
  int64_t end = clock.now_ns() + kRecoveryNs;
  while (!farm.is_quiet() && clock.now_ns() < end && farm.violations().empty()) {
    farm.tend(false);
    std::this_thread::sleep_for(kTick);
  }
  if (!farm.violations().empty()) return;  // which nobody waited for to pass
  if (farm.simulated() != nullptr) {
    for (const std::string& what : farm.simulated()->complaints()) farm.complain(what);
  }
  for (const auto& client : farm.clients()) {
    if (client->current().empty()) continue;
    farm.complain(cat(client->name(), " still waits for ", client->current(),
                      "; last heard: ", client->last_words()));
  }
}

int run(const Options& options, const std::string& obstacle) {
  auto farm = Farm::start({paths::binaries(), shuffled_cases(options.seed), options.coordinators,
                           options.has_shards, options.searchers, options.simulated,
                           common::executable_directory() + "/lfarm-simulated-workers", obstacle});
  if (!farm.ok()) {
    std::printf("the farm does not start: %s\n", farm.error().message.c_str());
    return 1;
  }
  chaos::Faults faults(**farm, options.seed, options.only);
  common::SteadyClock clock;
  int64_t end = clock.now_ns() + options.seconds * 1'000'000'000;
  while (clock.now_ns() < end && (*farm)->violations().empty()) {
    (*farm)->tend(true);
    faults.tend(clock.now_ns());
    std::this_thread::sleep_for(kTick);
  }

  // After this line nothing disturbs the farm.
  faults.heal();
  (*farm)->say("healed");
  await_clients(**farm);
  if ((*farm)->violations().empty()) (*farm)->examine();

  (*farm)->say(faults.summary());
  (*farm)->say(cat((*farm)->submits_done(), " submits of ", (*farm)->cases_done(), " models in ",
                   (*farm)->attempts(), " attempts"));
  if ((*farm)->submits_done() == 0) (*farm)->complain("nothing was ever planned");
  if ((*farm)->violations().empty()) return 0;
  (*farm)->print_logs();
  for (const std::string& violation : (*farm)->violations()) {
    std::printf("VIOLATION: %s\n", violation.c_str());
  }
  std::string only = options.only.empty() ? "" : cat(" --only '", options.only, "'");
  if (options.coordinators > 1) only += cat(" --coordinators ", options.coordinators);
  if (options.has_shards) only += " --shards 64";
  if (options.searchers > 0) only += cat(" --searchers ", options.searchers);
  if (options.simulated > 0) only += cat(" --simulated ", options.simulated);
  std::printf("again: build/tests/lfarm-chaos --seconds %lld --seed %llu%s\n",
              static_cast<long long>(options.seconds),
              static_cast<unsigned long long>(options.seed), only.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: lfarm-chaos [--seconds N] [--seed S] [--only FAULT] [--coordinators N "
                 "[--shards 64]] [--searchers N] [--simulated WORKERS]\n");
    return 2;
  }
  std::printf("seed %llu, %lld s\n", static_cast<unsigned long long>(options.seed),
              static_cast<long long>(options.seconds));
  // What the user's environment says must not reach the farm.
  for (const char* name : {"LFARM_FARM", "LFARM_FARM_KEY", "LFARM_KEYS", "LFARM_TRUST"}) {
    ::unsetenv(name);
  }
  // Whoever loses its parent becomes this process's child, so that what outlives the farm is seen.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  common::Status left = chaos::leave_the_machine();
  return run(options, left.ok() ? "" : left.error().message);
}
