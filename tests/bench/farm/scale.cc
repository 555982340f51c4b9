// scale --plans N --measurements M [--state DIR]: what a farm's store answers with, and how soon,
// when it holds that many of them, each with a small kernel. With --engine it is the store of
// several coordinators (scale_engine.h).
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <limits>
#include <nlohmann/json.hpp>

#include "cache/store/store.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/random.h"
#include "tests/bench/bench.h"
#include "tests/bench/farm/farm_under_load.h"
#include "tests/bench/farm/scale_engine.h"
#include "tests/bench/farm/timed.h"

namespace bench {
namespace {

using common::cat;
using common::Digest;
using common::digest_of;

struct ScaleOptions {
  int64_t plans = 1'000'000;
  int64_t measurements = 10'000'000;
  size_t plan_bytes = 512;
  int64_t evict_percent = 0;
  std::string state, engine;
};

Digest plan_key(int64_t k) { return digest_of(cat("plan ", k)); }
Digest plan_id(int64_t k) { return digest_of(cat("id ", k)); }
Digest kernel(int64_t k) { return digest_of(cat("kernel ", k)); }

void put_plans(cache::Store& store, const ScaleOptions& options) {
  constexpr int64_t kAtATime = 2000;
  common::Random random(1);
  std::string bytes(options.plan_bytes, '\0');
  for (int64_t from = 0; from < options.plans; from += kAtATime) {
    std::vector<cache::NewPlan> some;
    for (int64_t k = from; k < std::min(options.plans, from + kAtATime); ++k) {
      for (char& byte : bytes) byte = static_cast<char>(random.next());
      cache::NewPlan& plan = some.emplace_back();
      plan.facts = {plan_key(k), digest_of(cat("graph ", k)), plan_id(k), 1000, 1000};
      plan.bytes = bytes;
      plan.needs = {must(store.put_blob(cat("object ", k)))};
      plan.names = {digest_of(cat("name ", k))};
    }
    must(store.put_plans_if_better(some));
  }
}

void put_measurements(cache::Store& store, const ScaleOptions& options) {
  constexpr int64_t kAtATime = 20'000;
  const std::string device = "cpu Intel Xeon, 8 MiB, 2 threads";
  for (int64_t from = 0; from < options.measurements; from += kAtATime) {
    cache::Changes changes;
    for (int64_t k = from; k < std::min(options.measurements, from + kAtATime); ++k) {
      changes.measurements.push_back({kernel(k), device, {1.0 + static_cast<double>(k), 5, k}});
    }
    must(store.commit({&changes, 1}));
  }
}

int run(const ScaleOptions& options) {
  auto scratch = must(common::ScratchDirectory::create("lfarm-scale"));
  std::string state = options.state.empty() ? scratch.path() + "/state" : options.state;
  common::SteadyClock clock;
  int64_t start_ns = clock.now_ns();
  {
    auto store = must(cache::Store::open(state));
    cache::StoreStats stats = must(store->stats());
    if (stats.plans.count == 0) {
      put_plans(*store, options);
      put_measurements(*store, options);
    }
  }
  nlohmann::ordered_json line;
  line["filled_s"] = static_cast<double>(clock.now_ns() - start_ns) * 1e-9;
  std::unique_ptr<cache::Store> store;
  line["open"] = timed(1, [&](int) { store = must(cache::Store::open(state)); });
  cache::StoreStats stats = must(store->stats());
  line["plans"] = stats.plans.count;
  line["measurements"] = stats.measurements.count;
  line["disk_bytes"] = stats.disk_bytes;
  line["status"] = timed(20, [&](int) { must(store->stats()); });
  common::Random random(7);
  auto any = [&] {
    return static_cast<int64_t>(random.below(static_cast<uint64_t>(options.plans)));
  };
  line["lookup"] = timed(2000, [&](int) { must(store->get_bundle(plan_key(any()))); });
  line["measurement"] = timed(2000, [&](int) {
    must(store->get_measurement(kernel(any()), "cpu Intel Xeon, 8 MiB, 2 threads"));
  });
  line["revoke"] = timed(20, [&](int) { must(store->revoke(plan_id(any()), "bench")); });
  line["page"] = timed(20, [&](int) { must(store->newest_plans({}, 1'000)); });
  line["find"] = timed(
      2000, [&](int) { must(store->plans_beginning(plan_id(any()).hex().substr(0, 12), 1'000)); });
  line["has_blob"] =
      timed(2000, [&](int) { must(store->has_blob(digest_of(cat("object ", any())))); });
  line["rss_mb"] = process_use(::getpid()).now_mb;
  // Without a bound: it removes the kernels of plans that were revoked above, and compacts.
  line["collection"] =
      timed(1, [&](int) { must(store->gc(std::numeric_limits<uint64_t>::max())); });
  if (options.evict_percent > 0) {
    const uint64_t bytes = stats.plans.bytes + stats.kernels.bytes;
    const uint64_t kept = bytes / 100 * static_cast<uint64_t>(100 - options.evict_percent);
    line["eviction"] =
        timed(1, [&](int) { line["plans_evicted"] = must(store->gc(kept)).plans_removed; });
  }
  // With what filling took, where this process has filled the store.
  line["peak_rss_mb"] = process_use(::getpid()).peak_mb;
  std::printf("%s\n", line.dump().c_str());
  return 0;
}

}  // namespace

int run_scale(const std::vector<std::string>& arguments) {
  ScaleOptions options;
  CLI::App app("A store of many plans and measurements.", "lfarm-bench scale");
  app.add_option("--plans", options.plans, "plans")->capture_default_str();
  app.add_option("--measurements", options.measurements, "measurements")->capture_default_str();
  app.add_option("--plan-bytes", options.plan_bytes, "bytes of each plan")->capture_default_str();
  app.add_option("--evict-percent", options.evict_percent,
                 "share of the bytes that a collection removes at the end")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  app.add_option("--state", options.state,
                 "directory that is filled once and kept; with --engine that of the signing key");
  app.add_option("--engine", options.engine,
                 "a server that is empty or filled with the same --state, such as "
                 "redis+unix:///tmp/socket: the engine of several coordinators instead, without "
                 "measurements");
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (options.engine.empty()) return run(options);
  try {
    return run_scale_engine({options.engine, options.plans, options.plan_bytes, options.state});
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "lfarm-bench scale: %s\n", exception.what());
    return 4;
  }
}

}  // namespace bench
