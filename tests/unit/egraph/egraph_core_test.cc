// Hash-consing, union, congruence and analyses of the e-graph, against a naive closure.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/cat.h"
#include "common/base/random.h"
#include "coordinator/egraph/egraph.h"
#include "egraph_suites.h"

namespace coordinator {
namespace {

void expect_sound(const EGraph& graph) {
  common::Status status = graph.check_invariants();
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
}

TEST(EGraph, EqualNodesAreStoredOnce) {
  EGraph graph;
  ClassId a = graph.add(0, {}), b = graph.add(1, {});
  ClassId sum = graph.add(2, {a, b});
  EXPECT_EQ(graph.add(2, {a, b}), sum);
  EXPECT_NE(graph.add(2, {b, a}), sum);
  EXPECT_NE(graph.add(3, {a, b}), sum);
  EXPECT_NE(graph.add(2, {a}), sum);
  ClassId wide = graph.add(2, {a, b, a, b});
  EXPECT_EQ(graph.add(2, {a, b, a, b}), wide);
  EXPECT_NE(graph.add(2, {a, b, a}), wide);
  EXPECT_EQ(graph.node_count(), 8u);
  EXPECT_EQ(graph.class_count(), 8u);
  EXPECT_EQ(graph.lookup(2, std::vector<ClassId>{a, b}), sum);
  EXPECT_EQ(graph.lookup(2, std::vector<ClassId>{b, b}), std::nullopt);
  expect_sound(graph);
}

TEST(EGraph, MergingChildrenMergesParents) {
  EGraph graph;
  ClassId a = graph.add(0, {}), b = graph.add(1, {}), c = graph.add(2, {});
  ClassId fa = graph.add(3, {a}), fb = graph.add(3, {b}), fc = graph.add(3, {c});
  ClassId wide_a = graph.add(4, {a, a, c}), wide_b = graph.add(4, {b, a, b});
  EXPECT_TRUE(graph.merge(a, b));
  EXPECT_FALSE(graph.merge(b, a));
  graph.rebuild();
  EXPECT_EQ(graph.find(fa), graph.find(fb));
  EXPECT_NE(graph.find(fa), graph.find(fc));
  EXPECT_NE(graph.find(wide_a), graph.find(wide_b));
  expect_sound(graph);
  graph.merge(b, c);
  graph.rebuild();
  EXPECT_EQ(graph.find(fa), graph.find(fc));
  EXPECT_EQ(graph.find(wide_a), graph.find(wide_b));
  EXPECT_EQ(graph.class_count(), 3u);
  EXPECT_EQ(graph.node_count(), 5u);
  expect_sound(graph);
}

TEST(EGraph, CyclesAreFine) {
  EGraph graph;
  ClassId a = graph.add(0, {});
  ClassId fa = graph.add(1, {a});
  graph.merge(a, fa);
  graph.rebuild();
  EXPECT_EQ(graph.class_count(), 1u);
  EXPECT_EQ(graph.node_count(), 2u);
  EXPECT_EQ(graph.find(graph.add(1, {fa})), graph.find(a));
  expect_sound(graph);
}

TEST(EGraph, DumpsAsText) {
  egraph_suites::Names names;
  EGraph graph(names.options());
  ClassId x = graph.add(names.number("x"), {}), y = graph.add(names.number("y"), {});
  ClassId sum = graph.add(names.number("add"), {x, y});
  graph.merge(sum, graph.add(names.number("sub"), {x, y}));
  graph.rebuild();
  EXPECT_EQ(graph.dump([&](Head head) { return names.name(head); }),
            "c0: x\nc1: y\nc2: (add c0 c1) | (sub c0 c1)\n");
}

// Terms over numbered classes, merged by brute force until nothing changes.
struct NaiveClosure {
  struct Term {
    Head head;
    std::vector<uint32_t> children;
  };
  std::vector<Term> terms;  // the class of term i is i
  std::vector<uint32_t> parent;

