#include "common/runtime/tensor/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "common/base/cat.h"

namespace common {
namespace {

Error differs(std::string message) { return {Code::kVerification, std::move(message)}; }

// "[0, 3]" of a row-major position.
std::string index_text(const std::vector<int64_t>& sizes, int64_t position) {
  std::vector<int64_t> index(sizes.size());
  for (size_t k = sizes.size(); k-- > 0; position /= sizes[k]) index[k] = position % sizes[k];
  std::string text = "[";
  for (size_t k = 0; k < index.size(); ++k) text += cat(k ? ", " : "", index[k]);
  return text + "]";
}

std::string value_text(const HostTensor& tensor, int64_t i) {
  return is_float(tensor.dtype()) ? cat(tensor.get(i)) : cat(tensor.get_int(i));
}

// A complex tensor as twice as many floats, real and imaginary parts in turn.
Result<HostTensor> as_real(const HostTensor& tensor) {
  if (tensor.dtype() != DType::kComplex64) return tensor;
  std::vector<int64_t> sizes = tensor.sizes();
  sizes.push_back(2);
  return HostTensor::wrap(DType::kFloat32, std::move(sizes), tensor.bytes());
}

// The worst of the elements that differ, and their number.
struct Differences {
  int64_t count = 0;
  int64_t worst = 0;
  double excess = -1;  // of the worst
  void add(int64_t i, double by) {
    ++count;
    if (!(by <= excess)) {  // NaN is the worst
      worst = i;
      excess = by;
    }
  }
};

Error report(std::string_view name, const Differences& found, const HostTensor& got,
             const HostTensor& expected, std::string_view allowed) {
  return differs(cat(name, ": ", found.count, " of ", got.elements(),
                     " elements differ, the worst at ", index_text(got.sizes(), found.worst),
                     ": got ", value_text(got, found.worst), ", expected ",
                     value_text(expected, found.worst), allowed));
}

bool same_kind(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return true;
}

// Rounding that reordering a computation may add, relative, by what the output is stored in.
double slack(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 4 * 0x1p-10;
    case DType::kBfloat16:
      return 4 * 0x1p-7;
    case DType::kFloat64:
      return 1e-10;
    default:
      return 64 * 0x1p-23;
  }
}

// All elements: reading them one by one through get() takes longer than judging them.
std::vector<double> values_of(const HostTensor& tensor) {
  std::vector<double> values(static_cast<size_t>(tensor.elements()));
  if (values.empty()) return values;  // memcpy takes no null pointers, even to copy nothing
  if (tensor.dtype() == DType::kFloat64) {
    std::memcpy(values.data(), tensor.data(), values.size() * sizeof(double));
  } else if (tensor.dtype() == DType::kFloat32) {
    for (size_t i = 0; i < values.size(); ++i) {
      float value = 0;  // of memory that may be a caller's, aligned to nothing
      std::memcpy(&value, tensor.data() + i * sizeof value, sizeof value);
      values[i] = static_cast<double>(value);
    }
  } else {
    for (size_t i = 0; i < values.size(); ++i) values[i] = tensor.get(static_cast<int64_t>(i));
  }
  return values;
}

// The median magnitude of finite elements other than 0; 0 without any.
double typical_magnitude(const std::vector<double>& values) {
  std::vector<double> magnitudes;
  for (double value : values) {
    double x = std::fabs(value);
    if (std::isfinite(x) && x != 0) magnitudes.push_back(x);
  }
  if (magnitudes.empty()) return 0;
  auto middle = magnitudes.begin() + static_cast<std::ptrdiff_t>(magnitudes.size() / 2);
  std::nth_element(magnitudes.begin(), middle, magnitudes.end());
  return *middle;
}

// The relative error of a finite element; 0 when both are 0.
double error_at(double x, double oracle, double typical) {
  double difference = std::fabs(x - oracle);
  if (difference == 0) return 0;
  return difference / std::max({std::fabs(oracle), typical, 1e-30});
}

// Over the elements that are finite in both.
struct Errors {
  double greatest = 0;
  double mean = 0;
};
Errors errors_of(const std::vector<double>& x, const std::vector<double>& oracle, double typical) {
  Errors errors;
  int64_t count = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i]) || !std::isfinite(oracle[i])) continue;
    double e = error_at(x[i], oracle[i], typical);
    errors.greatest = std::max(errors.greatest, e);
    errors.mean += e;
    ++count;
  }
  if (count != 0) errors.mean /= static_cast<double>(count);
  return errors;
}

Result<OutputError> verify_exact(std::string_view name, const HostTensor& candidate,
                                 const HostTensor& oracle, const HostTensor& reference) {
  Differences found;
  for (int64_t i = 0; i < candidate.elements(); ++i) {
    int64_t x = candidate.get_int(i);
    if (x == oracle.get_int(i) || x == reference.get_int(i)) continue;
    found.add(i, std::fabs(static_cast<double>(x) - static_cast<double>(oracle.get_int(i))));
  }
  if (found.count != 0) return report(name, found, candidate, oracle, "");
  return OutputError{};
}

}  // namespace

