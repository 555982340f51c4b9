#include "common/runtime/device/blas.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <mutex>
#include <optional>

#include "common/base/cat.h"
#include "common/process/shared_library.h"

namespace common {
namespace {

constexpr const char* kLibrary = "libopenblas.so.0";
constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;

template <class T>
using GemmFn = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, T alpha,
                        const T* a, int lda, const T* b, int ldb, T beta, T* c, int ldc);
template <class T>
using GemvFn = void (*)(int order, int transpose, int m, int n, T alpha, const T* a, int lda,
                        const T* x, int incx, T beta, T* y, int incy);

template <class T>
struct Routines {
  GemmFn<T> gemm = nullptr;
  GemvFn<T> gemv = nullptr;
};

// A matrix as BLAS knows it: row-major with a leading dimension, or the transpose of one.
struct Layout {
  bool transposed = false;
  int64_t leading = 1;
};

// Empty when the strides fit neither form. A size of 1 leaves its stride free.
std::optional<Layout> layout_of(int64_t rows, int64_t columns, int64_t row_stride,
                                int64_t column_stride) {
  int64_t width = std::max<int64_t>(1, columns);
  int64_t height = std::max<int64_t>(1, rows);
  if (columns <= 1 || column_stride == 1) {
    if (rows <= 1) return Layout{false, width};
    if (row_stride >= width) return Layout{false, row_stride};
  }
  if (rows <= 1 || row_stride == 1) {
    if (columns <= 1) return Layout{true, height};
    if (column_stride >= height) return Layout{true, column_stride};
  }
  return std::nullopt;
}

template <class T>
void plain_multiply(const GemmSizes& s, const T* a, const T* b, T* out) {
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < s.k; ++l) {
        sum += static_cast<double>(a[i * s.a.row_stride + l * s.a.column_stride]) *
               static_cast<double>(b[l * s.b.row_stride + j * s.b.column_stride]);
      }
      out[i * s.out.row_stride + j * s.out.column_stride] = static_cast<T>(sum);
    }
  }
}

// A single row or column through the matrix-vector routine, which reads the matrix only once.
// Returns false when the strides do not fit.
template <class T>
bool vector_multiply(const Routines<T>& blas, const GemmSizes& s, const T* a, const T* b, T* out) {
  auto as_int = [](int64_t value) { return static_cast<int>(value); };
  if (s.m == 1) {
    auto matrix = layout_of(s.k, s.n, s.b.row_stride, s.b.column_stride);
    int64_t step = s.k == 1 ? 1 : s.a.column_stride;
    int64_t out_step = s.n == 1 ? 1 : s.out.column_stride;
    if (!matrix || step < 1 || out_step < 1) return false;
    if (matrix->transposed) {
      blas.gemv(kRowMajor, kNoTranspose, as_int(s.n), as_int(s.k), T{1}, b, as_int(matrix->leading),
                a, as_int(step), T{0}, out, as_int(out_step));
    } else {
      blas.gemv(kRowMajor, kTranspose, as_int(s.k), as_int(s.n), T{1}, b, as_int(matrix->leading),
                a, as_int(step), T{0}, out, as_int(out_step));
    }
    return true;
  }
  auto matrix = layout_of(s.m, s.k, s.a.row_stride, s.a.column_stride);
  int64_t step = s.k == 1 ? 1 : s.b.row_stride;
  int64_t out_step = s.out.row_stride;
  if (!matrix || step < 1 || out_step < 1) return false;
  if (matrix->transposed) {
    blas.gemv(kRowMajor, kTranspose, as_int(s.k), as_int(s.m), T{1}, a, as_int(matrix->leading), b,
              as_int(step), T{0}, out, as_int(out_step));
  } else {
    blas.gemv(kRowMajor, kNoTranspose, as_int(s.m), as_int(s.k), T{1}, a, as_int(matrix->leading),
              b, as_int(step), T{0}, out, as_int(out_step));
  }
  return true;
}

template <class T>
void multiply_as(const Routines<T>& blas, const GemmSizes& s, const T* a, const T* b, T* out) {
  if (s.m == 0 || s.n == 0) return;
  if (s.k > 0 && (s.m == 1 || s.n == 1) && vector_multiply(blas, s, a, b, out)) return;
  auto la = layout_of(s.m, s.k, s.a.row_stride, s.a.column_stride);
  auto lb = layout_of(s.k, s.n, s.b.row_stride, s.b.column_stride);
  auto lo = layout_of(s.m, s.n, s.out.row_stride, s.out.column_stride);
  if (s.k == 0 || !la || !lb || !lo) return plain_multiply(s, a, b, out);
  auto flag = [](bool transposed) { return transposed ? kTranspose : kNoTranspose; };
  auto as_int = [](int64_t value) { return static_cast<int>(value); };
  if (!lo->transposed) {
    blas.gemm(kRowMajor, flag(la->transposed), flag(lb->transposed), as_int(s.m), as_int(s.n),
              as_int(s.k), T{1}, a, as_int(la->leading), b, as_int(lb->leading), T{0}, out,
              as_int(lo->leading));
  } else {  // out^T = b^T a^T
    blas.gemm(kRowMajor, flag(!lb->transposed), flag(!la->transposed), as_int(s.n), as_int(s.m),
              as_int(s.k), T{1}, b, as_int(lb->leading), a, as_int(la->leading), T{0}, out,
              as_int(lo->leading));
  }
}

}  // namespace

