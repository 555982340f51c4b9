#include "worker/profile/verifier.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/runtime/interpreter/interpreter.h"
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
} kAdversarial[] = {{InputPattern::kMixed, "mixed magnitudes"},
                    {InputPattern::kZeros, "zeros"},
                    {InputPattern::kLarge, "large values"},
                    {InputPattern::kNegative, "negative values"}};

// Calls of family_of(); verifying a candidate makes some twenty.
constexpr uint64_t kRecentUses = 2'000;
// A graph of at most an eighth of a cached model's bytes is taken for a region of it.
constexpr size_t kShareOfRegion = 8;

size_t bytes_of(const std::vector<HostTensor>& tensors) {
  size_t total = 0;
  for (const HostTensor& tensor : tensors) total += tensor.bytes().size();
  return total;
}

// Of the weights, too.
uint64_t first_seed(const VerifyOptions& options) {
  return options.seeds.empty() ? 1 : options.seeds[0];
}

Error internal(std::string_view what, const Error& cause) {
  return common::internal_error(cat(what, ": ", cause.message));
}

}  // namespace

bool has_same_weights(const Graph& graph, const std::vector<HostTensor>& a,
                      const std::vector<HostTensor>& b) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (graph.inputs[i].kind == common::InputKind::kWeight && a[i].data() != b[i].data()) {
      return false;
    }
  }
  return true;
}

// One set of inputs.
struct Verifier::Case {
  std::vector<int64_t> sizes;  // of the symbols
  uint64_t seed = 0;
  uint64_t weight_seed = 0;
  InputPattern pattern = InputPattern::kNormal;
  std::string name;
};

struct Verifier::Reference {
  Digest key;  // the case
  std::vector<HostTensor> inputs;
  common::ReferenceOutputs outputs;
  bool is_usual = false;  // see judge_outputs()
};

// All that is kept of a graph.
struct Verifier::Family {
  Digest graph;
  common::SharedWeights weights;
  common::ResidentWeights resident;
  uint64_t last_use = 0;  // of all uses of families
  std::list<std::shared_ptr<Reference>> cases;

  std::shared_ptr<Reference> find(const Digest& key) const {
    auto known =
        std::find_if(cases.begin(), cases.end(), [&](const auto& one) { return one->key == key; });
    return known == cases.end() ? nullptr : *known;
  }
  size_t bytes() const { return bytes_of(weights.tensors) + bytes_of_cases(); }
  size_t bytes_of_cases() const {
    size_t total = 0;
    for (const auto& each : cases) {
      for (const HostTensor& input : each->inputs) {
        if (!is_shared(input)) total += input.bytes().size();
      }
      total += bytes_of(each->outputs.oracle) + bytes_of(each->outputs.plain);
      for (const auto& draw : each->outputs.draws) total += bytes_of(draw);
    }
    return total;
  }

 private:
  bool is_shared(const HostTensor& input) const {
    return std::any_of(weights.tensors.begin(), weights.tensors.end(),
                       [&](const HostTensor& weight) { return weight.data() == input.data(); });
  }
};

std::vector<Verifier::Case> Verifier::cases(const VerifyOptions& options) const {
  std::vector<Case> result;
  const uint64_t first = first_seed(options);
  for (const std::vector<int64_t>& sizes : options.sizes) {
    for (uint64_t seed : options.seeds) {
      result.push_back({sizes, seed, first, InputPattern::kNormal, cat("seed ", seed)});
    }
    if (!options.adversarial) continue;
    for (const auto& [pattern, name] : kAdversarial) {
      result.push_back({sizes, first, first, pattern, name});
    }
  }
  // Where time is short, every size once says more than one size in every way.
  std::stable_partition(result.begin(), result.end(), [&](const Case& c) {
    return c.pattern == InputPattern::kNormal && c.seed == first;
  });
  for (Case& c : result) {
    for (size_t k = 0; k < c.sizes.size(); ++k) c.name += cat(", s", k, "=", c.sizes[k]);
  }
  return result;
}

Digest Verifier::key_of(const Case& which) {
  common::Hasher hasher;
  hasher.u64(which.seed).u64(static_cast<uint64_t>(which.pattern));
  for (int64_t size : which.sizes) hasher.i64(size);
  return hasher.finish();
}

