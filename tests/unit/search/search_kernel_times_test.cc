// What a search takes for the best schedule of a kernel: if these fail, it follows noise.
#include <gtest/gtest.h>

#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "coordinator/search/passes/passes.h"
#include "coordinator/search/records/kernel_times.h"

namespace coordinator {
namespace {

constexpr ScheduleCode kOwnChoice = 0, kOther = 1;

// Of one kernel that was never measured.
struct Times {
  KernelTimes all{nullptr, {{}}};
  KernelId id = 0;
};

Times times_of_a_kernel() {
  common::GraphBuilder b;
  auto x = b.input(common::InputKind::kUser, common::DType::kFloat32, {1024}, "x");
  b.output(b.unary(common::UnaryOp::kTanh, x));
  common::Graph graph = b.finish();
  Compilation compilation(graph, {"cpu-x86_64-avx512"}, Numerics::kStrict);
  common::Program program = default_program(compilation);
  const common::Call& call = program.calls.at(0);
  const common::Kernel& kernel = program.kernels[static_cast<size_t>(call.kernel)];
  Times times;
  times.id = times.all.intern(kernel, common::graph_hash(kernel.body), call);
  return times;
}

TEST(KernelTimes, ScheduleThatIsHardlyFasterDoesNotReplaceTheOwnChoice) {
  for (bool own_first : {true, false}) {
    Times times = times_of_a_kernel();
    for (ScheduleCode code : {own_first ? kOwnChoice : kOther, own_first ? kOther : kOwnChoice}) {
      times.all.record(times.id, code, code == kOwnChoice ? 100'000 : 99'800);
    }
    EXPECT_EQ(times.all.best(times.id)->code, kOwnChoice) << own_first;
    EXPECT_EQ(times.all.best(times.id)->ns, 100'000);
  }
}

TEST(KernelTimes, FasterScheduleReplacesTheOwnChoice) {
  Times times = times_of_a_kernel();
  times.all.record(times.id, kOwnChoice, 100'000);
  times.all.record(times.id, kOther, 99'000);
  EXPECT_EQ(times.all.best(times.id)->code, kOther);
  // It was a lucky sample.
  times.all.record(times.id, kOther, 120'000);
  times.all.record(times.id, kOther, 120'000);
  EXPECT_EQ(times.all.best(times.id)->code, kOwnChoice);
}

}  // namespace
}  // namespace coordinator
