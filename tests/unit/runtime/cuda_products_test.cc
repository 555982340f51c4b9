// Matrix products through cuBLASLt on a device, an emulated one where there is no other: every
// order of storage, type and batch against a plain product of small whole numbers, which all types
// hold.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "common/base/bytes.h"
#include "common/base/cat.h"
#include "common/cuda/cublaslt.h"
#include "common/cuda/driver.h"

namespace common {
namespace {

constexpr size_t kWorkspaceBytes = 8192;

// How a matrix lies in memory: which axis has stride 1, and how many elements lie between lines.
enum class Order { kRows, kColumns, kPaddedRows, kPaddedColumns };
constexpr Order kOrders[] = {Order::kRows, Order::kColumns, Order::kPaddedRows,
                             Order::kPaddedColumns};

CublasLtOperand operand(int64_t rows, int64_t columns, Order order) {
  CublasLtOperand result;
  int64_t padding = order == Order::kPaddedRows || order == Order::kPaddedColumns ? 3 : 0;
  if (order == Order::kRows || order == Order::kPaddedRows) {
    result.column_stride = 1;
    result.row_stride = columns + padding;
    result.batch_stride = rows * result.row_stride + padding;
  } else {
    result.row_stride = 1;
    result.column_stride = rows + padding;
    result.batch_stride = columns * result.column_stride + padding;
  }
  return result;
}

size_t element_bytes(CublasLtType type) {
  if (type == CublasLtType::kFloat64) return 8;
  return type == CublasLtType::kFloat32 ? 4 : 2;
}

// Whole numbers of at most 11 bits.
uint64_t encode(CublasLtType type, int value) {
  if (type == CublasLtType::kFloat64) return std::bit_cast<uint64_t>(double(value));
  uint32_t wide = std::bit_cast<uint32_t>(float(value));
  if (type == CublasLtType::kFloat32) return wide;
  if (type == CublasLtType::kBfloat16) return wide >> 16;
  if (value == 0) return 0;
  return (wide >> 16 & 0x8000) | (((wide & 0x7fffffff) - (112u << 23)) >> 13);
}

double decode(CublasLtType type, uint64_t bits) {
  if (type == CublasLtType::kFloat64) return std::bit_cast<double>(bits);
  if (type == CublasLtType::kFloat32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (type == CublasLtType::kBfloat16) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
  uint32_t size = bits & 0x7fff;
  double value = size == 0 ? 0 : std::bit_cast<float>((size << 13) + (112u << 23));
  return (bits & 0x8000) != 0 ? -value : value;
}

class ProductTest : public testing::Test {
 protected:
  void SetUp() override {
    auto driver = CudaDriver::open();
    if (!driver.ok()) GTEST_SKIP() << driver.error().message;
    driver_ = *driver;
    const CudaCalls& calls = driver_->calls();
    auto facts = driver_->device(0);
    ASSERT_TRUE(facts.ok()) << facts.error().message;
    ordinal_ = facts->ordinal;
    ASSERT_EQ(calls.retain_context(&context_, ordinal_), kCudaSuccess);
    ASSERT_EQ(calls.set_context(context_), kCudaSuccess);
    ASSERT_EQ(calls.create_stream(&stream_, 1), kCudaSuccess);
    auto library = CublasLt::open();
    ASSERT_TRUE(library.ok()) << library.error().message;
    library_ = *library;
  }
  void TearDown() override {
    if (driver_ == nullptr) return;
    library_.reset();
    if (stream_ != nullptr) driver_->calls().destroy_stream(stream_);
    driver_->calls().release_context(ordinal_);
  }

  // Device memory that holds `data`; freed with the context.
  CudaAddress upload(const Bytes& data) {
    CudaAddress address = 0;
    EXPECT_EQ(driver_->calls().allocate(&address, data.size()), kCudaSuccess);
    EXPECT_EQ(driver_->calls().copy_in(address, data.data(), data.size(), stream_), kCudaSuccess);
    EXPECT_EQ(driver_->calls().synchronise_stream(stream_), kCudaSuccess);
    return address;
  }
  static void* pointer(CudaAddress address) {
    return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  }

  void check(const CublasLtProduct& product, size_t choice = 0);

  std::shared_ptr<const CudaDriver> driver_;
  std::shared_ptr<const CublasLt> library_;
  CudaOrdinal ordinal_ = 0;
  CudaContext context_ = nullptr;
  CudaStream stream_ = nullptr;
};

// One operand in host memory, everything outside of its elements 0xA5.
struct HostMatrix {
  HostMatrix(CublasLtType t, const CublasLtOperand& o, int64_t batch, int64_t rows, int64_t columns)
      : type(t), at(o), width(element_bytes(t)) {
    int64_t last =
        (batch - 1) * o.batch_stride + (rows - 1) * o.row_stride + (columns - 1) * o.column_stride;
    data.assign(static_cast<size_t>(last + 9) * width, std::byte{0xa5});
  }
  std::byte* element(int64_t g, int64_t i, int64_t j) {
    int64_t index = g * at.batch_stride + i * at.row_stride + j * at.column_stride;
    return data.data() + static_cast<size_t>(index) * width;
  }
  void put(int64_t g, int64_t i, int64_t j, int value) {
    uint64_t bits = encode(type, value);
    std::memcpy(element(g, i, j), &bits, width);
  }
  double get(int64_t g, int64_t i, int64_t j) {
    uint64_t bits = 0;
    std::memcpy(&bits, element(g, i, j), width);
    return decode(type, bits);
  }
  CublasLtType type;
  CublasLtOperand at;
  size_t width;
  Bytes data;
};

int small(int64_t a, int64_t b, int64_t c) { return static_cast<int>((a * 7 + b * 5 + c) % 5) - 2; }

void ProductTest::check(const CublasLtProduct& p, size_t choice) {
  HostMatrix a(p.type, p.a, p.batch, p.m, p.k), b(p.type, p.b, p.batch, p.k, p.n);
  HostMatrix out(p.type, p.out, p.batch, p.m, p.n);
  for (int64_t g = 0; g < p.batch; ++g) {
    for (int64_t l = 0; l < p.k; ++l) {
      for (int64_t i = 0; i < p.m; ++i) a.put(g, i, l, small(g, i, l));
      for (int64_t j = 0; j < p.n; ++j) b.put(g, l, j, small(g, l, j + 1));
    }
  }
  CudaAddress device_a = upload(a.data), device_b = upload(b.data), device_out = upload(out.data);
  CudaAddress workspace = upload(Bytes(kWorkspaceBytes));
  auto plan = library_->prepare(p, kWorkspaceBytes, choice + 1);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_GT((*plan)->choices(), choice);
  EXPECT_LE((*plan)->workspace_bytes(choice), kWorkspaceBytes);
  Status run = library_->run(**plan, choice, pointer(device_a), pointer(device_b),
                             pointer(device_out), pointer(workspace), stream_);
  ASSERT_TRUE(run.ok()) << run.error().message;
  Bytes expected = out.data;
  const CudaCalls& calls = driver_->calls();
  ASSERT_EQ(calls.copy_out(out.data.data(), device_out, out.data.size(), stream_), kCudaSuccess);
  ASSERT_EQ(calls.synchronise_stream(stream_), kCudaSuccess);
  for (int64_t g = 0; g < p.batch; ++g) {
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < p.k; ++l) sum += small(g, i, l) * small(g, l, j + 1);
        ASSERT_EQ(out.get(g, i, j), sum) << g << " " << i << " " << j;
        std::memset(out.element(g, i, j), 0xa5, out.width);
      }
    }
  }
  EXPECT_EQ(out.data, expected) << "memory outside of the result was written";
  for (CudaAddress address : {device_a, device_b, device_out, workspace}) {
    EXPECT_EQ(calls.free(address), kCudaSuccess);
  }
}

