// scale --engine ADDRESS --plans N: what the engine of several coordinators answers with, and how
// soon, when its shards hold that many small plans, and a coordinator that starts over them. The
// server should hold nothing else; one that an earlier run with the same --state has filled, wholly
// or in part, is used as it is.
#include "tests/bench/farm/scale_engine.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "cache/engine/name_walk.h"
#include "cache/engine/remote_engine.h"
#include "cache/remote/redis_connection.h"
#include "cache/remote/remote_store.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/random.h"
#include "tests/bench/farm/engine_filler.h"
#include "tests/bench/farm/scale_coordinator.h"
#include "tests/bench/farm/timed.h"

namespace bench {
namespace {

using cache::ShardRecord;
using common::cat;
using Json = nlohmann::ordered_json;

constexpr int64_t kPatienceMs = 600'000;
constexpr int kClients = 8;
constexpr int kSigned = 2'000;   // plans that are pulled from the coordinator
constexpr int kLookups = 4'000;  // of each client

cache::RemoteOptions remote_options(const std::string& address) {
  cache::RemoteOptions options;
  options.address = must(cache::parse_remote_address(address));
  options.answer_ms = options.transfer_ms = kPatienceMs;
  return options;
}

// What the server says of its memory, in bytes: of what it holds, and of the process.
struct ServerMemory {
  int64_t used = 0, resident = 0;
};
ServerMemory server_memory(const cache::RemoteAddress& address) {
  int64_t deadline_ns = common::SteadyClock().now_ns() + kPatienceMs * 1'000'000;
  auto connection = must(cache::RedisConnection::open(address, "", deadline_ns));
  const cache::RedisCommand command{"INFO", "memory"};
  std::string text = must(connection->ask({&command, 1}, size_t{1} << 20, deadline_ns))[0].text;
  auto number = [&text](const std::string& name) -> int64_t {
    size_t at = text.find("\n" + name);
    return at == std::string::npos ? 0 : std::stoll(text.substr(at + 1 + name.size()));
  };
  return {number("used_memory:"), number("used_memory_rss:")};
}

// ---- The engine --------------------------------------------------------------------------------

// Any plan, asked of the engine over a connection of the client's own.
Call lookup_of(const ScaleEngineOptions& options, const std::string& space, int client) {
  struct Client {
    explicit Client(const ScaleEngineOptions& options, const std::string& space, int number)
        : store(remote_options(options.address)),
          engine(store, {space, 0}),
          random(static_cast<uint64_t>(number) + 7) {}
    cache::RemoteStore store;
    cache::RemoteEngine engine;
    common::Random random;
  };
  auto its = std::make_shared<Client>(options, space, client);
  return [its, plans = options.plans](int) {
    auto k = static_cast<int64_t>(its->random.below(static_cast<uint64_t>(plans)));
    auto found = must(
        its->engine.read(EngineFiller::shard_of(k), ShardRecord::kPlan, EngineFiller::name_of(k)));
    if (!found) throw std::runtime_error("a plan is not there");
  };
}

void measure_engine(const ScaleEngineOptions& options, const std::string& space, Json& line) {
  for (int clients : {1, kClients}) {
    line[cat("engine_lookup_", clients)] = timed_together(
        clients, kLookups, [&](int client) { return lookup_of(options, space, client); });
  }
  cache::RemoteStore store(remote_options(options.address));
  cache::RemoteEngine engine(store, {space, 0});
  std::vector<double> pages;
  common::SteadyClock clock;
  line["names_of_a_shard"] = timed(8, [&](int shard) {
    cache::NameWalk walk(engine, static_cast<uint32_t>(shard), ShardRecord::kPlan);
    while (!walk.is_done()) {
      int64_t start_ns = clock.now_ns();
      must(walk.next());
      pages.push_back(static_cast<double>(clock.now_ns() - start_ns) * 1e-6);
    }
  });
  line["names_page"] = spread(pages);
  line["count"] = timed(
      64, [&](int shard) { must(engine.count(static_cast<uint32_t>(shard), ShardRecord::kPlan)); });
  line["look"] = timed(kLookups, [&](int k) { must(engine.look(EngineFiller::shard_of(k))); });
}

// A state directory with the key of the other one, and no plan.
std::string empty_state(const std::string& scratch, const std::string& state) {
  const std::string empty = scratch + "/coordinator";
  must(common::make_directories(empty));
  std::filesystem::copy_file(state + "/signing.key", empty + "/signing.key");
  return empty;
}

}  // namespace

int run_scale_engine(const ScaleEngineOptions& options) {
  auto scratch = must(common::ScratchDirectory::create("lfarm-scale"));
  const std::string state = options.state.empty() ? scratch.path() + "/state" : options.state;
  must(common::make_directories(state));
  const common::SigningKey key = must(common::load_or_create_signing_key(state + "/signing.key"));
  const std::string space = space_of(key);
  cache::RemoteStore store(remote_options(options.address));
  Json line;
  line["plans"] = options.plans;
  line["plan_bytes"] = options.plan_bytes;
  common::SteadyClock clock;
  const int64_t before = server_memory(remote_options(options.address).address).used;
  const int64_t start_ns = clock.now_ns();
  EngineFiller filler(store, space, options.plan_bytes);
  const int64_t filled = filler.filled();
  filler.fill(filled, options.plans);
  line["filled_s"] = static_cast<double>(clock.now_ns() - start_ns) * 1e-9;
  ServerMemory memory = server_memory(remote_options(options.address).address);
  line["server_bytes"] = memory.used;
  line["server_rss_bytes"] = memory.resident;
  if (filled == 0) {
    line["bytes_a_plan"] =
        static_cast<double>(memory.used - before) / static_cast<double>(options.plans);
  }
  std::fprintf(stderr, "filled: %s\n", line.dump().c_str());
  line["write"] = timed(2000, [&](int k) { filler.write_one(options.plans + k); });
  auto keys = filler.add_signed(kSigned, key);
  filler.leave();
  measure_engine(options, space, line);
  measure_coordinator({options.address, empty_state(scratch.path(), state), kClients}, keys, line);
  std::printf("%s\n", line.dump().c_str());
  return 0;
}

}  // namespace bench
