// genomes --model MODEL.pt2...: random genomes of each model, all decoded and verified, some of
// them run. genomes --scaling: what hashing, duplicate tests and decoding cost, and what they do
// not depend on.
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "clients/pt2/translate.h"
#include "common/base/clock.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/roll/roll.h"
#include "coordinator/search/partition/regions.h"
#include "tests/bench/bench.h"
#include "tests/bench/search/genome_trials.h"
#include "tests/bench/search/search_graphs.h"

namespace bench {
namespace {

using common::Graph;
using coordinator::GeneKind;
using coordinator::Genome;
using coordinator::RegionSpace;
using Json = nlohmann::ordered_json;

constexpr int kMutations = 200'000;
constexpr int kDecodings = 400;

void print(const Json& line) {
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

// ---- Trials ------------------------------------------------------------------------------------

int try_model(const std::string& file, const TrialOptions& options) {
  auto graphs = search_graphs({file});
  if (!graphs.ok()) {
    std::fprintf(stderr, "lfarm-bench: %s\n", graphs.error().message.c_str());
    return 2;
  }
  const SearchGraph& model = graphs->front();
  common::SteadyClock clock;
  int64_t start = clock.now_ns();
  auto trials = try_genomes(model.graph, options);
  if (!trials.ok()) {
    std::fprintf(stderr, "lfarm-bench: %s: %s\n", model.name.c_str(),
                 trials.error().message.c_str());
    return 1;
  }
  print(Json{{"model", model.name},
             {"regions", trials->regions},
             {"enodes", trials->enodes},
             {"genomes", trials->genomes},
             {"structures", trials->structures},
             {"decode_us_p50", trials->decode_us_p50},
             {"decode_us_p99", trials->decode_us_p99},
             {"refused", trials->refused},
             {"sampled", trials->sampled},
             {"wrong", trials->wrong},
             {"worst", trials->worst},
             {"seconds", static_cast<double>(clock.now_ns() - start) * 1e-9}});
  if (trials->complaint.empty()) return 0;
  std::fprintf(stderr, "lfarm-bench: %s: %s\n", model.name.c_str(), trials->complaint.c_str());
  return 1;
}

// ---- Scaling -----------------------------------------------------------------------------------

// One mutation, its hash and the test for a twin, over genomes of growing size.
void genome_costs() {
  common::SteadyClock clock;
  std::unordered_set<uint64_t> known;
  for (uint64_t k = 0; k < kMutations; ++k) known.insert(common::mix64(k));  // touches its memory
  for (uint32_t genes : {10u, 100u, 1'000u, 10'000u, 100'000u}) {
    Genome genome;
    for (uint32_t k = 0; k < genes; ++k) genome.set({GeneKind::kParameter, k, 0}, 1);
    common::Random random(genes);
    known.clear();
    int64_t duplicates = 0;
    int64_t start = clock.now_ns();
    for (int k = 0; k < kMutations; ++k) {
      auto cls = static_cast<coordinator::ClassId>(random.below(genes));
      genome.set({GeneKind::kParameter, cls, 0}, static_cast<int64_t>(random.below(8)));
      duplicates += known.insert(genome.hash()).second ? 0 : 1;
    }
    double ns = static_cast<double>(clock.now_ns() - start) / kMutations;
    print(Json{{"scaling", "genome"},
               {"genes", genes},
               {"mutate_hash_test_ns", ns},
               {"duplicates", duplicates}});
  }
}

// The time from a mutated genome to its structure: a median of many single mutations.
Json decoding(const char* what, const Graph& region) {
  common::SteadyClock clock;
  RegionSpace space(region, clock);
  auto structure = space.structure({});
  size_t chosen = structure->fused.shell.calls.size();
  common::Random random(1);
  std::vector<double> us;
  for (int k = 0; k < kDecodings; ++k) {
    // Always one step from the default, so that the chosen graph keeps its size.
    const auto& site = structure->sites[random.below(structure->sites.size())];
    Genome genome;
    genome.set(site.name, site.values[random.below(site.values.size())]);
    // A gene of a class that is not there changes nothing, but makes the genome a new one.
    genome.set({GeneKind::kStore, coordinator::kNone - 1, 0}, k);
    int64_t start = clock.now_ns();
    space.structure(genome);
    us.push_back(static_cast<double>(clock.now_ns() - start) * 1e-3);
  }
  std::nth_element(us.begin(), us.begin() + kDecodings / 2, us.end());
  return Json{{"scaling", what},
              {"enodes", space.saturated().report.nodes},
              {"chosen_sites", structure->sites.size()},
              {"calls", chosen},
              {"decode_us_p50", us[kDecodings / 2]}};
}

// Layers of a small network, not rolled up.
Graph layers(int count) {
  common::GraphBuilder b;
  auto h = b.input(common::InputKind::kUser, common::DType::kFloat32, {8, 32}, "x");
  for (int layer = 0; layer < count; ++layer) {
    auto w = b.input(common::InputKind::kWeight, common::DType::kFloat32, {32, 32}, "w");
    auto y = b.unary(common::UnaryOp::kTanh, b.matmul(h, b.permute(w, {1, 0})));
    auto e = b.unary(common::UnaryOp::kExp, y);
    auto sum = b.reduce(common::ReduceOp::kSum, e, {1}, true);
    h = b.binary(common::BinaryOp::kAdd, h, b.binary(common::BinaryOp::kDiv, e, sum));
  }
  b.output(h);
  return b.finish();
}

// Adds copies of the whole computation, on other values, that no output needs: the e-graph grows
// and the graph that is chosen stays.
Graph with_dead_copies(const Graph& graph, int copies) {
  Graph result = graph;
  auto add = [&](common::Node node) {
    result.nodes.push_back(std::move(node));
    return static_cast<common::NodeId>(result.nodes.size()) - 1;
  };
  std::vector<common::NodeId> at(graph.nodes.size());
  for (size_t n = 0; n < at.size(); ++n) at[n] = static_cast<common::NodeId>(n);
  for (int copy = 0; copy < copies; ++copy) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      common::Node node = graph.nodes[n];
      if (node.op == common::Op::kInput) {
        node.op = common::Op::kUnary;
        node.attr = common::UnaryAttr{common::UnaryOp::kSin};
        node.operands = {at[n]};
      } else {
        for (common::NodeId& operand : node.operands) operand = at[static_cast<size_t>(operand)];
      }
      at[n] = add(std::move(node));
    }
  }
  return result;
}

void scaling() {
  genome_costs();
  for (int count : {1, 2, 4, 8, 16, 32}) {
    Json line = decoding("chosen graph", layers(count));
    line["layers"] = count;
    print(line);
  }
  for (int copies : {0, 1, 4, 16, 64}) {
    Json line = decoding("e-graph", with_dead_copies(layers(4), copies));
    line["dead_copies"] = copies;
    print(line);
  }
}

bool parse_number(const std::string& text, int64_t& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out > 0;
}

}  // namespace

int run_genomes(const std::vector<std::string>& arguments) {
  TrialOptions options;
  std::vector<std::string> files;
  bool scales = false;
  bool is_sound = !arguments.empty();
  for (size_t k = 0; k < arguments.size() && is_sound; ++k) {
    const std::string& name = arguments[k];
    if (name == "--scaling") {
      scales = true;
    } else if (name == "--model") {
      while (k + 1 < arguments.size() && arguments[k + 1].rfind("--", 0) != 0) {
        files.push_back(arguments[++k]);
      }
      is_sound = !files.empty();
    } else if (k + 1 < arguments.size() && (name == "--count" || name == "--sample")) {
      is_sound =
          parse_number(arguments[++k], name == "--count" ? options.genomes : options.samples);
    } else {
      is_sound = false;
    }
  }
  if (!is_sound) {
    std::fprintf(stderr,
                 "lfarm-bench: genomes takes [--scaling] [--model MODEL.pt2...] [--count N] "
                 "[--sample K]\n");
    return 2;
  }
  if (scales) scaling();
  int code = 0;
  for (const std::string& file : files) code = std::max(code, try_model(file, options));
  return code;
}

}  // namespace bench
