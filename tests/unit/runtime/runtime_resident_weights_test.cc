// Weights that stay on a device: if these fail, each candidate of a large model copies gigabytes,
// or one that writes to them spoils what is measured after it.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "common/base/hash64.h"
#include "common/runtime/executor/executor_memory.h"
#include "common/runtime/executor/resident_weights.h"
#include "common/runtime/whole_run.h"
#include "tests/unit/runtime/late_device.h"
#include "tests/unit/runtime/runtime_testing.h"

namespace common {
namespace {

constexpr const char* kKernels = R"(
#define F(k) ((float*)b[k])
KERNEL(add) { for (int64_t i = begin; i < end; ++i) F(2)[i] = F(0)[i] + F(1)[i]; }
KERNEL(spoil) { for (int64_t i = begin; i < end; ++i) { F(2)[i] = F(0)[i] + F(1)[i]; F(1)[i] = 0; } }
)";

class ResidentWeightsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { object = new Bytes(compile_object(kKernels)); }
  static void TearDownTestSuite() { delete object; }

  void SetUp() override {
    for (size_t i = 0; i < 2; ++i)
      inputs_.push_back(HostTensor::zeros(DType::kFloat32, {4}).value());
    for (int64_t k = 0; k < 4; ++k) {
      inputs_[0].set(k, static_cast<double>(k));
      inputs_[1].set(k, 10);
    }
  }

  // out = x + w
  std::unique_ptr<Executor> load(const char* kernel, bool guard) {
    PlanMaker m;
    int x = m.input({4}), w = m.input({4}, InputKind::kWeight), out = m.output({4});
    m.call(m.kernel(kernel, 4), {x, w}, {out}, {4});
    Plan plan = m.finish(*object);
    plan.key.target = device_.target();
    auto source = [](const Digest&) -> Result<ByteView> { return ByteView(*object); };
    return Executor::load(plan, source, device_, {.guard = guard}).value();
  }
  double last_sum(Executor& executor) {
    auto user = bind_inputs(executor, inputs_, false, &resident_);
    EXPECT_TRUE(user.ok());
    return executor.run(*user).value().user[0].get(3);
  }

  static Bytes* object;
  LateDevice device_;
  ResidentWeights resident_;
  std::vector<HostTensor> inputs_;
};
Bytes* ResidentWeightsTest::object = nullptr;

TEST_F(ResidentWeightsTest, AreCopiedOnceForAllExecutors) {
  const std::byte* where = nullptr;
  for (bool guard : {true, false, true}) {
    auto executor = load("add", guard);
    EXPECT_EQ(last_sum(*executor), 13);
    EXPECT_TRUE(executor->check_guards().ok());
    auto found = resident_.find(device_, inputs_[1]);
    ASSERT_TRUE(found.ok());
    EXPECT_TRUE(found->on_device);
    if (where == nullptr) where = found->data;
    EXPECT_EQ(found->data, where);
  }
  // An executor of a weight elsewhere copies it.
  const size_t before = device_.allocated;
  HostTensor other = inputs_[1].clone().value();
  ASSERT_TRUE(resident_.find(device_, other).ok());
  EXPECT_GT(device_.allocated, before);
}

TEST_F(ResidentWeightsTest, WhoWritesToThemIsFound) {
  auto executor = load("spoil", true);
  EXPECT_EQ(last_sum(*executor), 13);
  EXPECT_TRUE(executor->check_guards(Guards::kRun).ok()) << "contents that stay are for the end";
  Status all = executor->check_guards(Guards::kAll);
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.error().code, Code::kVerification);
  EXPECT_NE(all.error().message.find("which only reads it"), std::string::npos);
}

TEST_F(ResidentWeightsTest, MemoryIsHashedInPieces) {
  for (size_t bytes : {size_t{0}, size_t{5}, size_t{8} << 20, (size_t{20} << 20) + 3}) {
    Bytes content(bytes);
    for (size_t k = 0; k < bytes; ++k) content[k] = static_cast<std::byte>(k * 31 >> 3);
    auto memory = device_.allocate(bytes).value();
    ASSERT_TRUE(device_.copy_in(memory.data(), content).ok());
    MemoryHasher hasher(device_);
    EXPECT_EQ(hasher.hash(memory.data(), bytes).value(), hash64(content)) << bytes;
  }
}

}  // namespace
}  // namespace common
