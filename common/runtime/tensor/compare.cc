#include "common/runtime/tensor/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "common/base/cat.h"
#include "common/ir/hlir/half.h"

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

// Elements of a stored type, which may be aligned to nothing, as doubles.
template <class Stored, class Convert>
void widen_all(const std::byte* from, size_t count, double* to, Convert&& convert) {
  for (size_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    to[i] = static_cast<double>(convert(value));
  }
}

// Elements from `first` on; reading them one by one through get() takes longer than judging them.
void read_values(const HostTensor& tensor, size_t first, size_t count, double* to) {
  if (count == 0) return;
  const std::byte* from = tensor.data() + first * static_cast<size_t>(dtype_size(tensor.dtype()));
  auto itself = [](auto value) { return value; };
  switch (tensor.dtype()) {
    case DType::kFloat64:
      return widen_all<double>(from, count, to, itself);
    case DType::kFloat32:
      return widen_all<float>(from, count, to, itself);
    case DType::kBfloat16:
      return widen_all<uint16_t>(from, count, to, float_from_bfloat16);
    case DType::kFloat16:
      return widen_all<uint16_t>(from, count, to, float_from_half);
    default:
      for (size_t i = 0; i < count; ++i) to[i] = tensor.get(static_cast<int64_t>(first + i));
  }
}

std::vector<double> values_of(const HostTensor& tensor) {
  std::vector<double> values(static_cast<size_t>(tensor.elements()));
  read_values(tensor, 0, values.size(), values.data());
  return values;
}

// Calls f(first, count, x, y) for blocks of two tensors' elements; blocks stay in the nearest
// cache.
template <class F>
void for_blocks(const HostTensor& x, const HostTensor& y, F&& f) {
  constexpr size_t kBlock = 1024;
  double xs[kBlock], ys[kBlock];
  auto all = static_cast<size_t>(x.elements());
  for (size_t first = 0; first < all; first += kBlock) {
    size_t count = std::min(kBlock, all - first);
    read_values(x, first, count, xs);
    read_values(y, first, count, ys);
    f(first, count, xs, ys);
  }
}

// The magnitudes of finite elements other than 0 among those `step` apart.
std::vector<double> magnitudes_of(const HostTensor& tensor, size_t step) {
  std::vector<double> magnitudes;
  auto count = static_cast<size_t>(tensor.elements());
  std::vector<double> values;
  if (step == 1) {
    values = values_of(tensor);
  } else {
    for (size_t i = 0; i < count; i += step) values.push_back(tensor.get(static_cast<int64_t>(i)));
  }
  for (double value : values) {
    double x = std::fabs(value);
    if (std::isfinite(x) && x != 0) magnitudes.push_back(x);
  }
  return magnitudes;
}

// The median magnitude of finite elements other than 0; 0 without any. Of a large tensor that of
// elements a prime number apart, where enough of these are not 0.
double typical_magnitude(const HostTensor& tensor) {
  constexpr size_t kStep = 61;
  constexpr int64_t kEnough = 2'048;
  std::vector<double> magnitudes;
  if (tensor.elements() > 2 * kEnough * static_cast<int64_t>(kStep)) {
    magnitudes = magnitudes_of(tensor, kStep);
  }
  if (static_cast<int64_t>(magnitudes.size()) < kEnough) magnitudes = magnitudes_of(tensor, 1);
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
  bool all_finite = true;
};
Errors errors_of(const HostTensor& x, const HostTensor& oracle, double typical) {
  Errors errors;
  int64_t finite = 0;
  for_blocks(x, oracle, [&](size_t, size_t count, const double* ours, const double* exact) {
    for (size_t i = 0; i < count; ++i) {
      if (ours[i] == exact[i] && std::isfinite(exact[i])) {
        ++finite;
        continue;
      }
      if (!std::isfinite(ours[i]) || !std::isfinite(exact[i])) {
        errors.all_finite = false;
        continue;
      }
      double e = error_at(ours[i], exact[i], typical);
      errors.greatest = std::max(errors.greatest, e);
      errors.mean += e;
      ++finite;
    }
  });
  if (finite != 0) errors.mean /= static_cast<double>(finite);
  return errors;
}

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

// Errors of either in order of size: the k-th is at most twice the (k / 2)-th of the others.
Status verify_ranks(std::string_view name, const std::vector<double>& ours,
                    const std::vector<double>& worst, double least) {
  for (size_t k = 0; k < ours.size(); ++k) {
    const double allowed = 2 * worst[k / 2] + least;
    if (ours[k] <= allowed) continue;
    return differs(cat(name, ": its error of rank ", k, " among ", ours.size(), " elements is ",
                       ours[k], ", allowed ", allowed, " (twice what rounding gives)"));
  }
  return {};
}

bool has_same_bytes(const HostTensor& a, const HostTensor& b) {
  return a.elements() == 0 || std::memcmp(a.data(), b.data(), a.bytes().size()) == 0;
}

// Each element by itself, with an error of at most `allowed`.
Status verify_elements(std::string_view name, const HostTensor& x, const HostTensor& truth,
                       const HostTensor& plain, double typical, double allowed) {
  Differences found;
  for_blocks(x, truth, [&](size_t first, size_t count, const double* ours, const double* exact) {
    for (size_t i = 0; i < count; ++i) {
      auto at = static_cast<int64_t>(first + i);
      const double got = ours[i], expected = exact[i];
      if (std::isfinite(got) && std::isfinite(expected)) {
        double e = error_at(got, expected, typical);
        if (!(e <= allowed)) found.add(at, e);
        continue;
      }
      const double plainly = plain.get(at);
      bool overflows = !same_kind(plainly, expected);
      bool passes = same_kind(got, expected) || (overflows && !std::isfinite(got)) ||
                    (overflows && error_at(got, plainly, typical) <= allowed);
      if (!passes) found.add(at, HUGE_VAL);
    }
  });
  if (found.count != 0) {
    return report(name, found, x, truth, cat(" (error ", found.excess, ", allowed ", allowed, ")"));
  }
  return {};
}

