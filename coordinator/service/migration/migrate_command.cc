#include "coordinator/service/migration/migrate_command.h"

#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/incarnation.h"
#include "common/base/log.h"
#include "common/wire/plan_names.h"
#include "coordinator/service/inspect/state_command.h"
#include "coordinator/service/migration/farm_hold.h"
#include "coordinator/service/migration/migration.h"
#include "coordinator/service/sharing/object_store_options.h"
#include "coordinator/service/signing/farm_signer.h"

namespace coordinator::service {

using common::cat;
using common::Result;
using common::Status;

namespace {

constexpr int64_t kWaitMs = 10'000;
// Nobody waits for a migration that died, and one that loses its leases is begun again.
constexpr int64_t kLeaseMs = 15'000;
constexpr int64_t kProgressNs = 1'000'000'000;

struct Arguments {
  std::string to, state = common::default_state_directory();
  SharedTierOptions shared;
  ShardingOptions sharding;
  AccessOptions access;
};

std::atomic<bool> is_told_to_stop{false};
void stop(int) { is_told_to_stop = true; }

void declare(CLI::App& app, Arguments& arguments) {
  app.add_option("--to", arguments.to,
                 "remote: from the state directory to the engine; state: the other way")
      ->check(CLI::IsMember({"remote", "state"}))
      ->required();
  app.add_option("--state", arguments.state, "the coordinator's state directory, with its keys");
  app.add_option("--signer", arguments.access.signer,
                 "the socket of the farm's signer, where the state directory has no signing key");
  app.add_option("--remote", arguments.shared.address,
                 "the engine: redis://[user@]host[:port][/database] or redis+unix:///path")
      ->required();
  app.add_option("--remote-password-file", arguments.shared.password_file,
                 "its password, in a file that only its owner may read");
  declare_object_store(app, arguments.shared.objects);
  app.add_option("--remote-wait-ms", arguments.shared.wait_ms,
                 "for an answer of the engine, at most")
      ->check(CLI::Range(1, 60'000));
  app.add_option("--shard-lease-ms", arguments.sharding.duration_ms,
                 "of the leases that keep coordinators away meanwhile")
      ->check(CLI::Range(300, 600'000));
  app.add_option("--remote-replicas", arguments.sharding.replicas,
                 "of the engine that must have a change before it counts")
      ->check(CLI::Range(0, 100));
}

// A missing key is an error here: a new one would not match the signatures of the plans.
Result<SharedSigner> find_signer(const Arguments& arguments) {
  std::string path = arguments.state + "/signing.key";
  if (arguments.access.signer.empty() && ::access(path.c_str(), R_OK) != 0) {
    return common::invalid_input(cat(path,
                                     " cannot be read; a farm's plans are moved with the key that "
                                     "signed them, or with its signer (--signer)"));
  }
  return signer_of(arguments.state, arguments.access);
}

// Without bounds: nothing is removed here.
Result<std::unique_ptr<cache::Store>> open_store(const std::string& state) {
  cache::StoreOptions options;
  options.names_of = [](std::string_view bytes) { return common::plan_names(bytes); };
  return cache::Store::open(state, options);
}

void print(const MigrationCounts& counts) {
  auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf("%llu plans: %llu copied, %llu were there, %llu passed over, %llu refused\n",
              number(counts.plans), number(counts.copied), number(counts.there),
              number(counts.passed_over), number(counts.refused));
  std::printf("%llu of the plans have their recipes\n", number(counts.recipes));
  std::printf("%llu open jobs moved, %llu left\n", number(counts.jobs), number(counts.jobs_left));
  std::printf("%llu revocations known\n", number(counts.revocations));
  std::printf("%llu measurements of kernels copied, %llu left\n",
              number(counts.measurements.copied), number(counts.measurements.left));
  std::fflush(stdout);
}

Result<MigrationCounts> migrate(const Arguments& arguments) {
  common::SteadyClock clock;
  auto is_stopped = [] { return is_told_to_stop.load(); };
  LFARM_ASSIGN_OR_RETURN(SharedSigner signer, find_signer(arguments));
  LFARM_ASSIGN_OR_RETURN(SharedTierSetup setup, check_shared_tier(arguments.shared));
  LFARM_ASSIGN_OR_RETURN(std::unique_ptr<cache::Store> store, open_store(arguments.state));
  Sharding sharding(arguments.sharding, setup.remote, engine_space(signer->authority()),
                    common::Incarnation::draw(), clock);
  LFARM_ASSIGN_OR_RETURN(std::unique_ptr<FarmHold> hold,
                         FarmHold::take(sharding, arguments.sharding, clock, is_stopped));
  Migration migration(setup, sharding, *hold, signer, *store);
  int64_t told_ns = clock.now_ns();
  auto progress = [&](const MigrationCounts& counts) -> Status {
    if (is_stopped()) {
      return common::unavailable(cat("told to stop after ", counts.seen, " of ", counts.plans,
                                     " plans; run the same command to go on"));
    }
    if (clock.now_ns() - told_ns < kProgressNs) return {};
    told_ns = clock.now_ns();
    std::fprintf(stderr, "%llu of %llu plans\n", static_cast<unsigned long long>(counts.seen),
                 static_cast<unsigned long long>(counts.plans));
    return {};
  };
  return arguments.to == "remote" ? migration.to_engine(progress) : migration.to_store(progress);
}

}  // namespace

int run_migrate(int argc, const char* const* argv) {
  Arguments arguments;
  arguments.shared.wait_ms = kWaitMs;
  arguments.sharding.duration_ms = kLeaseMs;
  arguments.sharding.identity = cat("migration-", ::getpid());
  CLI::App app(
      "Moves a farm's plans, revocations, measurements and open jobs between its state directory "
      "and "
      "the engine of several coordinators, none of which may run.",
      "lfarm-coordinator migrate");
  declare(app, arguments);
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  common::log_init("lfarm-coordinator", common::LogLevel::kWarning);
  for (int signal : {SIGTERM, SIGINT}) ::signal(signal, stop);
  auto counts = migrate(arguments);
  if (!counts.ok()) return fail(counts.error());
  print(*counts);
  if (counts->refused == 0 && counts->jobs_left == 0) return 0;
  return fail({common::Code::kVerification,
               "not all could be moved; what could not stays where it is, and the log says why"});
}

}  // namespace coordinator::service
