// gpu-verify GRAPH.pt2 [--layers N] [--value INPUTS=A,B,...] [--kernels] [--budget N | --plain]
// [--candidates]: runs plans on the GPU that is there, emulated or not, and compares what they give
// with the reference interpreter.
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "clients/pt2/translate.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/cost/kernels/cost_model.h"
#include "common/ir/hlir/graph_hash.h"
#include "coordinator/search/passes/passes.h"
#include "tests/bench/bench.h"
#include "tests/bench/gpu_static/predicted_device.h"
#include "tests/bench/gpu_verify/first_layers.h"
#include "tests/bench/gpu_verify/gpu_plans.h"
#include "tests/bench/gpu_verify/kernel_programs.h"
#include "tests/bench/gpu_verify/verified_cases.h"
#include "worker/profile/verifier.h"

namespace bench {
namespace {

using common::Result;
using Json = nlohmann::ordered_json;

struct VerifyArguments {
  std::string model;
  int64_t layers = 0;  // 0: all
  CaseChoice cases;
  int64_t budget = 20;          // 0: no search
  bool all_candidates = false;  // not the found plan alone
  bool kernels = false;         // also each kernel alone
};

// Reference results of candidates that are kept, with their inputs.
constexpr size_t kReferenceBytes = size_t{4} << 30;

double seconds_since(int64_t start_ns) {
  return static_cast<double>(common::SteadyClock().now_ns() - start_ns) * 1e-9;
}

// Whether the outputs passed, which the line then says with their errors or the problem. An error
// that is no verdict stays one.
Result<bool> note_verdict(const Result<common::OutputError>& errors, Json& line) {
  bool is_wrong = !errors.ok() && errors.error().code == common::Code::kVerification;
  if (!errors.ok() && !is_wrong) return errors.error();
  line["passed"] = !is_wrong;
  if (is_wrong) {
    line["problem"] = errors.error().message;
  } else {
    line["error"] = errors->candidate;
    line["reference_error"] = errors->reference;
  }
  return !is_wrong;
}

void print_line(const Json& line) {
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

// Judges each kernel of a program alone, a line for each; false when one failed.
Result<bool> verify_kernels(const std::string& name, const common::Program& program,
                            GpuPlans& plans) {
  bool passed = true;
  std::vector<KernelProgram> kernels = kernel_programs(program);
  for (size_t k = 0; k < kernels.size(); ++k) {
    LFARM_ASSIGN_OR_RETURN(auto cases, VerifiedCases::make(std::move(kernels[k].graph), {}));
    LFARM_ASSIGN_OR_RETURN(auto executor, plans.load(std::move(kernels[k].program)));
    Json line{
        {"plan", name}, {"kernel", k}, {"form", common::template_name(program.kernels[k].form)}};
    LFARM_ASSIGN_OR_RETURN(bool is_right, note_verdict(cases.judge(*executor, 0), line));
    print_line(line);
    passed = passed && is_right;
  }
  return passed;
}

// Prints a line for each case; false when one failed.
Result<bool> verify_plan(const std::string& name, common::Program program,
                         const VerifyArguments& arguments, VerifiedCases& cases, GpuPlans& plans) {
  bool passed = true;
  if (arguments.kernels) {
    LFARM_ASSIGN_OR_RETURN(passed, verify_kernels(name, program, plans));
  }
  const size_t calls = program.calls.size();
  int64_t start_ns = common::SteadyClock().now_ns();
  LFARM_ASSIGN_OR_RETURN(auto executor, plans.load(std::move(program)));
  double compile_s = seconds_since(start_ns);
  for (size_t k = 0; k < cases.size(); ++k) {
    start_ns = common::SteadyClock().now_ns();
    Json line{{"model", arguments.model}, {"plan", name}, {"calls", calls}};
    if (!cases.name_of(k).empty()) line["case"] = cases.name_of(k);
    LFARM_ASSIGN_OR_RETURN(bool is_right, note_verdict(cases.judge(*executor, k), line));
    line["compile_s"] = compile_s;
    line["run_s"] = seconds_since(start_ns);
    print_line(line);
    passed = passed && is_right;
  }
  return passed;
}

// Judges the candidates of a search as a worker would, each against its region.
class CandidateJudge {
 public:
  explicit CandidateJudge(GpuPlans& plans) : plans_(plans) {}

  // kVerification is a line that says so, and no error.
  common::Status judge(const coordinator::CandidateTask& task) {
    LFARM_ASSIGN_OR_RETURN(auto executor, plans_.load(task.payload.program));
    auto verdict = verifier_.verify(common::graph_hash(*task.graph), *task.graph, *executor,
                                    task.payload.verify);
    bool is_wrong = !verdict.ok() && verdict.error().code == common::Code::kVerification;
    if (!verdict.ok() && !is_wrong) return verdict.error();
    Json line{{"candidate", task.id},
              {"origin", task.origin},
              {"region", task.region},
              {"calls", task.payload.program.calls.size()},
              {"passed", !is_wrong}};
    if (is_wrong) {
      line["problem"] = verdict.error().message;
    } else {
      line["error"] = verdict->max_error;
    }
    print_line(line);
    passed_ = passed_ && !is_wrong;
    return {};
  }
  bool passed() const { return passed_; }

 private:
  GpuPlans& plans_;
  worker::Verifier verifier_{kReferenceBytes};
  bool passed_ = true;
};

Result<bool> verify_all(const VerifyArguments& arguments) {
  LFARM_ASSIGN_OR_RETURN(auto model, clients::load_model(arguments.model));
  common::Graph graph = std::move(model.graph);
  if (arguments.layers > 0) {
    LFARM_ASSIGN_OR_RETURN(graph, first_layers(graph, arguments.layers));
  }
  LFARM_ASSIGN_OR_RETURN(auto plans, GpuPlans::open());
  int64_t start_ns = common::SteadyClock().now_ns();
  LFARM_ASSIGN_OR_RETURN(auto cases, VerifiedCases::make(graph, arguments.cases));
  Json line{{"model", arguments.model},
            {"layers", arguments.layers},
            {"inputs", graph.inputs.size()},
            {"nodes", graph.nodes.size()},
            {"reference_s", seconds_since(start_ns)},
            {"peak_mb", peak_mb()}};
  print_line(line);
  coordinator::Compilation compilation(graph, plans->target(), coordinator::Numerics::kStrict);
  LFARM_ASSIGN_OR_RETURN(
      bool passed,
      verify_plan("plain", coordinator::default_program(compilation), arguments, cases, *plans));
  if (arguments.budget == 0) return passed;
  CandidateJudge judge(*plans);
  CandidateObserver observer;
  if (arguments.all_candidates) observer = [&](const auto& task) { return judge.judge(task); };
  LFARM_ASSIGN_OR_RETURN(auto program,
                         predicted_search(graph, plans->target(), {arguments.budget}, observer));
  LFARM_ASSIGN_OR_RETURN(bool found_passed,
                         verify_plan("found", std::move(program), arguments, cases, *plans));
  return passed && found_passed && judge.passed();
}

// "pos=0,5,1023"
bool parse_value(const std::string& text, CaseChoice* choice) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return false;
  GivenInputs given{text.substr(0, equals), {}};
  std::istringstream values(text.substr(equals + 1));
  for (std::string value; std::getline(values, value, ',');) {
    char* end = nullptr;
    given.values.push_back(std::strtoll(value.c_str(), &end, 10));
    if (value.empty() || *end != 0) return false;
  }
  bool is_even = choice->given.empty() || choice->given[0].values.size() == given.values.size();
  if (given.values.empty() || !is_even) return false;
  choice->given.push_back(std::move(given));
  return true;
}

std::optional<VerifyArguments> parse(const std::vector<std::string>& arguments) {
  VerifyArguments parsed;
  for (size_t k = 0; k < arguments.size(); ++k) {
    const std::string& name = arguments[k];
    if (name == "--plain") {
      parsed.budget = 0;
      continue;
    }
    if (name == "--kernels") {
      parsed.kernels = true;
      continue;
    }
    if (name == "--candidates") {
      parsed.all_candidates = true;
      continue;
    }
    if (!name.starts_with("--")) {
      if (!parsed.model.empty()) return std::nullopt;
      parsed.model = name;
      continue;
    }
    if (++k == arguments.size()) return std::nullopt;
    if (name == "--value") {
      if (!parse_value(arguments[k], &parsed.cases)) return std::nullopt;
      continue;
    }
    int64_t* number = name == "--layers"   ? &parsed.layers
                      : name == "--budget" ? &parsed.budget
                                           : nullptr;
    if (number == nullptr) return std::nullopt;
    *number = std::strtoll(arguments[k].c_str(), nullptr, 10);
    if (*number < 1) return std::nullopt;
  }
  if (parsed.model.empty()) return std::nullopt;
  return parsed;
}

}  // namespace

int run_gpu_verify(const std::vector<std::string>& arguments) {
  auto parsed = parse(arguments);
  if (!parsed) {
    std::fprintf(stderr,
                 "usage: lfarm-bench gpu-verify GRAPH.pt2 [--layers N] [--value INPUTS=A,B,...]... "
                 "[--kernels] [--budget N [--candidates] | --plain]\n");
    return 2;
  }
  auto passed = verify_all(*parsed);
  if (passed.ok()) return *passed ? 0 : 5;
  std::fprintf(stderr, "lfarm-bench: %s\n", passed.error().message.c_str());
  return passed.error().code == common::Code::kUnsupported ? 3 : 1;
}

}  // namespace bench