Result<OutputError> verify_exact(std::string_view name, const HostTensor& candidate,
                                 const HostTensor& oracle, const HostTensor& reference) {
  if (has_same_bytes(candidate, reference)) return OutputError{};
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

ReferenceError reference_error(const HostTensor& oracle, const HostTensor& reference) {
  // An error that is this many times the median error, or this many units in the last place, does
  // not come from rounding a sum.
  constexpr double kUneven = 1024;
  auto truth = as_real(oracle);
  auto plain = as_real(reference);
  if (!truth.ok() || !plain.ok() || !is_float(plain->dtype())) return {};
  double typical = typical_magnitude(*truth);
  Errors errors = errors_of(*plain, *truth, typical);
  ReferenceError known{typical, errors.greatest, errors.mean, false};
  if (known.greatest <= kUneven * slack(plain->dtype())) return known;
  std::vector<double> sorted = sorted_errors(*plain, *truth, values_of(*truth), typical);
  known.is_uneven = known.greatest > kUneven * sorted[sorted.size() / 2];
  return known;
}

Result<OutputError> verify_output(std::string_view name, const HostTensor& candidate,
                                  const HostTensor& oracle, const HostTensor& reference,
                                  DType narrowest) {
  return verify_output(name, candidate, oracle, reference, reference_error(oracle, reference),
                       narrowest);
}

Result<OutputError> verify_output(std::string_view name, const HostTensor& candidate,
                                  const HostTensor& oracle, const HostTensor& reference,
                                  const ReferenceError& known, DType narrowest) {
  if (candidate.sizes() != oracle.sizes() || candidate.sizes() != reference.sizes() ||
      candidate.dtype() != reference.dtype()) {
    return differs(
        cat(name, ": got ", candidate.type_text(), ", expected ", reference.type_text()));
  }
  LFARM_ASSIGN_OR_RETURN(HostTensor x, as_real(candidate));
  LFARM_ASSIGN_OR_RETURN(HostTensor truth, as_real(oracle));
  LFARM_ASSIGN_OR_RETURN(HostTensor plain, as_real(reference));
  if (!is_float(x.dtype())) return verify_exact(name, x, truth, plain);
  if (has_same_bytes(x, plain)) return OutputError{known.greatest, known.greatest};

  constexpr int64_t kFew = 64;
  double least = slack(x.dtype());
  if (x.elements() < kFew) least = std::max(least, slack(narrowest));
  Errors of_candidate = errors_of(x, truth, known.typical);
  OutputError error{of_candidate.greatest, known.greatest};
  const double allowed = 2 * known.greatest + least;
  if (!of_candidate.all_finite || !(of_candidate.greatest <= allowed)) {
    LFARM_RETURN_IF_ERROR(verify_elements(name, x, truth, plain, known.typical, allowed));
  }
  // Rounding errors of either sort average out alike; something small but wrong everywhere shows.
  double allowed_mean = 2 * known.mean + least / 8;
  if (x.elements() >= kFew && of_candidate.mean > allowed_mean) {
    return differs(cat(name, ": the mean error is ", of_candidate.mean, ", allowed ", allowed_mean,
                       " (twice the plain lowering's)"));
  }
  if (known.is_uneven && x.elements() >= kFew) {
    const std::vector<double> exact = values_of(truth);
    LFARM_RETURN_IF_ERROR(verify_ranks(name, sorted_errors(x, truth, exact, known.typical),
                                       sorted_errors(plain, truth, exact, known.typical),
                                       slack(x.dtype())));
  }
  return error;
}

Result<OutputError> verify_outputs(std::span<const HostTensor> candidate,
                                   std::span<const HostTensor> oracle,
                                   std::span<const HostTensor> reference,
                                   std::span<const ReferenceError> known, DType narrowest) {
  if (candidate.size() != oracle.size() || candidate.size() != reference.size() ||
      candidate.size() != known.size()) {
    return differs(cat("got ", candidate.size(), " outputs, expected ", oracle.size()));
  }
  OutputError worst;
  for (size_t i = 0; i < candidate.size(); ++i) {
    LFARM_ASSIGN_OR_RETURN(OutputError error,
                           verify_output(cat("output ", i), candidate[i], oracle[i], reference[i],
                                         known[i], narrowest));
    worst.candidate = std::max(worst.candidate, error.candidate);
    worst.reference = std::max(worst.reference, error.reference);
  }
  return worst;
}

Result<OutputError> verify_outputs(std::span<const HostTensor> candidate,
                                   std::span<const HostTensor> oracle,
                                   std::span<const HostTensor> reference, DType narrowest) {
  std::vector<ReferenceError> known;
  for (size_t i = 0; i < std::min(oracle.size(), reference.size()); ++i) {
    known.push_back(reference_error(oracle[i], reference[i]));
  }
  return verify_outputs(candidate, oracle, reference, known, narrowest);
}

namespace {

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
  const double typical = typical_magnitude(oracle);
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
  LFARM_RETURN_IF_ERROR(verify_ranks(name, ours, worst, least));
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