Status compare_close(std::string_view name, const HostTensor& got, const HostTensor& expected,
                     const Tolerance& tolerance) {
  if (got.dtype() != expected.dtype() || got.sizes() != expected.sizes()) {
    return differs(cat(name, ": got ", got.type_text(), ", expected ", expected.type_text()));
  }
  LFARM_ASSIGN_OR_RETURN(HostTensor a, as_real(got));
  LFARM_ASSIGN_OR_RETURN(HostTensor b, as_real(expected));
  Differences found;
  for (int64_t i = 0; i < a.elements(); ++i) {
    if (!is_float(a.dtype())) {
      if (a.get_int(i) == b.get_int(i)) continue;
      found.add(i, std::fabs(a.get(i) - b.get(i)));
      continue;
    }
    double x = a.get(i);
    double y = b.get(i);
    if (!same_kind(x, y)) {
      found.add(i, HUGE_VAL);
    } else if (std::isfinite(y)) {
      double over = std::fabs(x - y) - (tolerance.atol + tolerance.rtol * std::fabs(y));
      if (over > 0) found.add(i, over);
    }
  }
  if (found.count == 0) return {};
  std::string allowed =
      is_float(a.dtype()) ? cat(" (rtol ", tolerance.rtol, ", atol ", tolerance.atol, ")") : "";
  return report(name, found, a, b, allowed);
}

DType narrowest_float(const Graph& graph) {
  DType narrowest = DType::kFloat64;
  auto take = [&](DType dtype) {
    if (dtype == DType::kComplex64) dtype = DType::kFloat32;
    if (is_float(dtype) && slack(dtype) > slack(narrowest)) narrowest = dtype;
  };
  for (const Node& node : graph.nodes) {
    take(node.dtype);
    if (node.op == Op::kLoop) take(narrowest_float(*attr<LoopAttr>(node).body));
  }
  return narrowest;
}

Result<OutputError> verify_output(std::string_view name, const HostTensor& candidate,
                                  const HostTensor& oracle, const HostTensor& reference,
                                  DType narrowest) {
  if (candidate.sizes() != oracle.sizes() || candidate.sizes() != reference.sizes() ||
      candidate.dtype() != reference.dtype()) {
    return differs(
        cat(name, ": got ", candidate.type_text(), ", expected ", reference.type_text()));
  }
  LFARM_ASSIGN_OR_RETURN(HostTensor x, as_real(candidate));
  LFARM_ASSIGN_OR_RETURN(HostTensor truth, as_real(oracle));
  LFARM_ASSIGN_OR_RETURN(HostTensor plain, as_real(reference));
  if (!is_float(x.dtype())) return verify_exact(name, x, truth, plain);

  constexpr int64_t kFew = 64;
  const std::vector<double> ours = values_of(x), exact = values_of(truth),
                            plainly = values_of(plain);
  double typical = typical_magnitude(exact);
  double least = slack(x.dtype());
  if (x.elements() < kFew) least = std::max(least, slack(narrowest));
  Errors of_reference = errors_of(plainly, exact, typical);
  Errors of_candidate = errors_of(ours, exact, typical);
  OutputError error{of_candidate.greatest, of_reference.greatest};
  const double allowed = 2 * of_reference.greatest + least;
  Differences found;
  for (int64_t i = 0; i < x.elements(); ++i) {
    auto k = static_cast<size_t>(i);
    double got = ours[k];
    double expected = exact[k];
    if (std::isfinite(got) && std::isfinite(expected)) {
      double e = error_at(got, expected, typical);
      if (!(e <= allowed)) found.add(i, e);
      continue;
    }
    bool overflows = !same_kind(plainly[k], expected);
    bool passes = same_kind(got, expected) || (overflows && !std::isfinite(got)) ||
                  (overflows && error_at(got, plainly[k], typical) <= allowed);
    if (!passes) found.add(i, HUGE_VAL);
  }
  if (found.count != 0) {
    return report(name, found, x, truth, cat(" (error ", found.excess, ", allowed ", allowed, ")"));
  }
  // Rounding errors of either sort average out alike; something small but wrong everywhere shows.
  double allowed_mean = 2 * of_reference.mean + least / 8;
  if (x.elements() >= kFew && of_candidate.mean > allowed_mean) {
    return differs(cat(name, ": the mean error is ", of_candidate.mean, ", allowed ", allowed_mean,
                       " (twice the plain lowering's)"));
  }
  return error;
}

Result<OutputError> verify_outputs(std::span<const HostTensor> candidate,
                                   std::span<const HostTensor> oracle,
                                   std::span<const HostTensor> reference, DType narrowest) {
  if (candidate.size() != oracle.size() || candidate.size() != reference.size()) {
    return differs(cat("got ", candidate.size(), " outputs, expected ", oracle.size()));
  }
  OutputError worst;
  for (size_t i = 0; i < candidate.size(); ++i) {
    LFARM_ASSIGN_OR_RETURN(OutputError error, verify_output(cat("output ", i), candidate[i],
                                                            oracle[i], reference[i], narrowest));
    worst.candidate = std::max(worst.candidate, error.candidate);
    worst.reference = std::max(worst.reference, error.reference);
  }
  return worst;
}

