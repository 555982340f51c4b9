// cache --plans N: how long one lookup of a plan takes, on a client's disk and over CURVE from a
// farm on this machine, and how much of it is the signature's check.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cache/store/store.h"
#include "clients/runtime/farm/disk_cache.h"
#include "clients/runtime/farm/farm_client.h"
#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/wire/plan_names.h"
#include "tests/bench/bench.h"
#include "tests/bench/farm/farm_under_load.h"
#include "tests/unit/clients/sealed_plan.h"

namespace bench {
namespace {

using Json = nlohmann::ordered_json;

struct CacheOptions {
  int plans = 200;
  int kernels = 8;
  size_t object_bytes = 8192;
  int lookups = 5000;
  bool curve = true;
};

template <class T>
T must(common::Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}
void must(const common::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.error().message);
}

// Plan number `index`: a chain of kernels, each with an object of its own.
clients::PulledPlan make_plan(const CacheOptions& options, int index, const common::SigningKey& key,
                              const std::string& tenant) {
  clients::PulledPlan out;
  out.plan = common::chain_plan(options.kernels);
  out.plan.key.graph_hash = common::digest_of(common::cat("graph", index));
  out.plan.key.target = {kLoadTarget};
  out.plan.key.epoch = common::kCompilerEpoch;
  common::Random random(static_cast<uint64_t>(index));
  for (common::Digest& object : out.plan.objects) {
    common::Bytes bytes(options.object_bytes);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
    object = common::digest_of(bytes);
    out.objects.emplace(object, common::share(std::move(bytes)));
  }
  out.signed_plan = common::share(common::encode_sealed(common::seal(key, tenant, out.plan)));
  out.id = common::digest_of(out.signed_plan.bytes);
  return out;
}

void fill_store(const std::string& state, const std::vector<clients::PulledPlan>& plans,
                const std::string& tenant) {
  auto store = must(cache::Store::open(state, {}));
  for (const clients::PulledPlan& plan : plans) {
    for (const auto& [digest, bytes] : plan.objects) {
      must(store->put_blob(common::as_text(bytes.bytes)));
    }
    cache::NewPlan stored;
    stored.facts.key = common::place_of(tenant, plan.plan.key.digest());
    stored.facts.graph_hash = plan.plan.key.graph_hash;
    stored.facts.plan_id = plan.id;
    stored.facts.best_ns = 1000;
    stored.bytes = common::as_text(plan.signed_plan.bytes);
    stored.needs = plan.plan.objects;
    stored.names = common::plan_names(stored.bytes);
    must(store->put_plan(stored));
  }
}

// Microseconds of each of many calls of `look`, which gets a random plan.
template <class Look>
std::vector<double> sample(const CacheOptions& options, size_t plans, const Look& look) {
  common::SteadyClock clock;
  common::Random random(7);
  std::vector<double> samples;
  for (int i = 0; i < options.lookups; ++i) {
    size_t index = random.below(plans);
    int64_t start_ns = clock.now_ns();
    look(index);
    samples.push_back(static_cast<double>(clock.now_ns() - start_ns) * 1e-3);
  }
  return samples;
}

int run(const CacheOptions& options) {
  auto scratch = must(common::ScratchDirectory::create("lfarm-bench"));
  FarmOptions farm_options;
  farm_options.curve = options.curve;
  farm_options.state = scratch.path() + "/farm";
  must(common::make_directories(farm_options.state));
  auto key = must(common::load_or_create_signing_key(farm_options.state + "/signing.key"));
  auto farm = must(FarmUnderLoad::create(farm_options));
  std::string tenant = options.curve ? kLoadTenant : std::string(common::kLocalTenant);
  std::vector<clients::PulledPlan> plans;
  for (int i = 0; i < options.plans; ++i) plans.push_back(make_plan(options, i, key, tenant));

  clients::PlanTrust trust{key.public_key(), tenant, {}};
  clients::DiskCache disk(scratch.path() + "/plans");
  for (const clients::PulledPlan& plan : plans) must(disk.put(plan, trust));
  auto on_disk = sample(options, plans.size(), [&](size_t i) {
    if (!must(disk.look_up(plans[i].plan.key, trust))) {
      throw std::runtime_error("a plan is missing");
    }
  });
  auto whole = sample(options, plans.size(), [&](size_t i) {
    if (!must(disk.find(plans[i].plan.key, trust))) throw std::runtime_error("a plan is missing");
  });
  // What stands for the check once it was made, and the check.
  auto stamp = sample(options, plans.size(), [&](size_t i) {
    common::Hasher()
        .data(key.secret)
        .data(trust.signer)
        .text(tenant)
        .data(plans[i].signed_plan.bytes)
        .finish();
  });
  auto signature = sample(options, plans.size(), [&](size_t i) {
    auto outer = must(common::decode_sealed(plans[i].signed_plan.bytes));
    must(common::check_signature(outer, trust.signer));
  });

  fill_store(farm_options.state, plans, tenant);
  must(farm->start());
  clients::FarmClientOptions access;
  access.endpoint = farm->endpoint();
  access.keys = farm->keys();
  auto client = must(clients::FarmClient::connect(std::move(access)));
  auto over_wire = sample(options, plans.size(), [&](size_t i) {
    if (!must(client->pull(plans[i].plan.key))) throw std::runtime_error("a plan is missing");
  });

  double disk_p50 = percentile(on_disk, 0.5);
  Json line;
  line["bench"] = "cache";
  line["plans"] = options.plans;
  line["plan_bytes"] = plans[0].signed_plan.bytes.size();
  line["object_bytes"] = plans[0].objects.size() * options.object_bytes;
  line["curve"] = options.curve;
  line["disk_p50_us"] = disk_p50;
  line["disk_p99_us"] = percentile(on_disk, 0.99);
  line["disk_with_objects_p50_us"] = percentile(whole, 0.5);
  line["curve_p50_us"] = percentile(over_wire, 0.5);
  line["curve_p99_us"] = percentile(over_wire, 0.99);
  line["signature_us"] = percentile(signature, 0.5);
  line["stamp_us"] = percentile(stamp, 0.5);
  line["signature_share"] = percentile(stamp, 0.5) / disk_p50;
  line["load"] = load_average();
  std::printf("%s\n", line.dump().c_str());
  return 0;
}

}  // namespace

int run_cache(const std::vector<std::string>& arguments) {
  CacheOptions options;
  CLI::App app("How long one lookup of a plan takes.", "lfarm-bench cache");
  app.add_option("--plans", options.plans, "in each cache")->check(CLI::Range(1, 100'000));
  app.add_option("--kernels", options.kernels, "of each plan")->check(CLI::Range(1, 1000));
  app.add_option("--object-bytes", options.object_bytes, "of each kernel's code");
  app.add_option("--lookups", options.lookups, "of random plans")
      ->check(CLI::Range(10, 10'000'000));
  app.add_flag("--curve,!--no-curve", options.curve, "transport security (default: on)");
  return run_guarded("cache", app, arguments, [&] { return run(options); });
}

}  // namespace bench
