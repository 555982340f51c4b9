// The profile of what a program moves: if these fail, predictions leave out waits or count state as
// if it went to the host.
#include "common/plan/io_profile.h"

#include <gtest/gtest.h>

#include "common/ir/hlir/sizes.h"

namespace common {
namespace {

TEST(IoProfile, CountsCallsTrafficAndWhatTheHostWaitsFor) {
  Expr n = Expr::symbol(0);
  std::vector<Buffer> buffers{{BufferKind::kInput, 0, DType::kFloat32, {n, 4}},
                              {BufferKind::kTemporary, 0, DType::kBfloat16, {n}},
                              {BufferKind::kOutput, 0, DType::kFloat32, {n}},
                              {BufferKind::kOutput, 1, DType::kFloat32, {n, 4}}};
  std::vector<Call> calls{{0, {0}, {1}, {n}}, {1, {1, 0}, {2}, {n}}, {2, {0}, {3}, {n}}};
  std::vector<GraphOutput> outputs{{OutputKind::kUser, -1, -1}, {OutputKind::kMutate, -1, 0}};
  IoProfile profile = io_profile(buffers, calls, outputs, {10});
  EXPECT_EQ(profile.launches, 3);
  EXPECT_EQ(profile.synchronisations, 1);
  EXPECT_EQ(profile.host_output_bytes, 40);  // the mutated state stays
  EXPECT_EQ(profile.device_bytes, (160 + 20) + (20 + 160 + 40) + (160 + 160));
  outputs[0].kind = OutputKind::kMutate;
  profile = io_profile(buffers, calls, outputs, {10});
  EXPECT_EQ(profile.host_output_bytes, 0);
  EXPECT_EQ(profile.synchronisations, 0);
}

TEST(IoProfile, RepresentativeSizesStayInTheirRanges) {
  EXPECT_EQ(representative_sizes({{1, 4096}, {64, 128}, {0, 8}}),
            (std::vector<int64_t>{32, 64, 8}));
}

}  // namespace
}  // namespace common