  uint32_t find(uint32_t id) const {
    while (parent[id] != id) id = parent[id];
    return id;
  }
  uint32_t add(Head head, std::vector<uint32_t> children) {
    terms.push_back({head, std::move(children)});
    parent.push_back(static_cast<uint32_t>(parent.size()));
    return parent.back();
  }
  std::vector<uint32_t> key(const Term& term) const {
    std::vector<uint32_t> out{term.head};
    for (uint32_t child : term.children) out.push_back(find(child));
    return out;
  }
  void close() {
    for (bool changed = true; changed;) {
      changed = false;
      std::map<std::vector<uint32_t>, uint32_t> seen;
      for (uint32_t i = 0; i < terms.size(); ++i) {
        uint32_t first = seen.try_emplace(key(terms[i]), i).first->second;
        if (find(first) == find(i)) continue;
        parent[find(i)] = find(first);
        changed = true;
      }
    }
  }
  size_t distinct_nodes() const {
    std::set<std::vector<uint32_t>> keys;
    for (const Term& term : terms) keys.insert(key(term));
    return keys.size();
  }
};

TEST(EGraph, RebuildEqualsNaiveClosureOnRandomGraphs) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(common::cat("seed ", seed));
    common::Random random(seed);
    EGraph graph;
    NaiveClosure naive;
    std::vector<ClassId> ids;
    for (int round = 0; round < 6; ++round) {
      for (int i = 0; i < 40; ++i) {
        Head head = static_cast<Head>(random.below(4));
        size_t arity = ids.empty() ? 0 : random.below(5);
        std::vector<uint32_t> pick;
        std::vector<ClassId> children;
        for (size_t c = 0; c < arity; ++c) {
          pick.push_back(static_cast<uint32_t>(random.below(ids.size())));
          children.push_back(ids[pick.back()]);
        }
        if (arity == 0) head = 10 + static_cast<Head>(random.below(12));
        ids.push_back(graph.add(head, children));
        naive.add(head, pick);
      }
      for (int i = 0; i < 4; ++i) {
        uint32_t a = static_cast<uint32_t>(random.below(ids.size()));
        uint32_t b = static_cast<uint32_t>(random.below(ids.size()));
        graph.merge(ids[a], ids[b]);
        naive.parent[naive.find(a)] = naive.find(b);
      }
      if (random.chance(0.3)) continue;  // several rounds of work for one rebuild
      graph.advance_epoch();
      graph.rebuild();
      naive.close();
      expect_sound(graph);
      EXPECT_EQ(graph.node_count(), naive.distinct_nodes());
      std::map<uint32_t, ClassId> image;
      for (uint32_t i = 0; i < ids.size(); ++i) {
        auto [it, fresh] = image.try_emplace(naive.find(i), graph.find(ids[i]));
        ASSERT_EQ(it->second, graph.find(ids[i])) << "term " << i;
      }
      std::set<ClassId> images;
      for (const auto& [from, to] : image) images.insert(to);
      EXPECT_EQ(images.size(), image.size());
      EXPECT_EQ(graph.class_count(), image.size());
    }
  }
}

TEST(EGraph, DeadNodesAreSweptFromLongLists) {
  EGraph graph;
  ClassId hub = graph.add(0, {});
  std::vector<ClassId> users;
  for (uint32_t i = 0; i < 400; ++i) {
    ClassId leaf = graph.add(100 + i, {});
    users.push_back(graph.add(1, {hub, leaf}));
  }
  for (uint32_t i = 1; i < 400; ++i) graph.merge(graph.add(100, {}), graph.add(100 + i, {}));
  graph.rebuild();
  for (ClassId user : users) EXPECT_EQ(graph.find(user), graph.find(users[0]));
  EXPECT_EQ(graph.nodes(graph.find(users[0])).size(), 1u);
  int uses = 0;
  graph.for_each_parent(graph.find(hub), [&](NodeId) { ++uses; });
  EXPECT_EQ(uses, 1);
  expect_sound(graph);
}

// Searches of a snapshot walk class lists while rules already add to the classes.
TEST(EGraph, ClassListsShowAdoptedNodesAfterTheRebuildOnly) {
  EGraph graph;
  ClassId a = graph.add(0, {}), b = graph.add(1, {});
  graph.rebuild();
  std::vector<NodeId> nodes_a = graph.nodes(a), nodes_b = graph.nodes(b);
  for (Head head = 2; head < 5; ++head) {
    EXPECT_TRUE(graph.merge(a, graph.add(head, {b})));
    EXPECT_EQ(graph.nodes(a), nodes_a);
  }
  EXPECT_FALSE(graph.is_clean());
  EXPECT_FALSE(graph.check_invariants().ok());
  graph.rebuild();
  EXPECT_TRUE(graph.is_clean());
  EXPECT_EQ(graph.nodes(a).size(), 4u);
  nodes_a = graph.nodes(a);

  EXPECT_TRUE(graph.merge(graph.add(5, {a}), b));
  EXPECT_TRUE(graph.merge(a, graph.add(6, {b})));
  EXPECT_TRUE(graph.merge(a, b));
  EXPECT_EQ(graph.nodes(a), nodes_a);
  EXPECT_EQ(graph.nodes(b), nodes_b);
  graph.rebuild();
  EXPECT_EQ(graph.nodes(graph.find(a)).size(), 7u);
  expect_sound(graph);
}

TEST(EGraph, StampsWhatChanged) {
  EGraph graph;
  ClassId a = graph.add(0, {}), b = graph.add(1, {}), c = graph.add(2, {});
  graph.add(3, {a});
  ClassId fb = graph.add(4, {b});
  graph.add(4, {c});
  graph.advance_epoch();
  graph.merge(a, b);  // a and b weigh the same: the later one loses
  graph.rebuild();
  std::set<Head> changed;
  for (Head head = 0; head < 5; ++head) {
    graph.for_each_with_head(head, [&](NodeId n) {
      if (graph.stamp(n) == graph.epoch()) changed.insert(head);
    });
  }
  EXPECT_EQ(changed, (std::set<Head>{1, 4}));
  EXPECT_EQ(graph.stamp(graph.nodes(graph.find(fb))[0]), 2u);
}