Verifier::Families::iterator Verifier::find_family(const Digest& digest, uint64_t weight_seed) {
  return std::find_if(cache_.begin(), cache_.end(), [&](const auto& family) {
    return family->graph == digest && family->weights.seed == weight_seed;
  });
}

bool Verifier::is_known(const Digest& digest, const Case& which) {
  auto family = find_family(digest, which.weight_seed);
  return family != cache_.end() && (*family)->find(key_of(which)) != nullptr;
}

Verifier::Family& Verifier::family_of(const Digest& digest, uint64_t weight_seed) {
  auto known = find_family(digest, weight_seed);
  if (known == cache_.end()) {
    cache_.push_front(std::make_shared<Family>());
    cache_.front()->graph = digest;
    cache_.front()->weights.seed = weight_seed;
    cache_.front()->weights.band = common::kGuardBand;  // no executor has to copy them
  } else {
    cache_.splice(cache_.begin(), cache_, known);
  }
  cache_.front()->last_use = ++uses_;
  return *cache_.front();
}

void Verifier::make_room_beside(const Family& family) {
  // Candidates for a whole model and for its regions come in turn, and the model's weights and
  // references take seconds to make again: the model stays while its regions are verified.
  auto may_stay = [&](const Family& each) {
    return uses_ - each.last_use < kRecentUses &&
           family.bytes() <= std::max(cache_bytes_max_, each.bytes() / kShareOfRegion);
  };
  const Family* whole = &family;
  size_t total = 0;
  for (const auto& each : cache_) {
    total += each->bytes();
    if (each->bytes() > whole->bytes() && may_stay(*each)) whole = each.get();
  }
  size_t others = total - whole->bytes();
  for (auto each = cache_.end(); others > cache_bytes_max_ && each != cache_.begin();) {
    --each;
    if (each->get() == &family || each->get() == whole) continue;
    others -= (*each)->bytes();
    each = cache_.erase(each);
  }
}

Result<std::shared_ptr<Verifier::Reference>> Verifier::reference(const Digest& digest,
                                                                 const Graph& graph,
                                                                 const Case& which) {
  Digest key = key_of(which);
  Family& family = family_of(digest, which.weight_seed);
  if (auto known = family.find(key)) return known;
  if (which.sizes.size() != graph.symbols.size()) {
    return common::internal_error(
        cat("a task gives ", which.sizes.size(), " sizes for ", graph.symbols.size(), " symbols"));
  }
  auto made = std::make_shared<Reference>();
  made->key = key;
  auto inputs =
      common::synthetic_inputs(graph, which.sizes, which.seed, which.pattern, family.weights);
  if (!inputs.ok()) return internal("cannot make inputs", inputs.error());
  made->inputs = std::move(inputs).value();
  made->is_usual = which.pattern == InputPattern::kNormal;
  LFARM_ASSIGN_OR_RETURN(made->outputs, common::reference_outputs(graph, made->inputs));
  family.cases.push_back(made);
  make_room_beside(family);
  while (family.bytes_of_cases() > cache_bytes_max_ && family.cases.size() > 1) {
    family.cases.pop_front();
  }
  return made;
}

Status Verifier::check_guards(Executor& executor, common::Guards which) {
  Status guards = executor.check_guards(which);
  memory_damaged_ = memory_damaged_ || !guards.ok();
  return guards;
}

Status Verifier::check_case(const Graph& graph, Reference& reference,
                            common::ResidentWeights& resident, bool kept, Executor& executor,
                            Verdict& verdict) {
  LFARM_ASSIGN_OR_RETURN(auto user,
                         common::bind_inputs(executor, reference.inputs, kept, &resident));
  if (observer_) observer_(true);
  auto run = executor.run(user);
  if (observer_) observer_(false);
  if (!run.ok()) return run.error();
  LFARM_RETURN_IF_ERROR(check_guards(executor, common::Guards::kRun));
  LFARM_ASSIGN_OR_RETURN(auto outputs, common::outputs_in_order(executor, *run));
  auto judged = common::judge_outputs(graph, reference.inputs, outputs, reference.is_usual,
                                      reference.outputs);
  if (!judged.ok()) return judged.error();
  verdict.max_error = std::max(verdict.max_error, judged->candidate);
  return {};
}

