// libcublasLt.so.13 of the emulated device: matrix products as a kernel, through the emulated
// driver and compiler, so that they wait in streams and are captured as launches are. Refuses
// whatever the documentation of the real one forbids.
#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define LF_API extern "C" __attribute__((visibility("default")))

namespace emulator {
namespace {

enum Status { kOk = 0, kNotReady = 1, kInvalid = 7, kFailed = 13, kNotSupported = 15 };
enum DataType { kReal32 = 0, kReal64 = 1, kReal16 = 2, kRealBf16 = 14 };
enum ComputeType { kCompute32 = 68, kCompute64 = 70, kCompute32FastTf32 = 77 };

constexpr int kBlockThreads = 128;
constexpr uint64_t kAlgorithmMagic = 0x6c665f70726f6475;
// Algorithm k sums in k + 1 parts, so that rounding tells them apart as it does real ones.
constexpr uint32_t kAlgorithms = 4;
// Of all but the first, which use none of it.
constexpr size_t kWorkspaceBytes = 4096;

// A thread computes one element. Strides are of op(A) and op(B).
constexpr const char* kKernel = R"cuda(
typedef unsigned short lf_half;
__device__ inline float lf_widen(float x) { return x; }
__device__ inline double lf_widen(double x) { return x; }
struct LfF16 { lf_half bits; };
struct LfBf16 { lf_half bits; };
__device__ inline float lf_widen(LfBf16 x) { return __uint_as_float((unsigned)x.bits << 16); }
__device__ inline float lf_widen(LfF16 x) {
  unsigned sign = (x.bits & 0x8000u) << 16, exponent = (x.bits >> 10) & 31, rest = x.bits & 1023;
  if (exponent == 0) {
    float small = rest * 5.9604644775390625e-8f;
    return sign != 0 ? -small : small;
  }
  unsigned wide = exponent == 31 ? 0x7f800000u : (exponent + 112) << 23;
  return __uint_as_float(sign | wide | (rest << 13));
}
__device__ inline void lf_narrow(float x, float* to) { *to = x; }
__device__ inline void lf_narrow(double x, double* to) { *to = x; }
__device__ inline void lf_narrow(float x, LfBf16* to) {
  unsigned bits = __float_as_uint(x);
  to->bits = x != x ? 0x7fc0 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}
__device__ inline void lf_narrow(float x, LfF16* to) {
  unsigned bits = __float_as_uint(x), sign = (bits >> 16) & 0x8000u, size = bits & 0x7fffffffu;
  if (x != x) {
    to->bits = 0x7e00;
  } else if (size >= 0x477ff000u) {
    to->bits = sign | 0x7c00;
  } else if (size < 0x38800000u) {
    to->bits = sign | (unsigned)rintf(__uint_as_float(size) * 16777216.0f);
  } else {
    to->bits = sign | ((size + 0xfff + ((size >> 13) & 1) - 0x38000000u) >> 13);
  }
}
template <class T, class Sum>
__device__ inline void lf_element(const void* a, const void* b, void* d, const long long* s,
                                  Sum alpha) {
  const long long m = s[0], n = s[1], k = s[2];
  const long long e = blockIdx.x * 128LL + threadIdx.x;
  if (e >= m * n * s[3]) return;
  const long long i = e % m, j = e / m % n, g = e / (m * n);
  const T* left = (const T*)a + g * s[4] + i * s[5];
  const T* right = (const T*)b + g * s[7] + j * s[9];
  Sum sum = 0;
  for (long long part = 0; part < s[12]; ++part) {
    Sum some = 0;
    for (long long l = part; l < k; l += s[12]) {
      some += lf_widen(left[l * s[6]]) * lf_widen(right[l * s[8]]);
    }
    sum += some;
  }
  lf_narrow(alpha * sum, (T*)d + g * s[10] + i + j * s[11]);
}
struct LfSizes { long long at[13]; };
extern "C" __global__ void __launch_bounds__(128) lf_product_f32(
    const void* a, const void* b, void* d, LfSizes sizes, double alpha) {
  lf_element<float, float>(a, b, d, sizes.at, (float)alpha);
}
extern "C" __global__ void __launch_bounds__(128) lf_product_f64(
    const void* a, const void* b, void* d, LfSizes sizes, double alpha) {
  lf_element<double, double>(a, b, d, sizes.at, alpha);
}
extern "C" __global__ void __launch_bounds__(128) lf_product_f16(
    const void* a, const void* b, void* d, LfSizes sizes, double alpha) {
  lf_element<LfF16, float>(a, b, d, sizes.at, (float)alpha);
}
extern "C" __global__ void __launch_bounds__(128) lf_product_bf16(
    const void* a, const void* b, void* d, LfSizes sizes, double alpha) {
  lf_element<LfBf16, float>(a, b, d, sizes.at, (float)alpha);
}
)cuda";

struct Sizes {
  std::array<int64_t, 13> at;
};

// The kernels on the context that was current when the handle was made.
class Handle {
 public:
  int open() {
    void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void* compiler = ::dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL);
    if (driver == nullptr || compiler == nullptr) return kNotReady;
    std::vector<char> cubin = compile(compiler);
    auto load = find<int(void**, const void*)>(driver, "cuModuleLoadData");
    get_function_ = find<int(void**, void*, const char*)>(driver, "cuModuleGetFunction");
    launch_ = find<Launch>(driver, "cuLaunchKernel");
    if (cubin.empty() || load == nullptr || get_function_ == nullptr || launch_ == nullptr) {
      return kNotReady;
    }
    unload_ = find<int(void*)>(driver, "cuModuleUnload");
    get_context_ = find<int(void**)>(driver, "cuCtxGetCurrent");
    get_context_(&context_);
    return load(&module_, cubin.data()) == 0 ? kOk : kNotReady;
  }
  // On the context that the handle was made on.
  int close() const {
    void* context = nullptr;
    if (get_context_(&context) != 0 || context != context_) return kInvalid;
    unload_(module_);
    return kOk;
  }