namespace {

// By size, the greatest first. Not finite where the oracle is another kind of number, or another
// integer.
std::vector<double> sorted_errors(const HostTensor& x, const HostTensor& oracle,
                                  const std::vector<double>& exact, double typical) {
  std::vector<double> errors(exact.size());
  const bool has_floats = is_float(x.dtype());
  const std::vector<double> values = has_floats ? values_of(x) : std::vector<double>();
  for (size_t i = 0; i < errors.size(); ++i) {
    if (!has_floats) {
      auto at = static_cast<int64_t>(i);
      errors[i] = x.get_int(at) == oracle.get_int(at) ? 0 : HUGE_VAL;
    } else if (std::isfinite(values[i]) && std::isfinite(exact[i])) {
      errors[i] = error_at(values[i], exact[i], typical);
    } else {
      errors[i] = same_kind(values[i], exact[i]) ? 0 : HUGE_VAL;
    }
  }
  std::sort(errors.begin(), errors.end(), std::greater<>());
  return errors;
}

double greatest_finite(const std::vector<double>& sorted) {
  auto found = std::find_if(sorted.begin(), sorted.end(), [](double e) { return e != HUGE_VAL; });
  return found == sorted.end() ? 0 : *found;
}

// `drawn`: results of the same computation with other rounding, the plain one's first.
Result<OutputError> verify_among(std::string_view name, const HostTensor& candidate,
                                 const HostTensor& oracle, std::span<const HostTensor> drawn,
                                 bool is_usual) {
  constexpr double kMostFurther = 8;
  constexpr size_t kMovedShare = 16;  // one of so many elements
  const std::vector<double> exact = values_of(oracle);
  const double typical = typical_magnitude(exact);
  const double least = slack(candidate.dtype());
  const std::vector<double> ours = sorted_errors(candidate, oracle, exact, typical);
  std::vector<double> worst;
  double further = 0;  // than which perturbing moves an element further than rounding
  for (const HostTensor& draw : drawn) {
    std::vector<double> errors = sorted_errors(draw, oracle, exact, typical);
    if (worst.empty()) {
      further = kMostFurther * greatest_finite(errors) + slack(DType::kFloat32);
      worst = std::move(errors);
      continue;
    }
    for (size_t k = 0; k < worst.size(); ++k) worst[k] = std::max(worst[k], errors[k]);
  }
  for (size_t k = 0; k < ours.size(); ++k) {
    const double allowed = 2 * worst[k / 2] + least;
    if (ours[k] <= allowed) continue;
    return differs(cat(name, ": its error of rank ", k, " among ", ours.size(), " elements is ",
                       ours[k], ", allowed ", allowed, " (twice what rounding gives)"));
  }
  if (is_usual && worst.size() > kMovedShare && worst[worst.size() / kMovedShare] > further) {
    return differs(cat(name, ": a perturbation of the inputs moves it by ",
                       worst[worst.size() / kMovedShare], ", more than rounding does"));
  }
  return OutputError{greatest_finite(ours), greatest_finite(worst)};
}

}  // namespace

Result<OutputError> verify_again(std::span<const HostTensor> candidate,
                                 std::span<const HostTensor> oracle,
                                 std::span<const HostTensor> reference,
                                 std::span<const std::vector<HostTensor>> draws, bool is_usual) {
  if (candidate.size() != oracle.size()) {
    return differs(cat("got ", candidate.size(), " outputs, expected ", oracle.size()));
  }
  OutputError worst;
  for (size_t i = 0; i < candidate.size(); ++i) {
    if (candidate[i].sizes() != oracle[i].sizes() || candidate[i].dtype() != reference[i].dtype()) {
      return differs(cat("output ", i, ": got ", candidate[i].type_text(), ", expected ",
                         reference[i].type_text()));
    }
    LFARM_ASSIGN_OR_RETURN(HostTensor ours, as_real(candidate[i]));
    LFARM_ASSIGN_OR_RETURN(HostTensor exact, as_real(oracle[i]));
    std::vector<HostTensor> drawn;
    LFARM_ASSIGN_OR_RETURN(drawn.emplace_back(), as_real(reference[i]));
    for (const auto& draw : draws) {
      LFARM_ASSIGN_OR_RETURN(drawn.emplace_back(), as_real(draw[i]));
    }
    LFARM_ASSIGN_OR_RETURN(OutputError error,
                           verify_among(cat("output ", i), ours, exact, drawn, is_usual));
    worst.candidate = std::max(worst.candidate, error.candidate);
    worst.reference = std::max(worst.reference, error.reference);
  }
  return worst;
}

}  // namespace common