TEST_F(ProductTest, EveryOrderOfStorageIsUnderstood) {
  for (Order a : kOrders) {
    for (Order b : kOrders) {
      for (Order out : kOrders) {
        SCOPED_TRACE(
            cat(static_cast<int>(a), " ", static_cast<int>(b), " ", static_cast<int>(out)));
        CublasLtProduct p;
        p.batch = 2;
        p.m = 5;
        p.n = 7;
        p.k = 6;
        p.a = operand(p.m, p.k, a);
        p.b = operand(p.k, p.n, b);
        p.out = operand(p.m, p.n, out);
        check(p);
      }
    }
  }
}

TEST_F(ProductTest, SingleRowsAndColumnsAreMatricesToo) {
  for (Order order : kOrders) {
    for (int64_t size : {0, 1, 2, 3, 4, 5, 6}) {
      SCOPED_TRACE(cat(static_cast<int>(order), " ", size));
      CublasLtProduct p;
      p.m = (size & 1) != 0 ? 1 : 4;
      p.n = (size & 2) != 0 ? 1 : 3;
      p.k = (size & 4) != 0 ? 1 : 5;
      p.a = operand(p.m, p.k, order);
      p.b = operand(p.k, p.n, order);
      p.out = operand(p.m, p.n, order);
      check(p);
    }
  }
}

