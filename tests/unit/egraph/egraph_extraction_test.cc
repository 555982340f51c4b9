// Best programs and acyclic decoding, on hand-made and random cyclic e-graphs.
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>
#include <vector>

#include "common/base/cat.h"
#include "common/base/random.h"
#include "coordinator/egraph/egraph.h"
#include "coordinator/egraph/extraction.h"

namespace coordinator {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Extraction, PicksTheCheapestProgramThroughCycles) {
  EGraph graph;
  ClassId x = graph.add(0, {}), y = graph.add(1, {});
  ClassId neg = graph.add(2, {x});
  graph.merge(x, graph.add(2, {neg}));  // x = neg(neg(x))
  ClassId sum = graph.add(3, {neg, y});
  graph.merge(sum, graph.add(4, {y, x}));
  graph.rebuild();
  std::map<Head, double> price{{0, 1}, {1, 1}, {2, 5}, {3, 1}, {4, 4}};
  BestNodes best = best_nodes(graph, [&](NodeId n) { return price[graph.head(n)]; });
  EXPECT_EQ(best.cost[graph.find(x)], 1);
  EXPECT_EQ(best.cost[graph.find(neg)], 6);
  EXPECT_EQ(best.cost[graph.find(sum)], 6);
  EXPECT_EQ(graph.head(best.node[graph.find(sum)]), 4u);
}

TEST(Extraction, ForbiddenNodesLeaveClassesWithoutProgram) {
  EGraph graph;
  ClassId x = graph.add(0, {});
  ClassId f = graph.add(1, {x}), g = graph.add(2, {f});
  graph.merge(f, graph.add(3, {g}));
  graph.rebuild();
  BestNodes best =
      best_nodes(graph, [&](NodeId n) { return graph.head(n) == 1 ? kInfinity : 1.0; });
  EXPECT_EQ(best.node[graph.find(x)], graph.nodes(graph.find(x))[0]);
  EXPECT_EQ(best.node[graph.find(f)], kNone);
  EXPECT_EQ(best.node[graph.find(g)], kNone);
  Decoder decoder(graph, best);
  Selection selection;
  auto none = [](ClassId) { return kNone; };
  EXPECT_FALSE(decoder.decode(std::vector<ClassId>{g}, none, selection));
  EXPECT_TRUE(decoder.decode(std::vector<ClassId>{x}, none, selection));
  EXPECT_EQ(selection.classes, std::vector<ClassId>{graph.find(x)});
}

TEST(Extraction, FreeNodesNeverFormCycles) {
  EGraph graph;
  ClassId x = graph.add(0, {});
  ClassId id = graph.add(1, {x});
  graph.merge(x, id);
  graph.rebuild();
  BestNodes best = best_nodes(graph, [](NodeId) { return 0.0; });
  EXPECT_EQ(graph.head(best.node[graph.find(x)]), 0u);
}

TEST(Extraction, AWishThatClosesACycleFallsBack) {
  EGraph graph;
  ClassId x = graph.add(0, {});
  ClassId a = graph.add(1, {x}), b = graph.add(2, {x});
  graph.merge(a, graph.add(3, {b}));
  graph.merge(b, graph.add(4, {a}));
  graph.rebuild();
  BestNodes best = best_nodes(graph, [](NodeId) { return 1.0; });
  Decoder decoder(graph, best);
  auto wish = [&](ClassId c) {
    for (NodeId n : graph.nodes(c)) {
      if (graph.head(n) >= 3) return n;
    }
    return kNone;
  };
  Selection selection;
  ASSERT_TRUE(decoder.decode(std::vector<ClassId>{a}, wish, selection));
  // a keeps its wish, b = (4 a) would close the cycle and takes (2 x).
  ASSERT_EQ(selection.classes, (std::vector<ClassId>{graph.find(x), graph.find(b), graph.find(a)}));
  EXPECT_EQ(graph.head(selection.nodes[1]), 2u);
  EXPECT_EQ(graph.head(selection.nodes[2]), 3u);
  // A node of another class is no wish.
  NodeId foreign = graph.nodes(graph.find(x))[0];
  ASSERT_TRUE(decoder.decode(
      std::vector<ClassId>{a}, [&](ClassId) { return foreign; }, selection));
  EXPECT_EQ(graph.head(selection.nodes.back()), 1u);
}

