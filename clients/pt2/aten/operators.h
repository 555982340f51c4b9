// The tables of ATen operators that can be translated, one for each family.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "clients/pt2/aten/translate_context.h"

// The families with their titles in docs/operators.md. A family NAME is add_NAME_operators() in
// clients/pt2/families/NAME.cc or in a room beside it.
#define LFARM_OPERATOR_FAMILIES(X)                          \
  X(activation, "Activations")                              \
  X(activation_backward, "Gradients of activations")        \
  X(affine_grid, "Affine grids")                            \
  X(attention, "Attention")                                 \
  X(batch_norm, "Batch and instance normalisation")         \
  X(bessel, "Bessel functions")                             \
  X(incomplete_gamma, "Incomplete gamma functions")         \
  X(polynomials, "Orthogonal polynomials")                  \
  X(special_functions, "Special functions")                 \
  X(complex, "Complex numbers")                             \
  X(complex_math, "Complex functions")                      \
  X(composite, "Stacks, grids and products")                \
  X(convolution, "Convolution")                             \
  X(creation, "Creation and conversion")                    \
  X(distribution_backward, "Gradients of random numbers")   \
  X(fourier, "Fourier transforms")                          \
  X(histogram, "Histograms")                                \
  X(indexing, "Indexing")                                   \
  X(cholesky, "Cholesky factors")                           \
  X(exponential, "Exponentials of matrices")                \
  X(lu, "LU factors, inverses and determinants")            \
  X(norms, "Norms of vectors and matrices")                 \
  X(qr, "QR factors")                                       \
  X(spectral, "Eigenvalues and singular values")            \
  X(triangular, "Triangular systems")                       \
  X(linear_loss, "Losses of linear layers")                 \
  X(loss, "Losses")                                         \
  X(loss_backward, "Gradients of losses")                   \
  X(matmul, "Matrix products")                              \
  X(movement, "Movement")                                   \
  X(movement_backward, "Gradients of views and embeddings") \
  X(norm, "Softmax and normalisation")                      \
  X(norm_backward, "Gradients of normalisations")           \
  X(optimizer, "Fused optimizer steps")                     \
  X(padding, "Padding")                                     \
  X(pieces, "Bags and segments")                            \
  X(pointwise, "Elementwise")                               \
  X(pool, "Pooling")                                        \
  X(pool_backward, "Gradients of pooling")                  \
  X(quantization, "Quantization")                           \
  X(random, "Random numbers and dropout")                   \
  X(recurrent, "Recurrent layers")                          \
  X(reduction, "Reductions, scans and sorting")             \
  X(regions, "Regions of images")                           \
  X(refused, "Refused")                                     \
  X(rejection, "Gamma, Poisson and binomial numbers")       \
  X(resample, "Resampling")                                 \
  X(selection, "Selections by masks")                       \
  X(special, "Distances, quantiles and experts")            \
  X(state, "Aliases, modes and arithmetic on sizes")        \
  X(statistics, "Statistics and calculus")                  \
  X(vmap, "torch.vmap")                                     \
  X(window, "Windows")                                      \
  X(window_functions, "Window functions")

namespace clients {

// Translates the context's current node and sets its results.
using Translator = void (*)(Context& c);

// Keys are "aten.softmax.int", or "aten.add" for all overloads of an operator; an in-place
// operator ("aten.add_") is found under the name without its underscore, an alias ("aten.multiply")
// under the name of its operator.
class OperatorTable {
 public:
  // Operators added from here on are of this family.
  void begin_family(std::string_view name) { family_ = name; }
  void add(std::string_view name, Translator translator) { rows_[name] = {family_, translator}; }
  // The form for nodes that read or give a complex tensor.
  void add_complex(std::string_view name, Translator translator) {
    complex_[name] = {family_, Form::kOwn, translator, {}, {}};
  }
  // Complex nodes run the plain form on the real and on the imaginary parts: for operators that
  // are linear in all their tensors together, as movement and sums are. `factor` names a real
  // argument that multiplies, and so is the same for both.
  void add_linear(std::string_view name, std::string_view factor = {}) {
    complex_[name] = {family_, Form::kLinear, nullptr, factor, {}};
  }
  // Complex nodes run the plain form on each pair of parts of the two arguments, as products do.
  void add_bilinear(std::string_view name, std::string_view first, std::string_view second) {
    complex_[name] = {family_, Form::kBilinear, nullptr, first, second};
  }
  // Translates the context's node, whose target is "aten.add.Tensor", say; `complex`: it reads or
  // gives a complex tensor. False, and nothing done, when the operator is unknown.
  bool translate(Context& c, std::string_view target, bool complex) const;
  bool knows(std::string_view target) const;

  // For the list in the documentation, in order.
  struct Entry {
    std::string_view family;
    std::string_view name;
    bool complex = false;  // has a form of its own for complex tensors
  };
  std::vector<Entry> entries() const;

 private:
  enum class Form { kOwn, kLinear, kBilinear };
  struct Row {
    std::string_view family;
    Translator translator = nullptr;
  };
  struct ComplexRow {
    std::string_view family;
    Form form{};
    Translator translator = nullptr;  // kOwn
    std::string_view first, second;   // kLinear: the factor; kBilinear: the factors
  };
  std::string_view family_;
  std::unordered_map<std::string_view, Row> rows_;
  std::unordered_map<std::string_view, ComplexRow> complex_;
};

// A name that PyTorch gives an operator beside the one under which the table has it.
struct OperatorAlias {
  std::string_view name;           // "multiply"
  std::string_view operator_name;  // "mul"
};
std::span<const OperatorAlias> operator_aliases();
// "aten.mul_.Tensor" of "aten.multiply_.Tensor", "aten.max.dim" of "aten.max.dim_max"; targets that
// are no alias as they are.
std::string canonical_target(std::string_view target);

// Whether an operator can be translated inside of torch.vmap.
bool works_in_vmap(std::string_view target);

#define LFARM_DECLARE_OPERATORS(family, title) void add_##family##_operators(OperatorTable* table);
LFARM_OPERATOR_FAMILIES(LFARM_DECLARE_OPERATORS)
#undef LFARM_DECLARE_OPERATORS

}  // namespace clients