TEST_F(ProductTest, EveryTypeIsMultiplied) {
  for (CublasLtType type : {CublasLtType::kFloat32, CublasLtType::kFloat64, CublasLtType::kFloat16,
                            CublasLtType::kBfloat16}) {
    SCOPED_TRACE(static_cast<int>(type));
    CublasLtProduct p;
    p.type = type;
    p.batch = 3;
    p.m = 8;
    p.n = 9;
    p.k = 16;
    p.a = operand(p.m, p.k, Order::kRows);
    p.b = operand(p.k, p.n, Order::kColumns);
    p.out = operand(p.m, p.n, Order::kRows);
    // Batches begin at any element, not where the library would like.
    p.a.alignment = p.b.alignment = p.out.alignment = static_cast<uint32_t>(element_bytes(type));
    check(p);
  }
}

TEST_F(ProductTest, AMatrixMayBeTheSameForTheWholeBatch) {
  CublasLtProduct p;
  p.batch = 3;
  p.m = 4;
  p.n = 4;
  p.k = 4;
  p.a = operand(p.m, p.k, Order::kRows);
  p.b = operand(p.k, p.n, Order::kRows);
  p.out = operand(p.m, p.n, Order::kRows);
  auto plan = library_->prepare(p, 0, 1);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  p.b.batch_stride = 0;
  auto shared = library_->prepare(p, 0, 1);
  EXPECT_TRUE(shared.ok()) << shared.error().message;
}

TEST_F(ProductTest, OtherChoicesComputeTheSame) {
  CublasLtProduct p;
  p.m = p.n = p.k = 64;
  p.a = operand(p.m, p.k, Order::kRows);
  p.b = operand(p.k, p.n, Order::kRows);
  p.out = operand(p.m, p.n, Order::kRows);
  auto plan = library_->prepare(p, kWorkspaceBytes, 8);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  for (size_t choice = 0; choice < (*plan)->choices(); ++choice) check(p, choice);
}

TEST_F(ProductTest, MatricesWithoutAStrideOfOneAreRefused) {
  CublasLtProduct p;
  p.m = p.n = p.k = 4;
  p.a = {64, 16, 2, 256};
  p.b = operand(p.k, p.n, Order::kRows);
  p.out = operand(p.m, p.n, Order::kRows);
  auto plan = library_->prepare(p, 0, 1);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, Code::kInvalidInput);
}

}  // namespace
}  // namespace common
