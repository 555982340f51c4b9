// The profile of what a program moves: if these fail, predictions leave out waits or count state as
// if it went to the host.
#include "common/plan/io_profile.h"

#include <gtest/gtest.h>

#include <utility>

#include "common/ir/hlir/sizes.h"
#include "common/plan/io_gate.h"

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

// A spectral front end of 8,192 signals of 256 samples: the whole spectra go to the host, or the 16
// greatest peaks of each alone.
TEST(IoGate, PricesLaunchesWaitsAndBytes) {
  IoProfile spectra{3, 0, 33'554'432, 184'549'376};
  IoProfile peaks{4, 1, 1'048'576, 219'152'384};
  const IoPrices& cuda = io_prices()[0];
  EXPECT_EQ(cuda.target, "cuda");
  IoScore score = io_score(spectra, peaks, cuda);
  EXPECT_NEAR(score.saved_ns, 584'863.36, 1e-6);
  EXPECT_NEAR(score.with_penalty_ns, -14'415'136.64, 1e-6);
  EXPECT_NEAR(score.in_arena_ns, 604'863.36, 1e-6);
  // The way back saves nothing, and has no wait that would be new.
  IoScore back = io_score(peaks, spectra, cuda);
  EXPECT_NEAR(back.saved_ns, -584'863.36, 1e-6);
  EXPECT_EQ(back.with_penalty_ns, back.saved_ns);
  // In one memory there is nothing to bring to the host.
  EXPECT_LT(io_score(spectra, peaks, io_prices()[1]).saved_ns, 0);
}

TEST(IoProfile, RepresentativeSizesStayInTheirRanges) {
  EXPECT_EQ(representative_sizes({{1, 4096}, {64, 128}, {0, 8}}),
            (std::vector<int64_t>{32, 96, 8}));
}

// Times over a range: equal sizes are one and count together.
TEST(PricedSizes, AreLeastRepresentativeAndLarge) {
  auto check = [](const std::vector<SymbolRange>& symbols,
                  const std::vector<std::pair<std::vector<int64_t>, double>>& expected) {
    const auto all = priced_sizes(symbols);
    ASSERT_EQ(all.size(), expected.size());
    for (size_t k = 0; k < all.size(); ++k) {
      EXPECT_EQ(all[k].sizes, expected[k].first);
      EXPECT_NEAR(all[k].weight, expected[k].second, 1e-12);
    }
  };
  check({}, {{{}, 1}});
  check({{1, 1 << 20}}, {{{32}, 0.4}, {{1}, 0.4}, {{2048}, 0.2}});
  check({{0, 8}}, {{{8}, 0.6}, {{1}, 0.4}});
  check({{7, 7}}, {{{7}, 1}});
  // What lies above typical sizes was asked for, its ends and its middle.
  check({{1025, 2048}}, {{{1536}, 0.4}, {{1025}, 0.2}, {{2048}, 0.4}});
  check({{4096, 8192}}, {{{6144}, 0.8}, {{4096}, 0.2}});
  check({{1, 128}, {3, 64}}, {{{32, 32}, 0.4}, {{1, 3}, 0.4}, {{128, 32}, 0.1}, {{32, 64}, 0.1}});
  EXPECT_EQ(text_of(priced_sizes({{1, 128}, {3, 3}})),
            "s0=32 s1=3 (0.50), s0=1 s1=3 (0.40), s0=128 s1=3 (0.10)");
}

}  // namespace
}  // namespace common
