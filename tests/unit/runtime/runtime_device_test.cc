// The CPU device: loading, sharing out units, and products through OpenBLAS.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <iostream>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/process/shared_library.h"
#include "common/runtime/device/blas.h"
#include "common/runtime/device/cpu_device.h"
#include "common/runtime/device/devices.h"
#include "common/runtime/device/openmp_team.h"
#include "tests/unit/runtime/runtime_testing.h"

namespace common {
namespace {

// b[0]: units' marks (i64); each unit is counted, and its scratch pointer remembered.
constexpr const char* kCountUnits =
    "KERNEL(count) { for (int64_t i = begin; i < end; ++i) {"
    " volatile double x = 0; for (int k = 0; k < 2000; ++k) x += k;"
    " __atomic_fetch_add((int64_t*)b[0] + i, s[0], __ATOMIC_RELAXED);"
    " if (scratch) *(int64_t*)scratch += 1; } }";

TEST(Devices, ADeviceThatWasAskedForIsNeverReplaced) {
  auto found = find_device("cuda");
  EXPECT_TRUE(!found.ok() || found->name == "cuda");
  EXPECT_EQ(find_device("cpu")->name, "cpu");
  EXPECT_TRUE(find_device("auto").ok());
  EXPECT_EQ(find_device("abacus").error().code, Code::kInvalidInput);
}

TEST(CpuDevice, EveryUnitRunsOnceWhateverTheThreads) {
  Bytes object = compile_object(kCountUnits);
  // By the device's own threads and by those of an OpenMP runtime.
  auto runtime = SharedLibrary::open({"libgomp.so.1"}, SharedLibrary::Unload::kNever);
  if (!runtime.ok()) std::cout << "without OpenMP: " << runtime.error().message << "\n";
  for (int variant = 0; variant < 6; ++variant) {
    const int threads = std::array{1, 2, 5}[variant % 3];
    auto device = make_cpu_device({.threads = threads, .shares_openmp = variant >= 3});
    EXPECT_EQ(device->concurrency(), threads);
    auto module = device->load(digest_of(object), object);
    ASSERT_TRUE(module.ok()) << module.error().message;
    Function count = *(*module)->entry("count");
    for (int64_t units : {0, 1, 2, 7, 1000}) {
      std::vector<int64_t> marks(1000, 0);
      alignas(64) std::byte scratch[5 * 64] = {};
      void* buffers[] = {marks.data()};
      int64_t symbols[] = {3};
      ASSERT_TRUE(device->launch({count, buffers, symbols, units, scratch, 64}).ok());
      for (int64_t i = 0; i < 1000; ++i)
        EXPECT_EQ(marks[static_cast<size_t>(i)], i < units ? 3 : 0);
      int64_t in_scratch = 0;
      for (int t = 0; t < threads; ++t) {
        in_scratch += *reinterpret_cast<int64_t*>(scratch + t * 64);
      }
      EXPECT_EQ(in_scratch, units);
    }
  }
}

struct Ranges {
  std::mutex mutex;
  std::vector<std::pair<int64_t, int64_t>> all;
};

// b[0]: a Ranges. Each unit takes long enough to be worth sharing.
void take_long(void* const* b, const int64_t*, int64_t begin, int64_t end, void*) {
  auto* ranges = static_cast<Ranges*>(b[0]);
  {
    std::lock_guard<std::mutex> lock(ranges->mutex);
    ranges->all.emplace_back(begin, end);
  }
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::microseconds(100) * (end - begin);
  while (std::chrono::steady_clock::now() < until) {
  }
}

TEST(CpuDevice, LongUnitsAreSharedAfterTheFirst) {
  auto device = make_cpu_device({.threads = 2});
  Ranges ranges;
  void* buffers[] = {&ranges};
  const Function function{reinterpret_cast<void*>(take_long)};
  ASSERT_TRUE(device->launch({function, buffers, {}, 64, nullptr, 0}).ok());
  ASSERT_GE(ranges.all.size(), 2);
  EXPECT_EQ(ranges.all[0], (std::pair<int64_t, int64_t>{0, 1}));
  std::sort(ranges.all.begin(), ranges.all.end());
  EXPECT_EQ(ranges.all[1], (std::pair<int64_t, int64_t>{1, 16})) << "a quarter of the others";
  EXPECT_EQ(ranges.all.back().second, 64);
}

TEST(OpenMpTeam, CallsEachMemberOnceInTheRuntimesThreads) {
  auto runtime = SharedLibrary::open({"libgomp.so.1"}, SharedLibrary::Unload::kNever);
  if (!runtime.ok()) GTEST_SKIP() << runtime.error().message;
  auto team = OpenMpTeam::find();
  ASSERT_NE(team, nullptr);
  struct Calls {
    const OpenMpTeam* team;
    int (*in_parallel)() = nullptr;
    std::array<std::atomic<int>, 5> members{}, nested{}, parallel{};

    static void work(void* context, int member) {
      auto& calls = *static_cast<Calls*>(context);
      auto m = static_cast<size_t>(member);
      ++calls.members[m];
      calls.parallel[m] += calls.in_parallel();
      // Within a region the runtime gives one thread.
      if (m == 0) {
        calls.team->run(
            5, [](void* c, int n) { ++static_cast<Calls*>(c)->nested[size_t(n)]; }, &calls);
      }
    }
  } calls{team.get()};
  ASSERT_TRUE((*runtime)->find(calls.in_parallel, "omp_in_parallel"));
  team->run(5, Calls::work, &calls);
  for (size_t m = 0; m < 5; ++m) {
    EXPECT_EQ(calls.members[m], 1);
    EXPECT_EQ(calls.parallel[m], 1) << "not in a region of the runtime";
    EXPECT_EQ(calls.nested[m], 1);
  }
}

TEST(CpuDevice, LaunchesFromSeveralThreadsDoNotMix) {
  Bytes object = compile_object(kCountUnits);
  auto device = make_cpu_device({2});
  auto module = device->load(digest_of(object), object);
  ASSERT_TRUE(module.ok());
  Function count = *(*module)->entry("count");
  std::atomic<int> wrong{0};
  auto user = [&] {
    for (int round = 0; round < 50; ++round) {
      std::vector<int64_t> marks(64, 0);
      void* buffers[] = {marks.data()};
      int64_t symbols[] = {1};
      if (!device->launch({count, buffers, symbols, 64, nullptr, 0}).ok()) ++wrong;
      for (int64_t mark : marks) wrong += mark != 1;
    }
  };
  std::thread a(user), b(user), c(user);
  a.join();
  b.join();
  c.join();
  EXPECT_EQ(wrong, 0);
}

TEST(CpuDevice, CopiesOfAllSizesAreWhole) {
  constexpr size_t kMiB = size_t{1} << 20;
  for (int threads : {1, 2, 5}) {
    auto device = make_cpu_device({threads});
    for (size_t bytes : {size_t{0}, size_t{1}, kMiB - 1, kMiB, kMiB + 1, 3 * kMiB + 4097}) {
      std::vector<std::byte> from(bytes + 1), to(bytes + 1, std::byte{0xee});
      for (size_t k = 0; k < from.size(); ++k) from[k] = static_cast<std::byte>(k * 31 + k / 251);
      ASSERT_TRUE(device->copy(to.data(), from.data(), bytes).ok());
      EXPECT_TRUE(std::equal(from.begin(), from.end() - 1, to.begin())) << threads << ", " << bytes;
      EXPECT_EQ(to[bytes], std::byte{0xee}) << "written beyond the end";
    }
  }
}

// Also where a block is taken again that somebody wrote to.
TEST(CpuDevice, ZerosAreZerosInMemoryOfAllSizes) {
  auto device = make_cpu_device({.threads = 1});
  for (size_t bytes :
       {size_t{1}, size_t{4095}, size_t{4097}, (size_t{1} << 20) + 100, (size_t{5} << 20) + 4096}) {
    auto written = device->allocate(bytes);
    ASSERT_TRUE(device->fill(written->data(), std::byte{0xff}, bytes).ok());
    *written = {};
    auto zeros = device->allocate_zeros(bytes);
    ASSERT_TRUE(zeros.ok());
    EXPECT_EQ(std::count(zeros->data(), zeros->data() + bytes, std::byte{0}),
              static_cast<ptrdiff_t>(bytes));
  }
}

TEST(CpuDevice, ObjectsAreSharedAndReplacedByDigest) {
  auto device = make_cpu_device();
  auto answer = [&](int value) {
    return compile_object(cat("KERNEL(answer) { *(int64_t*)b[0] = ", value, "; }"));
  };
  auto ask = [&](const Module& module) {
    int64_t result = 0;
    void* buffers[] = {&result};
    EXPECT_TRUE(device->launch({*module.entry("answer"), buffers, {}, 1, nullptr, 0}).ok());
    return result;
  };
  Bytes first = answer(1), second = answer(2);
  auto a = *device->load(digest_of(first), first);
  EXPECT_EQ(a, *device->load(digest_of(first), first)) << "loaded twice";
  auto b = *device->load(digest_of(second), second);
  EXPECT_EQ(ask(*a), 1);
  EXPECT_EQ(ask(*b), 2);
  a.reset();
  // The loader must not mistake a new object for an old one whose descriptor number it got.
  for (int value = 3; value < 8; ++value) {
    Bytes object = answer(value);
    auto module = *device->load(digest_of(object), object);
    EXPECT_EQ(ask(*module), value);
    EXPECT_EQ(ask(*b), 2);
  }
}

TEST(CpuDevice, DamagedObjectsAndMissingEntriesAreErrors) {
  auto device = make_cpu_device();
  Bytes object = compile_object("KERNEL(one) {}");
  auto module = device->load(digest_of(object), object);
  ASSERT_TRUE(module.ok());
  auto entry = (*module)->entry("two");
  ASSERT_FALSE(entry.ok());
  EXPECT_EQ(entry.error().code, Code::kCorrupt);
  Bytes half(object.begin(), object.begin() + 100);
  auto damaged = device->load(digest_of(half), half);
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().code, Code::kCorrupt);
  EXPECT_FALSE(device->load(Digest{}, {}).ok());
}

TEST(CpuDevice, MemoryIsAligned) {
  auto device = make_cpu_device();
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{65}, size_t{5} << 20}) {
    auto memory = device->allocate(bytes);
    ASSERT_TRUE(memory.ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % kBufferAlignment, 0u);
    EXPECT_EQ(memory->size(), bytes);
    ASSERT_TRUE(device->fill(memory->data(), std::byte{7}, bytes).ok());
  }
  auto too_much = device->allocate(SIZE_MAX - 5);
  ASSERT_FALSE(too_much.ok());
  EXPECT_EQ(too_much.error().code, Code::kUnavailable);
}

