// Goal: every change that makes a model another one gives it another plan key, or a client would
// get the wrong answers; and no change of names, order or dead nodes does, or the cache would stay
// cold. Method: random graphs (random_graph.h), a third of them rolled into loops, are edited and
// disguised (graph_edits.h) again and again. A disguised graph has the key that it had, an edited
// one another, and an edited and disguised one that of the edited. LFARM_FUZZ_SEED=n begins at
// graph n, LFARM_FUZZ_EDITS=n makes that many edits.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "common/base/cat.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/text.h"
#include "common/ir/hlir/verify.h"
#include "common/ir/roll/roll.h"
#include "common/plan/plan.h"
#include "tests/fuzz/graphs/graph_edits.h"
#include "tests/fuzz/graphs/random_graph.h"

namespace fuzz {
namespace {

using common::Graph;
using common::PlanKey;

constexpr uint64_t kEditsMade = 20'000;
constexpr uint64_t kTriesPerGraph = 100;
constexpr size_t kFailuresMax = 5;

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

PlanKey key_of(const Graph& graph) {
  return {common::graph_hash(graph), {"cpu-x86_64-avx2"}, "strict", "epoch-1"};
}

// A key in which one of the other fields differs.
PlanKey elsewhere(PlanKey key, common::Random& random) {
  std::string* fields[] = {&key.target.name, &key.policy, &key.epoch};
  std::string& field = *fields[random.below(3)];
  if (random.chance(0.5)) {
    field.back() = static_cast<char>(field.back() + 1);
  } else {
    field.push_back('x');
  }
  return key;
}

TEST(PlanKey, EveryEditMissesAndEveryDisguiseHits) {
  uint64_t seed = from_environment("LFARM_FUZZ_SEED", 1);
  uint64_t wanted = from_environment("LFARM_FUZZ_EDITS", kEditsMade);
  std::map<std::string_view, uint64_t> made;
  std::set<common::Op> met;
  uint64_t edits = 0, disguises = 0, loops = 0;
  size_t failures = 0;
  for (; edits < wanted && failures < kFailuresMax; ++seed) {
    common::Random random(seed);
    Graph graph = random_graph(seed).graph;
    if (seed % 3 == 0) graph = common::roll(graph);
    graph = common::canonical(graph);
    for (const common::Node& node : graph.nodes) {
      met.insert(node.op);
      loops += node.op == common::Op::kLoop;
    }
    common::Digest key = key_of(graph).digest();
    EXPECT_NE(elsewhere(key_of(graph), random).digest(), key);
    for (uint64_t k = 0; k < kTriesPerGraph; ++k) {
      Graph edited = graph;
      std::string_view name = edit(edited, random);
      if (name.empty() || !common::verify(edited).ok()) continue;
      ++edits;
      ++made[name];
      common::Digest other = key_of(edited).digest();
      ++disguises;
      bool hits = key_of(disguise(graph, random)).digest() == key;
      bool follows = key_of(disguise(edited, random)).digest() == other;
      if (other != key && hits && follows) continue;
      ++failures;
      ADD_FAILURE() << (other == key ? "an edit was missed: "
                        : hits       ? "a disguise of the edited graph was not seen through: "
                                     : "a disguise was not seen through: ")
                    << name << "; repeat with LFARM_FUZZ_SEED=" << seed << "\n"
                    << common::print(graph) << "---\n"
                    << common::print(edited);
    }
  }
  RecordProperty("edits", std::to_string(edits));
  std::string counts = common::cat(edits, " edits and ", 2 * disguises,
                                   " disguises of graphs with ", loops, " loops:");
  for (const auto& [name, count] : made) counts += common::cat(' ', name, ' ', count);
  std::printf("%s\n", counts.c_str());
  // Or the test says less than it seems to.
  size_t kinds = 1 + static_cast<size_t>(std::count(kEdits.begin(), kEdits.end(), ' '));
  EXPECT_EQ(made.size(), kinds);
  EXPECT_EQ(met.size(), static_cast<size_t>(common::kOpCount));
}

}  // namespace
}  // namespace fuzz