  int launch(const char* kernel, const void* a, const void* b, void* d, Sizes sizes, double alpha,
             void* stream) const {
    void* function = nullptr;
    if (get_function_(&function, module_, kernel) != 0) return kFailed;
    void* parameters[] = {&a, &b, &d, &sizes, &alpha};
    const int64_t elements = sizes.at[0] * sizes.at[1] * sizes.at[3];
    const auto blocks = static_cast<unsigned>((elements + kBlockThreads - 1) / kBlockThreads);
    const int launched =
        launch_(function, blocks, 1, 1, kBlockThreads, 1, 1, 0, stream, parameters, nullptr);
    return launched == 0 ? kOk : kFailed;
  }

 private:
  using Launch = int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     void*, void**, void**);
  template <class F>
  static F* find(void* library, const char* name) {
    return reinterpret_cast<F*>(::dlsym(library, name));
  }
  static std::vector<char> compile(void* nvrtc) {
    auto create =
        find<int(void**, const char*, const char*, int, const char* const*, const char* const*)>(
            nvrtc, "nvrtcCreateProgram");
    auto run = find<int(void*, int, const char* const*)>(nvrtc, "nvrtcCompileProgram");
    auto size = find<int(void*, size_t*)>(nvrtc, "nvrtcGetCUBINSize");
    auto read = find<int(void*, char*)>(nvrtc, "nvrtcGetCUBIN");
    auto destroy = find<int(void**)>(nvrtc, "nvrtcDestroyProgram");
    if (!create || !run || !size || !read || !destroy) return {};
    void* program = nullptr;
    if (create(&program, kKernel, "cublaslt.cu", 0, nullptr, nullptr) != 0) return {};
    const char* options[] = {"--gpu-architecture=sm_90a"};
    size_t bytes = 0;
    std::vector<char> cubin;
    if (run(program, 1, options) == 0 && size(program, &bytes) == 0) {
      cubin.resize(bytes);
      if (read(program, cubin.data()) != 0) cubin.clear();
    }
    destroy(&program);
    return cubin;
  }

  void* context_ = nullptr;
  void* module_ = nullptr;
  int (*unload_)(void*) = nullptr;
  int (*get_context_)(void**) = nullptr;
  int (*get_function_)(void**, void*, const char*) = nullptr;
  Launch* launch_ = nullptr;
};

struct Descriptor {
  int compute = 0, scale = 0;
  int transpose_a = 0, transpose_b = 0;
};
struct Layout {
  int type = 0;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0;
  int32_t batch = 1;
  int64_t batch_stride = 0;
};
struct Preference {
  uint64_t workspace = 0;
  uint32_t reductions = 7;
  std::array<uint32_t, 4> alignment{256, 256, 256, 256};
};
// As wide as the real one. What it was found for comes with it.
struct Algorithm {
  uint64_t magic;
  uint64_t workspace;
  std::array<uint32_t, 4> alignment;
  uint64_t parts;
  std::array<uint64_t, 3> unused;
};
static_assert(sizeof(Algorithm) == 64);
struct Heuristic {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  std::array<int, 4> reserved;
};
static_assert(sizeof(Heuristic) == 96);

