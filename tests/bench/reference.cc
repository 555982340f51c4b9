// reference GRAPH.pt2 [SIZE ...]: what verifying one candidate costs beside the candidate's own
// run: inputs, both reference results, and the comparison.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "clients/pt2/translate.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/runtime/interpreter/interpreter.h"
#include "common/runtime/tensor/synthetic.h"
#include "common/runtime/whole_run.h"
#include "tests/bench/bench.h"

namespace bench {
namespace {

using common::Result;
using common::Status;

// Milliseconds since the last call.
class Laps {
 public:
  double lap_ms() {
    int64_t now_ns = clock_.now_ns();
    double ms = static_cast<double>(now_ns - last_ns_) / 1e6;
    last_ns_ = now_ns;
    return ms;
  }

 private:
  common::SteadyClock clock_;
  int64_t last_ns_ = clock_.now_ns();
};

Status time_reference(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return common::invalid_input("reference takes a program: GRAPH.pt2");
  LFARM_ASSIGN_OR_RETURN(clients::Model model, clients::load_model(arguments[0]));
  const common::Graph& graph = model.graph;
  std::vector<int64_t> sizes = common::choose_sizes(graph, 0);
  for (size_t k = 1; k < arguments.size() && k <= sizes.size(); ++k) {
    sizes[k - 1] = std::stoll(arguments[k]);
  }
  nlohmann::ordered_json line{{"graph", arguments[0]}, {"sizes", sizes}};
  Laps laps;
  common::SharedWeights weights{1, {}};
  using common::InputPattern;
  LFARM_ASSIGN_OR_RETURN(auto inputs,
                         common::synthetic_inputs(graph, sizes, 1, InputPattern::kNormal, weights));
  line["inputs_ms"] = laps.lap_ms();
  LFARM_ASSIGN_OR_RETURN(auto again,
                         common::synthetic_inputs(graph, sizes, 2, InputPattern::kMixed, weights));
  line["more_inputs_ms"] = laps.lap_ms();
  for (auto [precision, name] : {std::pair{common::Precision::kWide, "oracle_ms"},
                                 std::pair{common::Precision::kPlain, "plain_ms"}}) {
    common::InterpretOptions options;
    options.precision = precision;
    LFARM_ASSIGN_OR_RETURN(auto outputs, common::interpret(graph, inputs, options));
    line[name] = laps.lap_ms();
  }
  LFARM_ASSIGN_OR_RETURN(auto reference, common::reference_outputs(graph, inputs));
  line["reference_ms"] = laps.lap_ms();
  // A candidate that rounds in another way than the reference.
  common::InterpretOptions options;
  options.precision = common::Precision::kPlain;
  options.rounding = 1;
  LFARM_ASSIGN_OR_RETURN(auto candidate, common::interpret(graph, inputs, options));
  laps.lap_ms();
  LFARM_ASSIGN_OR_RETURN(auto error,
                         common::judge_outputs(graph, inputs, candidate, true, reference));
  line["judge_ms"] = laps.lap_ms();
  line["max_error"] = error.candidate;
  line["peak_mb"] = peak_mb();
  std::printf("%s\n", line.dump().c_str());
  return {};
}

}  // namespace

int run_reference(const std::vector<std::string>& arguments) {
  Status status = time_reference(arguments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "lfarm-bench: %s\n", status.error().message.c_str());
  return 1;
}

}  // namespace bench