struct Blas::Entries {
  std::shared_ptr<const SharedLibrary> library;
  Routines<float> f32;
  Routines<double> f64;
  int (*get_num_threads)() = nullptr;
  void (*set_num_threads)(int) = nullptr;
  bool is_shared = false;  // with others of the process
};

namespace {

// The library has one number of threads for the whole process.
std::mutex threads_mutex;
int one_thread_users = 0;
int threads_of_others = 1;

}  // namespace

Blas::OneThread::OneThread(const Blas& blas) : blas_(blas) {
  if (!blas.entries_->is_shared) return;
  std::lock_guard lock(threads_mutex);
  if (one_thread_users++ > 0) return;
  threads_of_others = blas.entries_->get_num_threads();
  if (threads_of_others != 1) blas.entries_->set_num_threads(1);
}

Blas::OneThread::~OneThread() {
  if (!blas_.entries_->is_shared) return;
  std::lock_guard lock(threads_mutex);
  if (--one_thread_users > 0 || threads_of_others == 1) return;
  blas_.entries_->set_num_threads(threads_of_others);
}

Blas::Blas(std::unique_ptr<Entries> entries) : entries_(std::move(entries)) {}
Blas::~Blas() = default;

Result<std::shared_ptr<const Blas>> Blas::open() {
  auto entries = std::make_unique<Entries>();
  entries->is_shared = SharedLibrary::is_loaded(kLibrary);
  auto library = SharedLibrary::open({kLibrary});
  if (!library.ok()) {
    return unavailable(cat("cannot load ", kLibrary, ": install libopenblas0"));
  }
  entries->library = *library;
  const SharedLibrary& found = **library;
  if (!found.find(entries->f32.gemm, "cblas_sgemm") ||
      !found.find(entries->f64.gemm, "cblas_dgemm") ||
      !found.find(entries->f32.gemv, "cblas_sgemv") ||
      !found.find(entries->f64.gemv, "cblas_dgemv") ||
      !found.find(entries->get_num_threads, "openblas_get_num_threads") ||
      !found.find(entries->set_num_threads, "openblas_set_num_threads")) {
    return unavailable(cat(kLibrary, " has no CBLAS interface: install libopenblas0"));
  }
  // Products are shared out by the device, whose threads the user chose.
  if (!entries->is_shared) entries->set_num_threads(1);
  return std::shared_ptr<const Blas>(new Blas(std::move(entries)));
}

bool blas_available() { return Blas::open().ok(); }

std::string blas_description() {
  auto library = SharedLibrary::open({kLibrary});
  if (!library.ok()) return "no OpenBLAS";
  // The configuration begins with name and version; options follow.
  const char* (*config)() = nullptr;
  const char* (*core)() = nullptr;
  std::string text = "OpenBLAS";
  if ((*library)->find(config, "openblas_get_config")) {
    std::string_view all = config();
    text = all.substr(0, all.find(' ', std::min(all.size(), all.find(' ') + 1)));
  }
  if ((*library)->find(core, "openblas_get_corename")) text = cat(text, " ", core());
  return text;
}

Status Blas::multiply(const GemmSizes& s, const void* a, const void* b, void* out) const {
  for (int64_t value : {s.m, s.n, s.k, s.a.row_stride, s.a.column_stride, s.b.row_stride,
                        s.b.column_stride, s.out.row_stride, s.out.column_stride}) {
    if (value < 0 || value > INT_MAX) {
      return unsupported(cat("a library product has the size or stride ", value, "; at most ",
                             INT_MAX, " is supported"));
    }
  }
  if (s.dtype == DType::kFloat32) {
    multiply_as(entries_->f32, s, static_cast<const float*>(a), static_cast<const float*>(b),
                static_cast<float*>(out));
  } else if (s.dtype == DType::kFloat64) {
    multiply_as(entries_->f64, s, static_cast<const double*>(a), static_cast<const double*>(b),
                static_cast<double*>(out));
  } else {
    return unsupported(cat("library products are of f32 or f64, not ", dtype_name(s.dtype)));
  }
  return {};
}

}  // namespace common