const char* kernel_for(int type) {
  switch (type) {
    case kReal32:
      return "lf_product_f32";
    case kReal64:
      return "lf_product_f64";
    case kReal16:
      return "lf_product_f16";
    case kRealBf16:
      return "lf_product_bf16";
    default:
      return nullptr;
  }
}

bool computes(const Descriptor& descriptor, int type) {
  if (type == kReal64) return descriptor.compute == kCompute64 && descriptor.scale == kReal64;
  bool fast = type == kReal32 && descriptor.compute == kCompute32FastTf32;
  return (descriptor.compute == kCompute32 || fast) && descriptor.scale == kReal32;
}

// Whether the layouts fit one another and each has room for its columns.
bool fit(const Descriptor& descriptor, const Layout& a, const Layout& b, const Layout& c,
         const Layout& d) {
  for (const Layout* layout : {&a, &b, &c, &d}) {
    if (layout->type != d.type || layout->batch != d.batch || layout->batch < 1) return false;
    if (layout->leading < static_cast<int64_t>(layout->rows)) return false;
    if (layout->rows == 0 || layout->columns == 0) return false;
  }
  uint64_t m = descriptor.transpose_a ? a.columns : a.rows;
  uint64_t k = descriptor.transpose_a ? a.rows : a.columns;
  uint64_t b_k = descriptor.transpose_b ? b.columns : b.rows;
  uint64_t n = descriptor.transpose_b ? b.rows : b.columns;
  bool same = c.rows == d.rows && c.columns == d.columns && c.leading == d.leading;
  return same && k == b_k && m == d.rows && n == d.columns && computes(descriptor, d.type);
}

Sizes sizes_of(const Descriptor& descriptor, const Layout& a, const Layout& b, const Layout& d,
               uint64_t parts) {
  Sizes sizes{};
  sizes.at = {static_cast<int64_t>(d.rows),
              static_cast<int64_t>(d.columns),
              static_cast<int64_t>(descriptor.transpose_a ? a.rows : a.columns),
              d.batch,
              a.batch_stride,
              descriptor.transpose_a ? a.leading : 1,
              descriptor.transpose_a ? 1 : a.leading,
              b.batch_stride,
              descriptor.transpose_b ? b.leading : 1,
              descriptor.transpose_b ? 1 : b.leading,
              d.batch_stride,
              d.leading,
              static_cast<int64_t>(parts)};
  return sizes;
}

template <class T>
int set(T& field, const void* value, size_t bytes) {
  if (bytes != sizeof(T)) return kInvalid;
  std::memcpy(&field, value, bytes);
  return kOk;
}

template <class T>
T& as(void* object) {
  return *static_cast<T*>(object);
}

}  // namespace
}  // namespace emulator

using namespace emulator;  // NOLINT: the library's functions are outside of any namespace

// NOLINTBEGIN(readability-identifier-naming): names of a public interface.
LF_API size_t cublasLtGetVersion() { return 130000; }
LF_API const char* cublasLtGetStatusString(int status) {
  switch (status) {
    case kOk:
      return "success";
    case kNotReady:
      return "the library was not initialized";
    case kInvalid:
      return "an unsupported value or parameter was passed";
    case kNotSupported:
      return "the functionality requested is not supported";
    default:
      return "the program failed to execute on the device";
  }
}

LF_API int cublasLtCreate(void** handle) {
  auto* made = new Handle();
  int status = made->open();
  if (status == kOk) {
    *handle = made;
  } else {
    delete made;
  }
  return status;
}
// The real one may free memory of whatever context is current then.
LF_API int cublasLtDestroy(void* handle) {
  auto* made = static_cast<Handle*>(handle);
  if (made->close() != kOk) {
    std::fputs("emulated cuBLASLt: destroyed without its context\n", stderr);
    std::abort();
  }
  delete made;
  return kOk;
}