Status Verifier::check_cases(const Digest& digest, const Graph& graph, Executor& executor,
                             const VerifyOptions& options, Verdict& verdict) {
  std::shared_ptr<Reference> last;
  common::SteadyClock clock;
  int64_t spent_ns = 0;
  std::vector<Case> all = cases(options);
  for (size_t k = 0; k < all.size(); ++k) {
    const Case& which = all[k];
    bool is_late =
        options.references_ms != 0 && spent_ns > int64_t{options.references_ms} * 1'000'000;
    if (is_late && k >= options.always && !is_known(digest, which)) continue;
    int64_t start_ns = clock.now_ns();
    LFARM_ASSIGN_OR_RETURN(auto expected, reference(digest, graph, which));
    spent_ns += clock.now_ns() - start_ns;
    bool kept = last && has_same_weights(graph, last->inputs, expected->inputs);
    // The next case replaces the weights, so their contents are checked now.
    if (last && !kept) LFARM_RETURN_IF_ERROR(check_guards(executor, common::Guards::kAll));
    last = expected;
    const size_t draws = expected->outputs.draws.size();
    start_ns = clock.now_ns();
    Family& family = family_of(digest, which.weight_seed);
    Status status = check_case(graph, *expected, family.resident, kept, executor, verdict);
    // Draws of rounding are references, too, made when a comparison asks for them.
    if (expected->outputs.draws.size() > draws) spent_ns += clock.now_ns() - start_ns;
    if (!status.ok()) {
      return Error{status.error().code, cat(which.name, ": ", status.error().message)};
    }
  }
  return {};
}

Result<Verdict> Verifier::verify(const Digest& digest, const Graph& graph, Executor& executor,
                                 const VerifyOptions& options) {
  Verdict verdict;
  memory_damaged_ = false;
  Status checked = check_cases(digest, graph, executor, options, verdict);
  // Also where a case failed, because later candidates use the same weights.
  const bool is_candidates = checked.ok() || checked.error().code == common::Code::kVerification;
  Status guards =
      is_candidates && !memory_damaged_ ? check_guards(executor, common::Guards::kAll) : Status();
  if (!checked.ok()) return checked.error();
  if (!guards.ok()) return guards.error();
  return verdict;
}

Result<std::vector<HostTensor>> Verifier::bind(Executor& executor, const Digest& digest,
                                               const VerifyOptions& options,
                                               const std::vector<HostTensor>& inputs, bool kept) {
  return common::bind_inputs(executor, inputs, kept,
                             &family_of(digest, first_seed(options)).resident);
}

void Verifier::forget_residents() {
  for (const auto& family : cache_) family->resident = {};
}

Result<std::vector<HostTensor>> Verifier::inputs_at(const Digest& digest, const Graph& graph,
                                                    const VerifyOptions& options,
                                                    const std::vector<int64_t>& sizes) {
  if (sizes.size() != graph.symbols.size()) {
    return common::internal_error(
        cat("a task measures ", sizes.size(), " sizes of ", graph.symbols.size(), " symbols"));
  }
  const uint64_t seed = first_seed(options);
  auto inputs = common::synthetic_inputs(graph, sizes, seed, InputPattern::kNormal,
                                         family_of(digest, seed).weights);
  if (!inputs.ok()) return internal("cannot make inputs", inputs.error());
  return inputs;
}

Status Verifier::check_first_case(const Digest& digest, const Graph& graph, Executor& executor,
                                  const VerifyOptions& options,
                                  const std::vector<HostTensor>& bound) {
  std::vector<Case> all = cases(options);
  if (all.empty()) return common::internal_error("a task asks for no inputs to measure with");
  LFARM_ASSIGN_OR_RETURN(auto expected, reference(digest, graph, all[0]));
  Verdict verdict;
  bool kept = has_same_weights(graph, bound, expected->inputs);
  Family& family = family_of(digest, first_seed(options));
  Status status = check_case(graph, *expected, family.resident, kept, executor, verdict);
  if (status.ok()) return status;
  return Error{status.error().code, cat("after measuring: ", status.error().message)};
}

}  // namespace worker