struct RandomGraph {
  EGraph graph;
  std::vector<ClassId> ids;
  explicit RandomGraph(uint64_t seed) {
    common::Random random(seed);
    for (int i = 0; i < 120; ++i) {
      std::vector<ClassId> children;
      size_t arity = ids.size() < 4 ? 0 : random.below(4);
      for (size_t c = 0; c < arity; ++c) children.push_back(ids[random.below(ids.size())]);
      ids.push_back(
          graph.add(static_cast<Head>(random.below(5) + (arity == 0 ? 100 + i : 0)), children));
    }
    for (int i = 0; i < 70; ++i) {
      graph.merge(ids[random.below(ids.size())], ids[random.below(ids.size())]);
    }
    graph.rebuild();
  }
};

TEST(Extraction, EqualsBellmanFordOnRandomGraphs) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(common::cat("seed ", seed));
    RandomGraph random(seed);
    const EGraph& graph = random.graph;
    auto price = [&](NodeId n) { return static_cast<double>((graph.head(n) * 7 + 3) % 11); };
    BestNodes best = best_nodes(graph, price);
    std::vector<double> cost(graph.class_ids(), kInfinity);
    auto total = [&](NodeId n) {
      double sum = price(n);
      for (ClassId child : graph.children(n)) sum += cost[graph.find(child)];
      return sum;
    };
    for (bool changed = true; changed;) {
      changed = false;
      for (ClassId c : graph.classes()) {
        graph.for_each_node(c, [&](NodeId n) {
          if (total(n) >= cost[c]) return;
          cost[c] = total(n);
          changed = true;
        });
      }
    }
    for (ClassId c : graph.classes()) {
      EXPECT_EQ(best.cost[c], cost[c]);
      if (best.node[c] == kNone) continue;
      EXPECT_EQ(total(best.node[c]), cost[c]);
      for (ClassId child : graph.children(best.node[c])) {
        EXPECT_LT(best.rank[graph.find(child)], best.rank[c]);
      }
    }
  }
}

TEST(Extraction, RandomWishesDecodeToAcyclicPrograms) {
  int wished = 0, granted = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(common::cat("seed ", seed));
    RandomGraph fixture(seed);
    const EGraph& graph = fixture.graph;
    common::Random random(seed + 1000);
    BestNodes best = best_nodes(graph, [&](NodeId n) { return 1.0 + graph.head(n) % 3; });
    Decoder decoder(graph, best);
    Selection selection, again;
    for (int genome = 0; genome < 20; ++genome) {
      std::map<ClassId, NodeId> wishes;
      for (ClassId c : graph.classes()) {
        auto nodes = graph.nodes(c);
        if (random.chance(0.8)) wishes[c] = nodes[random.below(nodes.size())];
      }
      auto wish = [&](ClassId c) { return wishes.count(c) != 0 ? wishes[c] : kNone; };
      std::vector<ClassId> roots{fixture.ids[119], fixture.ids[50], fixture.ids[119]};
      if (!decoder.decode(roots, wish, selection)) continue;
      ASSERT_EQ(selection.classes.size(), selection.nodes.size());
      std::set<ClassId> done;
      for (size_t i = 0; i < selection.classes.size(); ++i) {
        NodeId n = selection.nodes[i];
        EXPECT_EQ(graph.class_of(n), selection.classes[i]);
        for (ClassId child : graph.children(n)) EXPECT_EQ(done.count(graph.find(child)), 1u);
        EXPECT_TRUE(done.insert(selection.classes[i]).second);
        if (wish(selection.classes[i]) != kNone) {
          ++wished;
          granted += n == wish(selection.classes[i]);
        }
      }
      for (ClassId root : roots) EXPECT_EQ(done.count(graph.find(root)), 1u);
      ASSERT_TRUE(decoder.decode(roots, wish, again));
      EXPECT_EQ(again.nodes, selection.nodes);
    }
  }
  EXPECT_GT(granted, wished / 2);
  EXPECT_LT(granted, wished);
}

}  // namespace
}  // namespace coordinator