LF_API int cublasLtMatmulDescCreate(void** made, int compute, int scale) {
  *made = new Descriptor{compute, scale};
  return kOk;
}
LF_API int cublasLtMatmulDescDestroy(void* object) {
  delete static_cast<Descriptor*>(object);
  return kOk;
}
LF_API int cublasLtMatmulDescSetAttribute(void* object, int which, const void* value,
                                          size_t bytes) {
  if (which == 3) return set(as<Descriptor>(object).transpose_a, value, bytes);
  if (which == 4) return set(as<Descriptor>(object).transpose_b, value, bytes);
  return kNotSupported;
}

LF_API int cublasLtMatrixLayoutCreate(void** made, int type, uint64_t rows, uint64_t columns,
                                      int64_t leading) {
  *made = new Layout{type, rows, columns, leading};
  return kOk;
}
LF_API int cublasLtMatrixLayoutDestroy(void* object) {
  delete static_cast<Layout*>(object);
  return kOk;
}
LF_API int cublasLtMatrixLayoutSetAttribute(void* object, int which, const void* value,
                                            size_t bytes) {
  if (which == 5) return set(as<Layout>(object).batch, value, bytes);
  if (which == 6) return set(as<Layout>(object).batch_stride, value, bytes);
  return kNotSupported;
}

LF_API int cublasLtMatmulPreferenceCreate(void** made) {
  *made = new Preference();
  return kOk;
}
LF_API int cublasLtMatmulPreferenceDestroy(void* object) {
  delete static_cast<Preference*>(object);
  return kOk;
}
LF_API int cublasLtMatmulPreferenceSetAttribute(void* object, int which, const void* value,
                                                size_t bytes) {
  auto& preference = as<Preference>(object);
  if (which == 1) return set(preference.workspace, value, bytes);
  if (which == 3) return set(preference.reductions, value, bytes);
  if (which < 5 || which > 8) return kNotSupported;
  return set(preference.alignment[static_cast<size_t>(which - 5)], value, bytes);
}

LF_API int cublasLtMatmulAlgoGetHeuristic(void* handle, void* operation, void* a, void* b, void* c,
                                          void* d, void* preference, int wanted, Heuristic* results,
                                          int* found) {
  *found = 0;
  if (handle == nullptr || wanted < 1) return kInvalid;
  if (kernel_for(as<Layout>(d).type) == nullptr) return kNotSupported;
  if (!fit(as<Descriptor>(operation), as<Layout>(a), as<Layout>(b), as<Layout>(c), as<Layout>(d))) {
    return kInvalid;
  }
  const auto& wishes = as<Preference>(preference);
  for (uint64_t parts = 1; parts <= kAlgorithms; ++parts) {
    const size_t workspace = parts == 1 ? 0 : kWorkspaceBytes;
    if (*found == wanted || workspace > wishes.workspace) break;
    results[(*found)++] = {
        {kAlgorithmMagic, workspace, wishes.alignment, parts, {}}, workspace, kOk, 1.0F, {}};
  }
  return kOk;
}

LF_API int cublasLtMatmul(void* handle, void* operation, const void* alpha, const void* a,
                          void* a_layout, const void* b, void* b_layout, const void* beta,
                          const void* c, void* c_layout, void* d, void* d_layout,
                          const Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                          void* stream) {
  const auto& descriptor = as<Descriptor>(operation);
  const auto& result = as<Layout>(d_layout);
  if (algorithm == nullptr || algorithm->magic != kAlgorithmMagic) return kInvalid;
  if (workspace_bytes < algorithm->workspace) return kInvalid;
  if (algorithm->workspace != 0 && workspace == nullptr) return kInvalid;
  if (!fit(descriptor, as<Layout>(a_layout), as<Layout>(b_layout), as<Layout>(c_layout), result)) {
    return kInvalid;
  }
  const void* operands[] = {a, b, c, d};
  for (size_t k = 0; k < algorithm->alignment.size(); ++k) {
    if (reinterpret_cast<uintptr_t>(operands[k]) % algorithm->alignment[k] != 0) return kInvalid;
  }
  const bool wide = descriptor.scale == kReal64;
  auto number = [&](const void* at) {
    return wide ? *static_cast<const double*>(at) : double{*static_cast<const float*>(at)};
  };
  if (number(beta) != 0) return kNotSupported;
  return as<Handle>(handle).launch(
      kernel_for(result.type), a, b, d,
      sizes_of(descriptor, as<Layout>(a_layout), as<Layout>(b_layout), result, algorithm->parts),
      number(alpha), stream);
}
// NOLINTEND(readability-identifier-naming)
