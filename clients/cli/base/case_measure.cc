#include "clients/cli/base/case_measure.h"

#include <algorithm>
#include <cmath>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/runtime/tensor/compare.h"

namespace clients {

using common::cat;
using common::HostTensor;
using common::Result;

namespace {

constexpr int64_t kMeasureNs = 250'000'000;
constexpr size_t kRunsMin = 3;
constexpr size_t kRunsMax = 1000;

// Of the finite elements other than 0: what |expected| near 0 is held against.
double median_magnitude(const HostTensor& expected) {
  std::vector<double> magnitudes;
  for (int64_t i = 0; i < expected.elements(); ++i) {
    double magnitude = std::abs(expected.get(i));
    if (std::isfinite(magnitude) && magnitude > 0) magnitudes.push_back(magnitude);
  }
  if (magnitudes.empty()) return 0;
  auto middle = magnitudes.begin() + static_cast<int64_t>(magnitudes.size() / 2);
  std::nth_element(magnitudes.begin(), middle, magnitudes.end());
  return *middle;
}

}  // namespace

void add_error(const HostTensor& actual, const HostTensor& expected,
               std::optional<common::OutputErrors>* error) {
  if (!common::is_float(actual.dtype()) && actual.dtype() != common::DType::kComplex64) return;
  if (!*error) error->emplace();
  double floor = median_magnitude(expected);
  for (int64_t i = 0; i < actual.elements(); ++i) {
    double difference = std::abs(actual.get(i) - expected.get(i));
    if (!std::isfinite(difference) || difference == 0) continue;
    (*error)->absolute = std::max((*error)->absolute, difference);
    double scale = std::max(std::abs(expected.get(i)), floor);
    if (scale > 0) (*error)->relative = std::max((*error)->relative, difference / scale);
  }
}

common::Latency latency_of(std::vector<int64_t>* values_ns) {
  std::vector<int64_t>& values = *values_ns;
  std::sort(values.begin(), values.end());
  auto quantile = [&values](double share) {
    double at = share * static_cast<double>(values.size() - 1);
    auto below = static_cast<size_t>(at);
    size_t above = std::min(below + 1, values.size() - 1);
    double part = at - static_cast<double>(below);
    return static_cast<double>(values[below]) * (1 - part) +
           static_cast<double>(values[above]) * part;
  };
  return {std::max(1.0, quantile(0.5)), quantile(0.75) - quantile(0.25),
          static_cast<int64_t>(values.size())};
}

Result<CaseMeasurement> measure_calls(const Model& model, Instance* instance,
                                      std::span<const HostTensor> inputs) {
  CaseMeasurement measured;
  std::vector<common::TensorRef> refs;
  for (const HostTensor& input : inputs) refs.push_back(common::ref_of(input));
  LFARM_ASSIGN_OR_RETURN(std::vector<int64_t> symbols, symbols_of(model, refs));
  for (size_t k = 0; k < symbols.size(); ++k) {
    measured.sizes += cat(k == 0 ? "s" : ",s", k, "=", symbols[k]);
  }
  for (size_t i = 0; i < inputs.size() && !measured.batch; ++i) {
    bool is_tensor = model.user_inputs[i] >= 0 && !inputs[i].sizes().empty();
    if (is_tensor && inputs[i].sizes()[0] > 0) measured.batch = inputs[i].sizes()[0];
  }
  measured.dtype = common::dtype_name(common::narrowest_float(model.graph));
  common::SteadyClock clock;
  std::vector<int64_t> times;
  int64_t spent_ns = 0;
  for (bool counts = false; spent_ns < kMeasureNs || times.size() < kRunsMin; counts = true) {
    int64_t start = clock.now_ns();
    LFARM_ASSIGN_OR_RETURN(CallResult result, instance->call(inputs));
    int64_t taken = clock.now_ns() - start;
    spent_ns += taken;
    if (counts) times.push_back(taken);
    if (times.size() >= kRunsMax) break;
  }
  measured.latency = latency_of(&times);
  return measured;
}

}  // namespace clients