// ---- Products ----------------------------------------------------------------------------------

// How a matrix operand of [rows, columns] lies in memory.
enum class Storage { kRows, kColumns, kPaddedRows, kBroadcastRows };

GemmOperandSizes operand(Storage storage, int64_t rows, int64_t columns) {
  switch (storage) {
    case Storage::kRows:
      return {0, rows * columns, columns, 1};
    case Storage::kColumns:
      return {0, rows * columns, 1, rows};
    case Storage::kPaddedRows:
      return {3, rows * (columns + 5), columns + 5, 1};
    case Storage::kBroadcastRows:
      return {1, 0, 0, 1};
  }
  return {};
}

int64_t room(const GemmOperandSizes& o, int64_t batch, int64_t rows, int64_t columns) {
  return o.offset + (batch - 1) * o.batch_stride + std::max<int64_t>(0, rows - 1) * o.row_stride +
         std::max<int64_t>(0, columns - 1) * o.column_stride + 1;
}

template <class T>
void check_product(Device& device, const GemmSizes& s, uint64_t seed) {
  Random random(seed);
  auto values = [&](int64_t count) {
    std::vector<T> result(static_cast<size_t>(count));
    for (T& v : result) v = static_cast<T>(random.unit() - 0.5);
    return result;
  };
  std::vector<T> a = values(room(s.a, s.batch, s.m, s.k)), b = values(room(s.b, s.batch, s.k, s.n));
  std::vector<T> out(static_cast<size_t>(room(s.out, s.batch, s.m, s.n)),
                     std::numeric_limits<T>::quiet_NaN());
  ASSERT_TRUE(check_bounds(s, static_cast<int64_t>(a.size()), static_cast<int64_t>(b.size()),
                           static_cast<int64_t>(out.size()))
                  .ok());
  ASSERT_TRUE(device.gemm(s, a.data(), b.data(), out.data()).ok());
  auto element = [](const std::vector<T>& data, const GemmOperandSizes& o, int64_t batch, int64_t i,
                    int64_t j) {
    return static_cast<double>(data[static_cast<size_t>(o.offset + batch * o.batch_stride +
                                                        i * o.row_stride + j * o.column_stride)]);
  };
  for (int64_t batch = 0; batch < s.batch; ++batch) {
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < s.k; ++l) {
          sum += element(a, s.a, batch, i, l) * element(b, s.b, batch, l, j);
        }
        ASSERT_NEAR(element(out, s.out, batch, i, j), sum, 1e-4)
            << s.batch << "x" << s.m << "x" << s.n << "x" << s.k << " seed " << seed;
      }
    }
  }
}

