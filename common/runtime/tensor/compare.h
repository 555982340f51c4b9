// Comparison of outputs: with expected ones under a tolerance, and of candidates with the oracle.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/ir/hlir/graph.h"
#include "common/runtime/tensor/tensor.h"

namespace common {

// |got - expected| <= atol + rtol * |expected|.
struct Tolerance {
  double rtol = 1e-5;
  double atol = 1e-6;
};

// kVerification unless dtypes and sizes agree, integers and booleans are equal and floats within
// tolerance (NaN equals NaN, infinities equal themselves). The message names `name`, how many
// elements differ, and the worst of them with its index and both values.
Status compare_close(std::string_view name, const HostTensor& got, const HostTensor& expected,
                     const Tolerance& tolerance);

// How far a float output is from the oracle. An element's error is |x - oracle| divided by
// max(|oracle|, the median magnitude of the oracle's finite elements other than 0), so that
// cancellation to almost nothing counts at the scale of its neighbours.
struct OutputError {
  double candidate = 0;  // greatest error of the candidate
  double reference = 0;  // greatest error of the reference
};

// How far the plain lowering's float output is from the oracle, and the scale of both; zeros for
// other outputs. What judging each candidate needs of the reference.
struct ReferenceError {
  // The median magnitude of the oracle's finite elements other than 0, of a sample where it is
  // large.
  double typical = 0;
  double greatest = 0;  // of its elements' errors
  double mean = 0;
  // Whether few elements have nearly all of the error: those that rounding alone decides, such as
  // signs of what would be 0. The greatest error and the mean then say nothing of the others.
  bool is_uneven = false;
};
// Of an output as verify_output() takes it; of outputs that are not comparable anything.
ReferenceError reference_error(const HostTensor& oracle, const HostTensor& reference);

// The float dtype of least precision among a graph's nodes; f64 without floats.
DType narrowest_float(const Graph& graph);

// Judges one output of a candidate. `oracle` is the output of interpret() with kWide, of half types
// in float32 or float64, `reference` with kPlain (or kModel): what the same graph gives when it is
// lowered plainly. Floats pass when
// the candidate's greatest error is at most twice the reference's and some units in the last place,
// and its mean error is so against the reference's mean; where the reference's errors are uneven,
// also its errors in order of size, as verify_again() compares them. Where the oracle is not finite
// the candidate must be the same kind of number, unless the reference overflows elsewhere than the
// oracle, in which case any non-finite number passes too. Integers and booleans must equal the
// oracle's or the reference's. `narrowest` is what the graph rounds to inside: outputs of few
// elements, whose reference may be right by luck, are allowed its units in the last place.
// kVerification with a message as compare_close gives, else the errors.
Result<OutputError> verify_output(std::string_view name, const HostTensor& candidate,
                                  const HostTensor& oracle, const HostTensor& reference,
                                  DType narrowest = DType::kFloat64);
// The same where reference_error() is known.
Result<OutputError> verify_output(std::string_view name, const HostTensor& candidate,
                                  const HostTensor& oracle, const HostTensor& reference,
                                  const ReferenceError& known, DType narrowest = DType::kFloat64);
// All outputs; the worst errors. Names are "output 0", "output 1", ...
Result<OutputError> verify_outputs(std::span<const HostTensor> candidate,
                                   std::span<const HostTensor> oracle,
                                   std::span<const HostTensor> reference,
                                   DType narrowest = DType::kFloat64);
Result<OutputError> verify_outputs(std::span<const HostTensor> candidate,
                                   std::span<const HostTensor> oracle,
                                   std::span<const HostTensor> reference,
                                   std::span<const ReferenceError> known,
                                   DType narrowest = DType::kFloat64);

// Judges outputs that verify_outputs found too far off once more. The plain lowering's errors are
// one draw of rounding, which may be small by luck; what it gives for inputs perturbed in their
// last place (`draws`, one at least) are others. In order of size, the k-th error of the candidate
// is at most twice the (k / 2)-th of the worst draw and some units in the last place, where an
// integer or a number that is not finite is either right or infinitely wrong. So a comparison that
// turns over in some draw, such as the choice of a maximum among near ties, may turn over in twice
// as many elements. `is_usual`: of inputs that graphs are made for, which perturbing should not
// move further than rounding does in over one element of 16.
Result<OutputError> verify_again(std::span<const HostTensor> candidate,
                                 std::span<const HostTensor> oracle,
                                 std::span<const HostTensor> reference,
                                 std::span<const std::vector<HostTensor>> draws, bool is_usual);

}  // namespace common
