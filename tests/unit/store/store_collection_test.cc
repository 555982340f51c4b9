// Collections of stores that are larger than what a collection remembers: if these fail, plans lose
// their kernels, kernels that nobody needs stay, or a coordinator with millions of plans runs out
// of memory when its store is full.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/store/store_testing.h"

namespace {

// Heap of this thread: what others free that it has taken counts on.
thread_local int64_t live_bytes = 0, peak_bytes = 0;

void* counted(size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) return nullptr;
  live_bytes += static_cast<int64_t>(::malloc_usable_size(memory));
  peak_bytes = std::max(peak_bytes, live_bytes);
  return memory;
}

void uncounted(void* memory) {
  if (memory != nullptr) live_bytes -= static_cast<int64_t>(::malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) {
  void* memory = counted(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](size_t size) { return operator new(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return counted(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return counted(size); }
void operator delete(void* memory) noexcept { uncounted(memory); }
void operator delete[](void* memory) noexcept { uncounted(memory); }
void operator delete(void* memory, size_t) noexcept { uncounted(memory); }
void operator delete[](void* memory, size_t) noexcept { uncounted(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { uncounted(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { uncounted(memory); }

namespace cache {
namespace {

using common::cat;
using common::Digest;

constexpr int kBlobs = 150;

// A store of random plans that share blobs, and what ought to be in it.
class StoreCollectionTest : public StoreTest {
 protected:
  struct Kept {
    std::set<int> needs;
    uint64_t order = 0;  // of the last use
    uint64_t bytes = 0;  // of the record
  };

  static std::string blob(int k) { return noise(100 + 7 * static_cast<size_t>(k), 1000 + k); }
  static Digest blob_digest(int k) { return common::digest_of(blob(k)); }
  static std::string name(int plan) { return cat("p", plan); }

  void open_another(const std::string& folder) {
    kept_.clear();
    store_ = must(Store::open(cat(scratch_.path(), '/', folder), options_));
  }

  uint64_t plan_bytes() { return must(store_->stats()).plans.bytes; }

  void put(int plan, std::set<int> needs) {
    std::vector<Digest> digests;
    for (int k : needs) digests.push_back(must(store_->put_blob(blob(k))));
    const uint64_t before = plan_bytes() - (kept_.count(plan) != 0 ? kept_[plan].bytes : 0);
    NewPlan anew = make_plan(name(plan), 1, digests, noise(static_cast<size_t>(plan), 1));
    anew.is_durable = false;
    must(store_->put_plan(anew));
    kept_[plan] = {std::move(needs), ++uses_, plan_bytes() - before};
  }

  void fill(uint64_t seed) {
    common::Random random(seed);
    auto below = [&random](int bound) {
      return static_cast<int>(random.below(static_cast<uint64_t>(bound)));
    };
    for (int k = 0; k < kBlobs; ++k) must(store_->put_blob(blob(k)));
    for (int step = 0; step < 200; ++step) {
      const int plan = below(60);
      if (below(10) == 0) {
        must(store_->remove_plan(key(name(plan))));
        kept_.erase(plan);
      } else if (below(3) == 0 && kept_.count(plan) != 0) {
        must(store_->get_plan(key(name(plan))));
        kept_[plan].order = ++uses_;
      } else {
        std::set<int> needs;
        for (int n = below(6); n > 0; --n) needs.insert(below(kBlobs - 20));
        put(plan, std::move(needs));
      }
    }
    pass_ms(11 * 60 * 1000);  // from here on no blob waits for a plan
  }

  // The same on paper: plans go in the order of their uses, each with the blobs that it needed
  // alone.
  void evict(uint64_t max_bytes) {
    auto total = [this] {
      uint64_t bytes = 0;
      for (const auto& [plan, its] : kept_) bytes += its.bytes;
      for (int k : needed()) bytes += blob(k).size();
      return bytes;
    };
    auto is_older = [](const auto& a, const auto& b) { return a.second.order < b.second.order; };
    while (!kept_.empty() && total() > max_bytes) {
      kept_.erase(std::min_element(kept_.begin(), kept_.end(), is_older));
    }
  }
  std::set<int> needed() const {
    std::set<int> all;
    for (const auto& [plan, its] : kept_) all.insert(its.needs.begin(), its.needs.end());
    return all;
  }

  void expect_as_on_paper() {
    uint64_t plans = 0, blobs = 0;
    for (const auto& [plan, its] : kept_) plans += its.bytes;
    for (int k : needed()) blobs += blob(k).size();
    StoreStats stats = must(store_->stats());
    EXPECT_EQ(stats.plans.count, kept_.size());
    EXPECT_EQ(stats.plans.bytes, plans);
    EXPECT_EQ(stats.kernels.count, needed().size());
    EXPECT_EQ(stats.kernels.bytes, blobs);
    for (int k = 0; k < kBlobs; ++k) {
      EXPECT_EQ(must(store_->get_blob(blob_digest(k))).has_value(), needed().count(k) != 0) << k;
    }
    for (int plan = 0; plan < 60; ++plan) {
      auto found = must(store_->get_plan(key(name(plan)), Lookup::kInspect));
      EXPECT_EQ(found.has_value(), kept_.count(plan) != 0) << plan;
    }
  }

  std::map<int, Kept> kept_;
  uint64_t uses_ = 0;
};

TEST_F(StoreCollectionTest, WhatIsRemovedDoesNotDependOnHowMuchIsRemembered) {
  for (size_t at_once : {size_t{1}, size_t{7}, size_t{1} << 20}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(cat("collects_at_once ", at_once, ", seed ", seed));
      options_.collects_at_once = at_once;
      open_another(cat(at_once, '-', seed));
      fill(seed);
      auto whole = must(store_->gc(uint64_t{1} << 40));
      EXPECT_EQ(whole.plans_removed, 0U);
      EXPECT_GE(whole.blobs_removed, 20U);
      expect_as_on_paper();
      for (uint64_t share : {3, 2}) {
        const uint64_t bound = whole.bytes_kept / 4 * share;
        evict(bound);
        auto report = must(store_->gc(bound));
        EXPECT_LE(report.bytes_kept, bound);
        EXPECT_GT(report.plans_removed, 0U);
        expect_as_on_paper();
      }
      EXPECT_EQ(must(store_->gc(0)).bytes_kept, 0U);
    }
  }
}

// A bound that is as large as can be plus what waits is no small one.
TEST_F(StoreCollectionTest, WithoutABoundNoPlanGoesWhileBlobsWait) {
  put(1, {1, 2});
  must(store_->put_blob("waits for its plan"));
  auto report = must(store_->gc(std::numeric_limits<uint64_t>::max()));
  EXPECT_EQ(report.plans_removed, 0U);
  EXPECT_EQ(must(store_->stats()).kernels.count, 3U);
}

// Of ten times as many plans and kernels a collection remembers no more.
TEST_F(StoreCollectionTest, MemoryDoesNotGrowWithPlans) {
  constexpr int kFew = 2'000, kMany = 20'000;
  constexpr int64_t kNoise = int64_t{1} << 20;  // batches, blocks that are read
  options_.collects_at_once = 500;
  reopen();
  std::map<int, int64_t> taken;
  int filled = 0;
  for (int plans : {kFew, kMany}) {
    std::vector<NewPlan> some;
    for (; filled < plans; ++filled) {
      auto needed = must(store_->put_blob(cat("kernel ", filled)));
      some.push_back(make_plan(cat("p", filled), 10, {needed}));
    }
    must(store_->put_plans_if_better(some));
    some.clear();
    StoreStats stats = must(store_->stats());
    // The least of three: blocks that this thread read and another one frees count as taken.
    taken[plans] = std::numeric_limits<int64_t>::max();
    for (int64_t removed_bytes : {10'000, 20'000, 30'000}) {
      pass_ms(11 * 60 * 1000);
      const int64_t before = peak_bytes = live_bytes;
      const auto bytes = static_cast<int64_t>(stats.plans.bytes + stats.kernels.bytes);
      auto report = must(store_->gc(static_cast<uint64_t>(bytes - removed_bytes)));
      taken[plans] = std::min(taken[plans], peak_bytes - before);
      EXPECT_GT(report.plans_removed, 0U);
      EXPECT_LT(report.plans_removed, 200U);
    }
  }
  EXPECT_LT(taken[kMany], taken[kFew] + kNoise);
  RecordProperty("bytes_few", std::to_string(taken[kFew]));
  RecordProperty("bytes_many", std::to_string(taken[kMany]));
}

}  // namespace
}  // namespace cache
