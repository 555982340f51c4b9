#include "common/cuda/cublaslt.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/cat.h"
#include "common/cuda/toolkit.h"
#include "common/process/shared_library.h"

namespace common {
namespace {

const std::vector<std::string>& sonames() {
  static const std::vector<std::string> kSonames = {"libcublasLt.so.13", "libcublasLt.so.12"};
  return kSonames;
}

// Values of the library's public enumerations.
constexpr int kSuccess = 0, kInvalidValue = 7, kNotSupported = 15;
constexpr int kReal32 = 0, kReal64 = 1, kReal16 = 2, kRealBf16 = 14;
constexpr int kCompute32 = 68, kCompute64 = 70, kCompute32FastTf32 = 77;
constexpr int kDescriptorTransposeA = 3, kDescriptorTransposeB = 4;
constexpr int kLayoutBatchCount = 5, kLayoutBatchStride = 6;
constexpr int kPreferenceWorkspace = 1, kPreferenceReductions = 3, kPreferenceAlignmentA = 5,
              kPreferenceAlignmentB = 6, kPreferenceAlignmentC = 7, kPreferenceAlignmentD = 8;
constexpr int kTranspose = 1;
// Not in the output's type: a sum that was rounded to 16 bits in between is another sum.
constexpr uint32_t kReduceInComputeType = 2;

using Handle = void*;
using Object = void*;  // a descriptor, layout or preference

// cublasLtMatmulAlgo_t and cublasLtMatmulHeuristicResult_t.
struct Algorithm {
  std::array<uint64_t, 8> data;
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  std::array<int, 4> reserved;
};

// A matrix in column-major order, the only one that every algorithm knows.
struct Layout {
  bool transposed = false;  // stored as its transpose
  int64_t rows = 0, columns = 0, leading = 0;
};

// Empty when neither stride is 1.
std::optional<Layout> layout_of(int64_t rows, int64_t columns, int64_t row_stride,
                                int64_t column_stride) {
  if (row_stride == 1 || rows == 1) {
    if (columns == 1 || column_stride >= rows) {
      return Layout{false, rows, columns, columns == 1 ? rows : column_stride};
    }
  }
  if (column_stride == 1 || columns == 1) {
    if (rows == 1 || row_stride >= columns) {
      return Layout{true, columns, rows, rows == 1 ? columns : row_stride};
    }
  }
  return std::nullopt;
}

// How the library is asked for a product: result = left * right.
struct Arranged {
  bool swapped = false;  // the left factor is b
  Layout left, right, result;
};

// Empty when a matrix has no layout. A row-major result is the transpose of a column-major one:
// out' = b' * a'.
std::optional<Arranged> arrange(const CublasLtProduct& p) {
  auto out = layout_of(p.m, p.n, p.out.row_stride, p.out.column_stride);
  std::optional<Layout> left, right;
  bool swapped = !out || out->transposed;
  if (swapped) {
    out = layout_of(p.n, p.m, p.out.column_stride, p.out.row_stride);
    left = layout_of(p.n, p.k, p.b.column_stride, p.b.row_stride);
    right = layout_of(p.k, p.m, p.a.column_stride, p.a.row_stride);
  } else {
    left = layout_of(p.m, p.k, p.a.row_stride, p.a.column_stride);
    right = layout_of(p.k, p.n, p.b.row_stride, p.b.column_stride);
  }
  if (!left || !right || !out || out->transposed) return std::nullopt;
  return Arranged{swapped, *left, *right, *out};
}

struct Types {
  int data, compute, scale;
};

Types types_of(const CublasLtProduct& product) {
  switch (product.type) {
    case CublasLtType::kFloat32:
      return {kReal32, product.tf32 ? kCompute32FastTf32 : kCompute32, kReal32};
    case CublasLtType::kFloat64:
      return {kReal64, kCompute64, kReal64};
    case CublasLtType::kFloat16:
      return {kReal16, kCompute32, kReal32};
    case CublasLtType::kBfloat16:
      return {kRealBf16, kCompute32, kReal32};
  }
  return {};
}

}  // namespace

// Signatures as in the cuBLASLt documentation; statuses are of an enumeration.
struct CublasLt::Entries {
  std::shared_ptr<const SharedLibrary> library;
  size_t (*version)() = nullptr;
  const char* (*status_string)(int) = nullptr;
  int (*create)(Handle*) = nullptr;
  int (*destroy)(Handle) = nullptr;
  int (*create_descriptor)(Object*, int compute, int scale) = nullptr;
  int (*destroy_descriptor)(Object) = nullptr;
  int (*set_descriptor)(Object, int, const void*, size_t) = nullptr;
  int (*create_layout)(Object*, int type, uint64_t rows, uint64_t columns, int64_t) = nullptr;
  int (*destroy_layout)(Object) = nullptr;
  int (*set_layout)(Object, int, const void*, size_t) = nullptr;
  int (*create_preference)(Object*) = nullptr;
  int (*destroy_preference)(Object) = nullptr;
  int (*set_preference)(Object, int, const void*, size_t) = nullptr;
  int (*find_algorithms)(Handle, Object, Object a, Object b, Object c, Object d, Object preference,
                         int wanted, Heuristic*, int* found) = nullptr;
  int (*multiply)(Handle, Object, const void* alpha, const void* a, Object a_layout, const void* b,
                  Object b_layout, const void* beta, const void* c, Object c_layout, void* d,
                  Object d_layout, const Algorithm*, void* workspace, size_t workspace_bytes,
                  void* stream) = nullptr;

