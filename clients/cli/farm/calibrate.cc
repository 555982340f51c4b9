#include "clients/cli/farm/calibrate.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "clients/cli/access/plan_source.h"
#include "clients/cli/base/report.h"
#include "clients/cli/base/table.h"
#include "common/base/cat.h"
#include "common/ir/hlir/builder.h"
#include "common/text/units.h"

namespace clients {
namespace {

using common::BinaryOp;
using common::cat;
using common::DType;
using common::GraphBuilder;
using common::InputKind;
using common::NodeId;
using common::ReduceOp;
using common::Shape;
using common::UnaryOp;

constexpr int64_t kRounds = 2;
constexpr int64_t kStep = 24;  // by which a round's sizes differ from the last one's

struct Probe {
  const char* name;
  // `more`: added to a size, so that each round's kernels are new.
  common::Graph (*graph)(int64_t more);
};

NodeId values(GraphBuilder& b, const Shape& shape) {
  return b.input(InputKind::kUser, DType::kFloat32, shape, "x");
}
NodeId weight(GraphBuilder& b, const Shape& shape) {
  return b.input(InputKind::kWeight, DType::kFloat32, shape, "w");
}
common::Graph finish(GraphBuilder& b, NodeId result) {
  b.output(result);
  return b.finish();
}

// x * y + max(z, 0)
common::Graph arithmetic(const Shape& shape) {
  GraphBuilder b;
  NodeId product = b.binary(BinaryOp::kMul, values(b, shape), values(b, shape));
  NodeId floor = b.binary(BinaryOp::kMax, values(b, shape), b.scalar(DType::kFloat32, 0));
  return finish(b, b.binary(BinaryOp::kAdd, product, floor));
}

common::Graph functions(int64_t more) {
  GraphBuilder b;
  NodeId x = values(b, {96 + more, 768});
  NodeId gate = b.unary(UnaryOp::kSigmoid, x);
  return finish(b, b.binary(BinaryOp::kMul, b.unary(UnaryOp::kTanh, x), gate));
}

common::Graph sums(const Shape& shape, int axis) {
  GraphBuilder b;
  return finish(b, b.reduce(ReduceOp::kSum, values(b, shape), {axis}));
}

common::Graph softmax(int64_t more) {
  GraphBuilder b;
  NodeId x = values(b, {192 + more, 512});
  NodeId top = b.reduce(ReduceOp::kMax, x, {1}, true);
  NodeId e = b.unary(UnaryOp::kExp, b.binary(BinaryOp::kSub, x, top));
  return finish(b, b.binary(BinaryOp::kDiv, e, b.reduce(ReduceOp::kSum, e, {1}, true)));
}

common::Graph norm(int64_t more) {
  GraphBuilder b;
  NodeId x = values(b, {160 + more, 768});
  auto mean = [&](NodeId of) {
    NodeId sum = b.reduce(ReduceOp::kSum, of, {1}, true);
    return b.binary(BinaryOp::kMul, sum, b.scalar(DType::kFloat32, 1.0 / 768));
  };
  NodeId centred = b.binary(BinaryOp::kSub, x, mean(x));
  NodeId variance = mean(b.binary(BinaryOp::kMul, centred, centred));
  NodeId scale =
      b.unary(UnaryOp::kRsqrt, b.binary(BinaryOp::kAdd, variance, b.scalar(DType::kFloat32, 1e-5)));
  NodeId scaled = b.binary(BinaryOp::kMul, centred, scale);
  return finish(b, b.binary(BinaryOp::kMul, scaled, weight(b, {768})));
}

common::Graph transposition(int64_t more) {
  GraphBuilder b;
  NodeId turned = b.permute(values(b, {256 + more, 384}), {1, 0});
  return finish(b, b.binary(BinaryOp::kAdd, turned, values(b, {384, 256 + more})));
}

// Rows of a layer with its bias and activation.
common::Graph layer(int64_t rows, int64_t in, int64_t out) {
  GraphBuilder b;
  NodeId product = b.matmul(values(b, {rows, in}), weight(b, {in, out}));
  NodeId shifted = b.binary(BinaryOp::kAdd, product, weight(b, {out}));
  return finish(b, b.binary(BinaryOp::kMax, shifted, b.scalar(DType::kFloat32, 0)));
}

common::Graph products_of_activations(int64_t more) {
  GraphBuilder b;
  return finish(b, b.matmul(values(b, {8, 64 + more, 64}), values(b, {8, 64, 128})));
}

common::Graph rows_by_number(int64_t more) {
  GraphBuilder b;
  Shape shape{128 + more, 256};
  NodeId number = b.input(InputKind::kUser, DType::kInt64, {128 + more}, "rows");
  NodeId index = b.expand(b.unsqueeze(number, 1), shape);
  NodeId rows =
      b.gather(weight(b, {4096, 256}), {index}, shape,
               {common::Coordinate{0, {}}, common::Coordinate{-1, common::Expr::index(1)}});
  return finish(b, b.binary(BinaryOp::kAdd, rows, values(b, shape)));
}

constexpr Probe kProbes[] = {
    {"arithmetic, in a cache",
     [](int64_t more) {
       return arithmetic({64 + more, 256});
     }},
    {"arithmetic, in memory",
     [](int64_t more) {
       return arithmetic({1536 + more, 1024});
     }},
    {"functions", functions},
    {"sums of rows",
     [](int64_t more) {
       return sums({512 + more, 384}, 1);
     }},
    {"sums of columns",
     [](int64_t more) {
       return sums({512 + more, 384}, 0);
     }},
    {"softmax", softmax},
    {"norm", norm},
    {"transposition", transposition},
    {"layer of one row", [](int64_t more) { return layer(1, 1024, 1024 + more); }},
    {"layer of few rows", [](int64_t more) { return layer(16, 512, 768 + more); }},
    {"layer of many rows", [](int64_t more) { return layer(256 + more, 384, 512); }},
    {"products of activations", products_of_activations},
    {"rows by number", rows_by_number},
};

// Of the searches of one graph, by round.
struct Verdict {
  const char* probe;
  std::vector<common::Provenance> rounds;
};

// One round's correlations over the same schedules.
struct Orders {
  int64_t schedules = 0;
  double constants = 0;  // by the cost model's constants
  double predicted = 0;  // by what the farm had learned, too
};

Orders orders_of(const common::Provenance& p) {
  return {p.prediction.schedules, p.prediction.constants_correlation,
          p.prediction.rank_correlation};
}

// The mean over all graphs, weighted by how many schedules each had.
Orders mean(const std::vector<Verdict>& verdicts, size_t round) {
  Orders sum;
  for (const Verdict& verdict : verdicts) {
    const common::Provenance& p = verdict.rounds[round];
    auto weight = static_cast<double>(p.prediction.schedules);
    sum.schedules += p.prediction.schedules;
    sum.constants += p.prediction.constants_correlation * weight;
    sum.predicted += p.prediction.rank_correlation * weight;
  }
  if (sum.schedules == 0) return {};
  auto all = static_cast<double>(sum.schedules);
  return {sum.schedules, sum.constants / all, sum.predicted / all};
}

void print_text(const std::string& target, const std::vector<Verdict>& verdicts) {
  std::printf("How well the order of schedules' times on %s was predicted (Spearman's rank\n",
              target.c_str());
  std::printf("correlation), by the cost model's constants and by what the farm had learned:\n\n");
  Table table({"graph", "schedules", "constants", "learned", "then", "constants", "learned"});
  auto row = [&](const char* name, const std::vector<Orders>& rounds) {
    std::vector<std::string> cells{name};
    for (const Orders& orders : rounds) {
      cells.push_back(cat(orders.schedules));
      cells.push_back(common::ratio_text(orders.constants));
      cells.push_back(common::ratio_text(orders.predicted));
    }
    table.row(std::move(cells));
  };
  for (const Verdict& verdict : verdicts) {
    std::vector<Orders> rounds;
    for (const common::Provenance& p : verdict.rounds) rounds.push_back(orders_of(p));
    row(verdict.probe, rounds);
  }
  row("all", {mean(verdicts, 0), mean(verdicts, 1)});
  table.print();
}

void print_json(const std::string& target, const std::vector<Verdict>& verdicts) {
  auto both = [](const Orders& orders) {
    return nlohmann::ordered_json{{"by_constants", orders.constants},
                                  {"predicted", orders.predicted}};
  };
  nlohmann::ordered_json json{{"target", target}};
  for (size_t round = 0; round < kRounds; ++round) {
    json["rank_correlation"].push_back(both(mean(verdicts, round)));
  }
  for (const Verdict& verdict : verdicts) {
    nlohmann::ordered_json graph{{"graph", verdict.probe}};
    for (const common::Provenance& p : verdict.rounds) {
      graph["rounds"].push_back({{"rank_correlation", both(orders_of(p))},
                                 {"schedules", p.prediction.schedules},
                                 {"calibration", p.prediction.calibration}});
    }
    json["graphs"].push_back(std::move(graph));
  }
  std::printf("%s\n", json.dump().c_str());
}

}  // namespace

int calibrate(const FarmOptions& farm, int64_t candidates, bool json) {
  Progress progress(json);
  BudgetOptions budget;
  budget.candidates = candidates;
  budget.seed = 1;
  PlanSource source(farm, budget, &progress);
  std::vector<Verdict> verdicts;
  for (const Probe& probe : kProbes) verdicts.push_back({probe.name, {}});
  std::string target;
  for (int64_t round = 0; round < kRounds; ++round) {
    for (size_t k = 0; k < std::size(kProbes); ++k) {
      progress.stage(cat("round ", round + 1, " of ", kRounds, ", ", kProbes[k].name));
      auto plan =
          source.obtain(kProbes[k].graph(kStep * round), cat("calibration: ", kProbes[k].name));
      if (!plan.ok()) {
        progress.clear();
        return fail(plan.error());
      }
      verdicts[k].rounds.push_back(plan->pulled.plan.provenance);
      target = plan->pulled.plan.key.target.name;
    }
  }
  progress.clear();
  json ? print_json(target, verdicts) : print_text(target, verdicts);
  return kExitDone;
}

}  // namespace clients
