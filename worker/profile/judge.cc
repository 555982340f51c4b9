#include "worker/profile/judge.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/runtime/interpreter.h"
#include "common/runtime/whole_run.h"

namespace worker {
using common::cat;
using common::Code;
using common::Digest;
using common::Error;
using common::Executor;
using common::Graph;
using common::HostTensor;
using common::InputPattern;
using common::Result;
using common::Status;
using common::VerifyOptions;

namespace {

// What candidates are tried on besides ordinary values.
constexpr struct {
  InputPattern pattern;
  const char* name;
} kAdversarial[] = {{InputPattern::kZeros, "zeros"},
                    {InputPattern::kLarge, "large values"},
                    {InputPattern::kNegative, "negative values"},
                    {InputPattern::kMixed, "mixed magnitudes"}};

size_t bytes_of(const std::vector<HostTensor>& tensors) {
  size_t total = 0;
  for (const HostTensor& tensor : tensors) total += tensor.bytes().size();
  return total;
}

Error internal(std::string_view what, const Error& cause) {
  return common::internal_error(cat(what, ": ", cause.message));
}

}  // namespace

// One set of inputs.
struct Judge::Case {
  std::vector<int64_t> sizes;  // of the symbols
  uint64_t seed = 0;
  InputPattern pattern = InputPattern::kNormal;
  std::string name;
};

struct Judge::Reference {
  Digest key;  // graph and case
  std::vector<HostTensor> inputs;
  std::vector<HostTensor> oracle;  // in float64
  std::vector<HostTensor> plain;   // as a plain lowering gives it
  std::vector<HostTensor> nudged;  // the same for nudged inputs; empty until it is needed
  size_t bytes = 0;
};

std::vector<Judge::Case> Judge::cases(const VerifyOptions& options) const {
  std::vector<Case> result;
  for (const std::vector<int64_t>& sizes : options.sizes) {
    for (uint64_t seed : options.seeds) {
      result.push_back({sizes, seed, InputPattern::kNormal, cat("seed ", seed)});
    }
    if (!options.adversarial) continue;
    for (const auto& [pattern, name] : kAdversarial) {
      result.push_back({sizes, options.seeds.empty() ? 1 : options.seeds[0], pattern, name});
    }
  }
  for (Case& c : result) {
    for (size_t k = 0; k < c.sizes.size(); ++k) c.name += cat(", s", k, "=", c.sizes[k]);
  }
  return result;
}

Result<std::shared_ptr<Judge::Reference>> Judge::reference(const Digest& digest, const Graph& graph,
                                                           const Case& which) {
  common::Hasher hasher;
  hasher.digest(digest).u64(which.seed).u64(static_cast<uint64_t>(which.pattern));
  for (int64_t size : which.sizes) hasher.i64(size);
  Digest key = hasher.finish();
  for (auto it = cache_.begin(); it != cache_.end(); ++it) {
    if ((*it)->key != key) continue;
    cache_.splice(cache_.begin(), cache_, it);
    return cache_.front();
  }
  if (which.sizes.size() != graph.symbols.size()) {
    return common::internal_error(
        cat("a task gives ", which.sizes.size(), " sizes for ", graph.symbols.size(), " symbols"));
  }
  auto made = std::make_shared<Reference>();
  made->key = key;
  auto inputs = common::synthetic_inputs(graph, which.sizes, which.seed, which.pattern);
  if (!inputs.ok()) return internal("cannot make inputs", inputs.error());
  made->inputs = std::move(inputs).value();
  for (auto [precision, outputs] : {std::pair{common::Precision::kWide, &made->oracle},
                                    std::pair{common::Precision::kPlain, &made->plain}}) {
    common::InterpretOptions options;
    options.precision = precision;
    auto computed = common::interpret(graph, made->inputs, options);
    if (!computed.ok()) return internal("cannot compute the reference", computed.error());
    *outputs = std::move(computed).value();
  }
  made->bytes = bytes_of(made->inputs) + bytes_of(made->oracle) + bytes_of(made->plain);
  cache_bytes_ += made->bytes;
  cache_.push_front(std::move(made));
  while (cache_bytes_ > cache_bytes_max_ && cache_.size() > 1) {
    cache_bytes_ -= cache_.back()->bytes;
    cache_.pop_back();
  }
  return cache_.front();
}

Status Judge::check_case(const Graph& graph, Reference& reference, Executor& executor,
                         Verdict& verdict) {
  LFARM_ASSIGN_OR_RETURN(auto user, common::bind_inputs(executor, reference.inputs));
  if (observer_) observer_(true);
  auto run = executor.run(user);
  if (observer_) observer_(false);
  if (!run.ok()) return run.error();
  Status guards = executor.check_guards();
  memory_damaged_ = !guards.ok();
  if (!guards.ok()) return guards.error();
  LFARM_ASSIGN_OR_RETURN(auto outputs, common::outputs_in_order(executor, *run));
  auto judged = common::verify_outputs(outputs, reference.oracle, reference.plain);
  if (!judged.ok() && judged.error().code == Code::kVerification) {
    if (reference.nudged.empty()) {
      LFARM_ASSIGN_OR_RETURN(reference.nudged, common::outputs_for_nudged(graph, reference.inputs));
      reference.bytes += bytes_of(reference.nudged);
      cache_bytes_ += bytes_of(reference.nudged);
    }
    auto again = common::verify_again(outputs, reference.oracle, reference.plain, reference.nudged);
    if (again.ok()) judged = again;
  }
  if (!judged.ok()) return judged.error();
  verdict.max_error = std::max(verdict.max_error, judged->candidate);
  return {};
}

Result<Verdict> Judge::verify(const Digest& digest, const Graph& graph, Executor& executor,
                              const VerifyOptions& options) {
  Verdict verdict;
  memory_damaged_ = false;
  for (const Case& which : cases(options)) {
    LFARM_ASSIGN_OR_RETURN(auto expected, reference(digest, graph, which));
    Status status = check_case(graph, *expected, executor, verdict);
    if (!status.ok()) {
      return Error{status.error().code, cat(which.name, ": ", status.error().message)};
    }
  }
  return verdict;
}

Result<std::vector<HostTensor>> Judge::bind_first_case(const Digest& digest, const Graph& graph,
                                                       Executor& executor,
                                                       const VerifyOptions& options) {
  std::vector<Case> all = cases(options);
  if (all.empty()) return common::internal_error("a task asks for no inputs to measure with");
  LFARM_ASSIGN_OR_RETURN(auto expected, reference(digest, graph, all[0]));
  return common::bind_inputs(executor, expected->inputs);
}

Status Judge::check_first_case(const Digest& digest, const Graph& graph, Executor& executor,
                               const VerifyOptions& options) {
  std::vector<Case> all = cases(options);
  if (all.empty()) return common::internal_error("a task asks for no inputs to measure with");
  LFARM_ASSIGN_OR_RETURN(auto expected, reference(digest, graph, all[0]));
  Verdict verdict;
  Status status = check_case(graph, *expected, executor, verdict);
  if (status.ok()) return status;
  return Error{status.error().code, cat("after measuring: ", status.error().message)};
}

}  // namespace worker