// Constant folding over head kAdd and one head per number.
class Folding : public TypedAnalysis<std::optional<int>> {
 public:
  static constexpr Head kAdd = 0, kVariable = 1, kNumber = 10;
  std::optional<int> make(const EGraph& graph, NodeId node) const override {
    Head head = graph.head(node);
    if (head >= kNumber) return static_cast<int>(head - kNumber);
    if (head == kVariable) return std::nullopt;
    int sum = 0;
    for (ClassId child : graph.children(node)) {
      const std::optional<int>& value = (*this)[graph.find(child)];
      if (!value) return std::nullopt;
      sum += *value;
    }
    return sum;
  }
  bool join(std::optional<int>& into, const std::optional<int>& from) const override {
    EXPECT_TRUE(!into || !from || *into == *from) << "unequal numbers were merged";
    if (into || !from) return false;
    into = from;
    return true;
  }
  void modify(EGraph& graph, ClassId cls) override {
    std::optional<int> value = (*this)[cls];
    if (value) graph.merge(graph.add(kNumber + static_cast<Head>(*value), {}), cls);
  }
};

TEST(EGraphAnalysis, FoldsConstantsWhenFactsArriveLate) {
  Folding folding;
  EGraphOptions options;
  options.analysis = &folding;
  EGraph graph(options);
  ClassId x = graph.add(Folding::kVariable, {});
  ClassId two = graph.add(Folding::kNumber + 2, {});
  ClassId inner = graph.add(Folding::kAdd, {x, two});
  ClassId outer = graph.add(Folding::kAdd, {inner, inner, x});
  ClassId other = graph.add(Folding::kAdd, {two, two});
  graph.rebuild();
  EXPECT_EQ(folding[graph.find(other)], 4);
  EXPECT_EQ(folding[graph.find(outer)], std::nullopt);
  graph.merge(x, graph.add(Folding::kNumber + 3, {}));
  graph.rebuild();
  expect_sound(graph);
  EXPECT_EQ(folding[graph.find(inner)], 5);
  EXPECT_EQ(folding[graph.find(outer)], 13);
  EXPECT_EQ(graph.find(outer), graph.find(graph.add(Folding::kNumber + 13, {})));
}

// The longest path to a leaf below a bound: facts that merges can raise anywhere.
class Depth : public TypedAnalysis<int> {
 public:
  int make(const EGraph& graph, NodeId node) const override {
    int depth = 0;
    for (ClassId child : graph.children(node)) {
      depth = std::max(depth, 1 + (*this)[graph.find(child)]);
    }
    return std::min(depth, 20);
  }
  bool join(int& into, const int& from) const override {
    if (from <= into) return false;
    into = from;
    return true;
  }
};

TEST(EGraphAnalysis, FactsReachParentsThroughChainsOfMerges) {
  Depth depth;
  EGraphOptions options;
  options.analysis = &depth;
  EGraph graph(options);
  ClassId light = graph.add(0, {}), middle = graph.add(1, {}), deep = graph.add(2, {});
  ClassId user = graph.add(3, {light});
  for (Head head = 4; head < 6; ++head) graph.add(head, {middle});
  for (int i = 0; i < 5; ++i) deep = graph.add(6, {deep});
  for (Head head = 7; head < 12; ++head) graph.add(head, {deep});
  graph.merge(light, middle);  // same facts, middle wins
  graph.merge(middle, deep);   // middle loses and learns
  graph.rebuild();
  EXPECT_EQ(depth[graph.find(light)], 5);
  EXPECT_EQ(depth[graph.find(user)], 6);
  expect_sound(graph);
}

TEST(EGraphAnalysis, ReachesTheFixpointOnRandomGraphs) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(common::cat("seed ", seed));
    common::Random random(seed);
    Depth depth;
    EGraphOptions options;
    options.analysis = &depth;
    EGraph graph(options);
    std::vector<ClassId> ids;
    for (int round = 0; round < 5; ++round) {
      for (int i = 0; i < 30; ++i) {
        std::vector<ClassId> children;
        size_t arity = ids.empty() ? 0 : random.below(4);
        for (size_t c = 0; c < arity; ++c) children.push_back(ids[random.below(ids.size())]);
        ids.push_back(
            graph.add(static_cast<Head>(random.below(3) + (arity == 0 ? 10 : 0)), children));
      }
      for (uint64_t merges = random.below(25); merges > 0; --merges) {
        graph.merge(ids[random.below(ids.size())], ids[random.below(ids.size())]);
      }
      graph.rebuild();
      expect_sound(graph);
      // Facts may keep a larger value than their nodes say now only by having been joined; here
      // every class must be at least what each of its nodes says, and some node must say it.
      for (ClassId c : graph.classes()) {
        int most = 0;
        graph.for_each_node(c, [&](NodeId n) { most = std::max(most, depth.make(graph, n)); });
        EXPECT_EQ(depth[c], most) << "class " << c;
      }
    }
  }
}

}  // namespace
}  // namespace coordinator