  bool resolve() {
    const SharedLibrary& from = *library;
    return from.find(version, "cublasLtGetVersion") &&
           from.find(status_string, "cublasLtGetStatusString") &&
           from.find(create, "cublasLtCreate") && from.find(destroy, "cublasLtDestroy") &&
           from.find(create_descriptor, "cublasLtMatmulDescCreate") &&
           from.find(destroy_descriptor, "cublasLtMatmulDescDestroy") &&
           from.find(set_descriptor, "cublasLtMatmulDescSetAttribute") &&
           from.find(create_layout, "cublasLtMatrixLayoutCreate") &&
           from.find(destroy_layout, "cublasLtMatrixLayoutDestroy") &&
           from.find(set_layout, "cublasLtMatrixLayoutSetAttribute") &&
           from.find(create_preference, "cublasLtMatmulPreferenceCreate") &&
           from.find(destroy_preference, "cublasLtMatmulPreferenceDestroy") &&
           from.find(set_preference, "cublasLtMatmulPreferenceSetAttribute") &&
           from.find(find_algorithms, "cublasLtMatmulAlgoGetHeuristic") &&
           from.find(multiply, "cublasLtMatmul");
  }
  // What the library refuses is the product's fault, anything else the device's.
  Error error(const char* what, int status) const {
    bool refused = status == kInvalidValue || status == kNotSupported;
    return {refused ? Code::kUnsupported : Code::kDeviceSick,
            cat("cuBLASLt: ", what, ": ", status_string(status))};
  }
};

struct CublasLtPlan::State {
  explicit State(std::shared_ptr<const CublasLt::Entries> calls) : entries(std::move(calls)) {}
  ~State() {
    if (descriptor != nullptr) entries->destroy_descriptor(descriptor);
    for (Object layout : {left, right, result}) {
      if (layout != nullptr) entries->destroy_layout(layout);
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // A layout of the product's type and batch; null when the library refuses it.
  Object make_layout(int type, const Layout& layout, int64_t batch, int64_t batch_stride) const {
    Object object = nullptr;
    if (entries->create_layout(&object, type, static_cast<uint64_t>(layout.rows),
                               static_cast<uint64_t>(layout.columns), layout.leading) != kSuccess) {
      return nullptr;
    }
    auto count = static_cast<int32_t>(batch);
    if (entries->set_layout(object, kLayoutBatchCount, &count, sizeof count) == kSuccess &&
        entries->set_layout(object, kLayoutBatchStride, &batch_stride, sizeof batch_stride) ==
            kSuccess) {
      return object;
    }
    entries->destroy_layout(object);
    return nullptr;
  }

  std::shared_ptr<const CublasLt::Entries> entries;
  bool is_double = false;
  bool swapped = false;  // the library's left factor is b
  Object descriptor = nullptr, left = nullptr, right = nullptr, result = nullptr;
  std::vector<Heuristic> algorithms;
};

CublasLtPlan::CublasLtPlan(std::unique_ptr<State> state) : state_(std::move(state)) {}
CublasLtPlan::~CublasLtPlan() = default;
size_t CublasLtPlan::choices() const { return state_->algorithms.size(); }
size_t CublasLtPlan::workspace_bytes(size_t choice) const {
  return state_->algorithms[choice].workspace_bytes;
}

Result<std::shared_ptr<const CublasLt::Entries>> CublasLt::load() {
  auto library = SharedLibrary::open(cuda_library_names(sonames()), SharedLibrary::Unload::kNever);
  if (!library.ok()) {
    return unavailable(cat("no cuBLASLt: ", library.error().message,
                           "; install CUDA 12 or 13, or its package libcublas"));
  }
  auto entries = std::make_shared<Entries>();
  entries->library = *library;
  if (!entries->resolve()) {
    return unavailable(cat((*library)->name(), " lacks functions; install CUDA 12 or 13"));
  }
  return std::shared_ptr<const Entries>(std::move(entries));
}

Result<std::string> CublasLt::find_version() {
  LFARM_ASSIGN_OR_RETURN(auto entries, load());
  // major * 10000 + minor * 100 + patch
  size_t version = entries->version();
  return cat(version / 10'000, ".", version / 100 % 100, ".", version % 100);
}

CublasLt::CublasLt(std::shared_ptr<const Entries> entries) : entries_(std::move(entries)) {}

CublasLt::~CublasLt() {
  if (handle_ != nullptr) entries_->destroy(handle_);
}

Result<std::shared_ptr<const CublasLt>> CublasLt::open() {
  LFARM_ASSIGN_OR_RETURN(auto entries, load());
  std::shared_ptr<CublasLt> opened(new CublasLt(std::move(entries)));
  int status = opened->entries_->create(&opened->handle_);
  if (status != kSuccess) {
    opened->handle_ = nullptr;
    return opened->entries_->error("no handle", status);
  }
  return std::shared_ptr<const CublasLt>(std::move(opened));
}

namespace {

// A preference of the library, destroyed with this.
template <class Entries>
class Preference {
 public:
  explicit Preference(const Entries& entries) : entries_(entries) {
    if (entries_.create_preference(&object_) != kSuccess) object_ = nullptr;
  }
  ~Preference() {
    if (object_ != nullptr) entries_.destroy_preference(object_);
  }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  Object object() const { return object_; }
  template <class T>
  bool set(int attribute, T value) const {
    return object_ != nullptr &&
           entries_.set_preference(object_, attribute, &value, sizeof value) == kSuccess;
  }

 private:
  const Entries& entries_;
  Object object_ = nullptr;
};

}  // namespace

Result<std::shared_ptr<const CublasLtPlan>> CublasLt::prepare(const CublasLtProduct& product,
                                                              size_t workspace_bytes,
                                                              size_t choices_max) const {
  auto arranged = arrange(product);
  if (!arranged) {
    return invalid_input("cuBLASLt: a matrix has no stride of 1, or its rows overlap");
  }
  auto state = std::make_unique<CublasLtPlan::State>(entries_);
  state->swapped = arranged->swapped;
  state->is_double = product.type == CublasLtType::kFloat64;
  Types types = types_of(product);
  int status = entries_->create_descriptor(&state->descriptor, types.compute, types.scale);
  if (status != kSuccess) return entries_->error("no descriptor", status);
  for (auto [attribute, transposed] :
       {std::pair(kDescriptorTransposeA, arranged->left.transposed),
        std::pair(kDescriptorTransposeB, arranged->right.transposed)}) {
    if (!transposed) continue;
    status = entries_->set_descriptor(state->descriptor, attribute, &kTranspose, sizeof kTranspose);
    if (status != kSuccess) return entries_->error("no descriptor", status);
  }
  const CublasLtOperand& left = arranged->swapped ? product.b : product.a;
  const CublasLtOperand& right = arranged->swapped ? product.a : product.b;
  auto layout = [&](const Layout& matrix, const CublasLtOperand& operand) {
    return state->make_layout(types.data, matrix, product.batch, operand.batch_stride);
  };
  state->left = layout(arranged->left, left);
  state->right = layout(arranged->right, right);
  state->result = layout(arranged->result, product.out);
  Preference<Entries> preference(*entries_);
  bool prepared = state->left != nullptr && state->right != nullptr && state->result != nullptr &&
                  preference.set(kPreferenceWorkspace, uint64_t{workspace_bytes}) &&
                  preference.set(kPreferenceReductions, kReduceInComputeType) &&
                  preference.set(kPreferenceAlignmentA, left.alignment) &&
                  preference.set(kPreferenceAlignmentB, right.alignment) &&
                  preference.set(kPreferenceAlignmentC, product.out.alignment) &&
                  preference.set(kPreferenceAlignmentD, product.out.alignment);
  if (!prepared) return invalid_input("cuBLASLt refuses the layout of a matrix");

  state->algorithms.resize(std::max<size_t>(1, choices_max));
  int found = 0;
  status = entries_->find_algorithms(handle_, state->descriptor, state->left, state->right,
                                     state->result, state->result, preference.object(),
                                     static_cast<int>(state->algorithms.size()),
                                     state->algorithms.data(), &found);
  if (status != kSuccess && status != kNotSupported) return entries_->error("no algorithm", status);
  state->algorithms.resize(status == kSuccess ? static_cast<size_t>(found) : 0);
  std::erase_if(state->algorithms, [](const Heuristic& h) { return h.state != kSuccess; });
  if (state->algorithms.empty()) return unsupported("cuBLASLt has no algorithm for this product");
  return std::shared_ptr<const CublasLtPlan>(new CublasLtPlan(std::move(state)));
}

Status CublasLt::run(const CublasLtPlan& plan, size_t choice, const void* a, const void* b,
                     void* out, void* workspace, void* stream) const {
  const CublasLtPlan::State& state = *plan.state_;
  LFARM_CHECK(choice < state.algorithms.size(), "no such algorithm");
  const Heuristic& heuristic = state.algorithms[choice];
  // alpha and beta, in the type of the scale.
  const float one = 1, zero = 0;
  const double double_one = 1, double_zero = 0;
  const void* alpha = state.is_double ? static_cast<const void*>(&double_one) : &one;
  const void* beta = state.is_double ? static_cast<const void*>(&double_zero) : &zero;
  int status = entries_->multiply(handle_, state.descriptor, alpha, state.swapped ? b : a,
                                  state.left, state.swapped ? a : b, state.right, beta, out,
                                  state.result, out, state.result, &heuristic.algorithm, workspace,
                                  heuristic.workspace_bytes, stream);
  return status == kSuccess ? Status() : entries_->error("product", status);
}

}  // namespace common