TEST(CpuDevice, ProductsOfAllFormsAndSizes) {
  if (!blas_available()) GTEST_SKIP() << "OpenBLAS is not installed";
  uint64_t seed = 0;
  for (int threads : {1, 3}) {
    auto device = make_cpu_device({threads});
    ASSERT_TRUE(device->has_gemm());
    for (Storage sa :
         {Storage::kRows, Storage::kColumns, Storage::kPaddedRows, Storage::kBroadcastRows}) {
      for (Storage sb : {Storage::kRows, Storage::kColumns, Storage::kBroadcastRows}) {
        for (Storage so : {Storage::kRows, Storage::kColumns, Storage::kPaddedRows}) {
          const int64_t shapes[][4] = {{1, 5, 7, 3}, {3, 1, 9, 17}, {2, 9, 1, 17},  {1, 1, 1, 1},
                                       {1, 4, 6, 0}, {2, 0, 5, 4},  {1, 33, 40, 1}, {4, 1, 1, 8},
                                       {1, 1, 6, 1}, {1, 6, 1, 1}};
          for (const auto& shape : shapes) {
            GemmSizes s;
            s.batch = shape[0], s.m = shape[1], s.n = shape[2], s.k = shape[3];
            s.a = operand(sa, s.m, s.k);
            s.b = operand(sb, s.k, s.n);
            s.out = operand(so, s.m, s.n);
            check_product<float>(*device, s, ++seed);
            s.dtype = DType::kFloat64;
            check_product<double>(*device, s, ++seed);
          }
        }
      }
    }
    GemmSizes large;  // large enough to be shared out
    large.m = 150, large.n = 131, large.k = 120;
    large.a = operand(Storage::kRows, large.m, large.k);
    large.b = operand(Storage::kColumns, large.k, large.n);
    large.out = operand(Storage::kRows, large.m, large.n);
    check_product<float>(*device, large, ++seed);
    std::swap(large.m, large.n);
    large.a = operand(Storage::kRows, large.m, large.k);
    large.b = operand(Storage::kColumns, large.k, large.n);
    large.out = operand(Storage::kRows, large.m, large.n);
    check_product<float>(*device, large, ++seed);
    large.batch = 5;
    check_product<float>(*device, large, ++seed);
  }
}

