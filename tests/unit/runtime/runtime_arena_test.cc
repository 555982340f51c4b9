// The arena: buffers that are live together never overlap, and little room is wasted.
#include <gtest/gtest.h>

#include "common/base/random.h"
#include "common/plan/arena.h"
#include "tests/unit/runtime/runtime_testing.h"

namespace common {
namespace {

bool live_together(const LiveBlock& a, const LiveBlock& b) {
  return a.first <= b.last && b.first <= a.last;
}

void expect_sound(const std::vector<LiveBlock>& blocks, const ArenaLayout& layout, uint64_t seed) {
  ASSERT_EQ(layout.offsets.size(), blocks.size());
  for (size_t x = 0; x < blocks.size(); ++x) {
    EXPECT_EQ(layout.offsets[x] % 64, 0u);
    ASSERT_LE(layout.offsets[x] + blocks[x].bytes, layout.bytes) << "seed " << seed;
    for (size_t y = 0; y < x; ++y) {
      if (!live_together(blocks[x], blocks[y])) continue;
      bool apart = layout.offsets[x] + blocks[x].bytes <= layout.offsets[y] ||
                   layout.offsets[y] + blocks[y].bytes <= layout.offsets[x];
      ASSERT_TRUE(apart) << "blocks " << x << " and " << y << " overlap, seed " << seed;
    }
  }
  EXPECT_GE(layout.bytes, layout.bytes_live_max);
}

std::vector<LiveBlock> random_blocks(uint64_t seed) {
  Random random(seed);
  int calls = 1 + static_cast<int>(random.below(60));
  std::vector<LiveBlock> blocks(random.below(80));
  for (LiveBlock& block : blocks) {
    block.first = static_cast<int>(random.below(static_cast<uint64_t>(calls)));
    int room = calls - block.first;
    int reach = random.chance(0.1) ? room : std::min(room, 4);
    block.last = block.first + static_cast<int>(random.below(static_cast<uint64_t>(reach)));
    block.bytes = random.chance(0.1) ? 0 : static_cast<size_t>(random.below(1 << 16));
  }
  return blocks;
}

TEST(Arena, LiveBlocksNeverOverlap) {
  double used = 0, needed = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::vector<LiveBlock> blocks = random_blocks(seed);
    ArenaLayout layout = plan_arena(blocks, 64);
    expect_sound(blocks, layout, seed);
    used += static_cast<double>(layout.bytes);
    needed += static_cast<double>(layout.bytes_live_max);
  }
  EXPECT_LT(used, 1.05 * needed) << "more than 5 % above what is live at once";
}

TEST(Arena, ChainOfEqualBlocksTakesTwo) {
  std::vector<LiveBlock> blocks;
  for (int c = 0; c < 100; ++c) blocks.push_back({4096, c, c + 1});
  EXPECT_EQ(plan_arena(blocks, 64).bytes, 2 * 4096u);
}

TEST(Arena, NothingTakesNothing) {
  EXPECT_EQ(plan_arena({}, 64).bytes, 0u);
  std::vector<LiveBlock> empty = {{0, 0, 0}};
  EXPECT_EQ(plan_arena(empty, 64).bytes, 0u);
}

// state -> scatter -> temporary -> scatter -> new state, and an output read off the new state.
PlanMaker state_chain(bool read_old_state_later) {
  PlanMaker m;
  int state = m.input({8}, InputKind::kState);
  int x = m.input({1});
  int middle = m.temporary({8});
  int fresh = m.mutate(0, {8});
  int out = m.output({8});
  int scatter = m.kernel("scatter", 1, 0);
  int copy = m.kernel("copy");
  m.call(scatter, {state, x}, {middle});
  m.call(scatter, {middle, x}, {fresh});
  m.call(copy, {read_old_state_later ? state : fresh}, {out});
  m.plan.objects = {Digest{}};
  return m;
}

TEST(Lifetimes, StateIsUpdatedInPlaceAlongAChain) {
  Plan plan = state_chain(false).plan;
  ASSERT_TRUE(verify(plan).ok());
  Lifetimes lifetimes = buffer_lifetimes(plan);
  EXPECT_EQ(lifetimes.storage, (std::vector<int>{0, 1, 0, 0, 4}));
  EXPECT_EQ(lifetimes.first, (std::vector<int>{-1, -1, -1, -1, -1}));
}

TEST(Lifetimes, StateThatIsReadLaterIsKept) {
  Lifetimes lifetimes = buffer_lifetimes(state_chain(true).plan);
  // The temporary may still become the new state's memory.
  EXPECT_EQ(lifetimes.storage, (std::vector<int>{0, 1, 3, 3, 4}));
}

TEST(Lifetimes, ScatterOfStateIntoAnOutputDoesNotTouchTheState) {
  PlanMaker m;
  int state = m.input({8}, InputKind::kState);
  int x = m.input({1});
  int out = m.output({8});
  m.call(m.kernel("scatter", 1, 0), {state, x}, {out});
  EXPECT_EQ(buffer_lifetimes(m.plan).storage, (std::vector<int>{0, 1, 2}));
}

TEST(Lifetimes, OtherStatesMemoryIsNeverTaken) {
  PlanMaker m;  // the new content of state 1 is computed from state 0
  int first = m.input({8}, InputKind::kState);
  m.input({8}, InputKind::kState);
  int x = m.input({1});
  int fresh = m.mutate(1, {8});
  m.call(m.kernel("scatter", 1, 0), {first, x}, {fresh});
  EXPECT_EQ(buffer_lifetimes(m.plan).storage, (std::vector<int>{0, 1, 2, 3}));
}

TEST(Lifetimes, BaseThatIsAlsoAnUpdateIsKept) {
  PlanMaker m;
  int state = m.input({8}, InputKind::kState);
  int fresh = m.mutate(0, {8});
  m.call(m.kernel("scatter", 1, 0), {state, state}, {fresh});
  EXPECT_EQ(buffer_lifetimes(m.plan).storage, (std::vector<int>{0, 1}));
}

TEST(Lifetimes, TemporariesShareAlongScattersAndLiveAsLongAsAnyOfThem) {
  PlanMaker m;
  int x = m.input({8});
  int a = m.temporary({8}), b = m.temporary({8}), other = m.temporary({8});
  int out = m.output({8});
  int copy = m.kernel("copy"), scatter = m.kernel("scatter", 1, 0);
  m.call(copy, {x}, {a});              // 0
  m.call(scatter, {a, x}, {b});        // 1: in place
  m.call(copy, {b}, {other});          // 2
  m.call(scatter, {b, other}, {out});  // 3: the output's memory from the start
  Lifetimes lifetimes = buffer_lifetimes(m.plan);
  EXPECT_EQ(lifetimes.storage, (std::vector<int>{0, 4, 4, 3, 4}));
  EXPECT_EQ(lifetimes.first[3], 2);
  EXPECT_EQ(lifetimes.last[3], 3);
  EXPECT_EQ(lifetimes.first[1], -1);
}

TEST(Lifetimes, DifferentShapesDoNotShare) {
  PlanMaker m;
  int x = m.input({8});
  int a = m.temporary({8}), b = m.temporary({4}), out = m.output({4});
  m.call(m.kernel("copy"), {x}, {a});
  m.call(m.kernel("scatter", 1, 0), {a, x}, {b});
  m.call(m.kernel("copy2"), {b}, {out});
  EXPECT_EQ(buffer_lifetimes(m.plan).storage, (std::vector<int>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace common
