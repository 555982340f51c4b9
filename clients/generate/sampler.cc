#include "clients/generate/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/base/cat.h"
#include "common/ir/hlir/philox.h"

namespace clients {
namespace {

// Whether a logit comes before another; NaN comes last.
bool is_before(float a, float b) { return a > b || (std::isnan(b) && !std::isnan(a)); }

// The tokens that may be chosen, most probable first.
std::vector<int64_t> most_probable(std::span<const float> logits, int64_t top_k) {
  std::vector<int64_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  auto before = [&](int64_t a, int64_t b) {
    float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return is_before(x, y) || (!is_before(y, x) && a < b);
  };
  auto count = static_cast<int64_t>(tokens.size());
  if (top_k > 0) count = std::min(count, top_k);
  std::partial_sort(tokens.begin(), tokens.begin() + count, tokens.end(), before);
  tokens.resize(static_cast<size_t>(count));
  return tokens;
}

// The index of the first greatest logit. NaN is ignored; 0 if all are NaN.
int64_t greatest_of(std::span<const float> logits) {
  // One maximum for each lane, which the compiler vectorises; a single one is a chain of steps.
  constexpr size_t kLanes = 32;
  std::array<float, kLanes> best;
  best.fill(-std::numeric_limits<float>::infinity());
  size_t k = 0;
  for (; k + kLanes <= logits.size(); k += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      best[lane] = logits[k + lane] > best[lane] ? logits[k + lane] : best[lane];
    }
  }
  float greatest = *std::max_element(best.begin(), best.end());
  for (; k < logits.size(); ++k) greatest = logits[k] > greatest ? logits[k] : greatest;
  auto found = std::find(logits.begin(), logits.end(), greatest);
  return found == logits.end() ? 0 : found - logits.begin();
}

}  // namespace

common::Status check_sampling(const Sampling& sampling) {
  if (!(sampling.temperature >= 0) || std::isinf(sampling.temperature)) {
    return common::invalid_input(
        common::cat("the temperature ", sampling.temperature, " is not a number of at least 0"));
  }
  if (sampling.top_k < 0) {
    return common::invalid_input(common::cat("top-k ", sampling.top_k, " is negative"));
  }
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    return common::invalid_input(common::cat("top-p ", sampling.top_p, " is not in (0, 1]"));
  }
  return {};
}

int64_t choose_token(std::span<const float> logits, const Sampling& sampling, uint64_t sequence,
                     uint64_t position) {
  if (sampling.temperature == 0) return greatest_of(logits);
  std::vector<int64_t> tokens = most_probable(logits, sampling.top_k);
  double greatest = logits[static_cast<size_t>(tokens.front())];
  std::vector<double> weights;
  double total = 0;
  for (int64_t token : tokens) {
    double x = (logits[static_cast<size_t>(token)] - greatest) / sampling.temperature;
    weights.push_back(std::isnan(x) ? 0 : std::exp(x));
    total += weights.back();
  }
  double kept = 0, wanted = sampling.top_p * total;
  size_t count = 0;
  while (count < weights.size() && (count == 0 || kept < wanted)) kept += weights[count++];
  double share =
      kept * common::philox_uniform(common::philox(sampling.seed, position, sequence)[0]);
  double sum = 0;
  for (size_t k = 0; k + 1 < count; ++k) {
    sum += weights[k];
    if (share <= sum) return tokens[k];
  }
  return tokens[count - 1];
}

}  // namespace clients