TEST(CpuDevice, ProductsLeaveTheLibrarysThreadsToOthersOfTheProcess) {
  auto library = SharedLibrary::open({"libopenblas.so.0"}, SharedLibrary::Unload::kNever);
  if (!library.ok()) GTEST_SKIP() << library.error().message;
  int (*get_num_threads)() = nullptr;
  void (*set_num_threads)(int) = nullptr;
  ASSERT_TRUE((*library)->find(get_num_threads, "openblas_get_num_threads"));
  ASSERT_TRUE((*library)->find(set_num_threads, "openblas_set_num_threads"));
  set_num_threads(2);
  GemmSizes s;
  s.m = 150, s.n = 131, s.k = 120;
  s.a = operand(Storage::kRows, s.m, s.k);
  s.b = operand(Storage::kRows, s.k, s.n);
  s.out = operand(Storage::kRows, s.m, s.n);
  auto device = make_cpu_device({2});
  check_product<float>(*device, s, 5);
  EXPECT_EQ(get_num_threads(), 2);
  {
    auto blas = *Blas::open();
    Blas::OneThread outer(*blas);
    Blas::OneThread inner(*blas);
    EXPECT_EQ(get_num_threads(), 1);
  }
  EXPECT_EQ(get_num_threads(), 2);
  set_num_threads(1);
}

TEST(CpuDevice, ProductsOutsideTheirBuffersAreRefused) {
  GemmSizes s;
  s.m = 4, s.n = 4, s.k = 4;
  s.a = s.b = s.out = operand(Storage::kRows, 4, 4);
  EXPECT_TRUE(check_bounds(s, 16, 16, 16).ok());
  EXPECT_FALSE(check_bounds(s, 15, 16, 16).ok());
  EXPECT_FALSE(check_bounds(s, 16, 15, 16).ok());
  EXPECT_FALSE(check_bounds(s, 16, 16, 15).ok());
  s.a.row_stride = INT64_MAX;
  EXPECT_FALSE(check_bounds(s, 16, 16, 16).ok());
  s.a.row_stride = -4;
  EXPECT_FALSE(check_bounds(s, 16, 16, 16).ok());
  s.a.row_stride = 4;
  s.m = -1;
  EXPECT_FALSE(check_bounds(s, 16, 16, 16).ok());
}

}  // namespace
}  // namespace common
