// Machine classes in the store: if these fail, what one class measured or learned is told to
// another, or a wish for a class's own plan is lost.
#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cache/store/store.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/random.h"
#include "coordinator/search/records/tuning_records.h"
#include "coordinator/service/jobs/wishes.h"
#include "coordinator/service/plans/measurements.h"
#include "coordinator/service/plans/priors.h"
#include "coordinator/service/plans/stored_tuning_records.h"
#include "coordinator/service/workers/device_name.h"

namespace coordinator::service {
namespace {

using common::cat;
using common::Digest;

// Goal: nothing that was measured or learned under one pair of target and class is read under
// another. Method: random pairs, whose names are prefixes and concatenations of each other, write
// values that differ all; then every pair reads everything.
class ToldToOthers {
 public:
  ToldToOthers(cache::Store& store, uint64_t seed) : store_(store), random_(seed) {}

  void write(int64_t step) {
    Pair pair{random_.below(std::size(kTargets)), random_.below(std::size(kMachines))};
    size_t k = random_.below(kKernels);
    auto value = static_cast<double>(step + 1);
    switch (random_.below(3)) {
      case 0: {
        cache::Changes changes;
        changes.measurements.push_back({kernel(k), device(pair), {value, 5, 1}});
        ASSERT_TRUE(store_.commit(std::vector<cache::Changes>{changes}).ok());
        measured_.emplace(std::pair{pair, k}, step + 1);  // the first one stays
        return;
      }
      case 1: {
        TuningRecord record;
        record.ns = value;
        record.effort.candidates = step;  // grows, so that the last one stays
        ASSERT_TRUE(keep_tuning_records(store_, {{key(pair, k), record}}, 1, "local").ok());
        found_[{pair, k}] = value;
        return;
      }
      default:
        if (!learned_.emplace(pair, value).second) return;
        ASSERT_TRUE(merge_priors(store_, device(pair), {{7, {value, 1}}}).ok());
    }
  }

  void read() {
    for (size_t t = 0; t < std::size(kTargets); ++t) {
      for (size_t m = 0; m < std::size(kMachines); ++m) read(Pair{t, m});
    }
  }

 private:
  using Pair = std::pair<size_t, size_t>;  // target, class
  static constexpr const char* kTargets[] = {"cpu", "cpu-a", "cpu-a on b", "cuda-sm_90a"};
  static constexpr const char* kMachines[] = {"",    "a", "b", "a, 2 threads", "a, 20 threads",
                                              "on b"};
  static constexpr size_t kKernels = 12;

  static Digest kernel(size_t k) { return common::digest_of(cat("kernel ", k)); }
  static std::string device(Pair pair) {
    return device_name(kTargets[pair.first], kMachines[pair.second]);
  }
  static Digest key(Pair pair, size_t k) {
    return kernel_key(common::Template::kLoops, kernel(k), {kTargets[pair.first]},
                      kMachines[pair.second]);
  }

  void read(Pair pair) {
    SCOPED_TRACE(device(pair));
    JobMeasurements told(&store_, device(pair), "local", 1'000, {}, {});
    for (size_t k = 0; k < kKernels; ++k) {
      auto own = measured_.find({pair, k});
      auto ns = told.kernel_ns(kernel(k));
      ASSERT_EQ(ns.has_value(), own != measured_.end());
      if (ns) {
        ASSERT_EQ(*ns, own->second);
      }
      // Two tuning records may want one place, where the later stays: so one may be gone.
      auto record = told.record(TuningRecordKind::kKernel, key(pair, k));
      if (!record) continue;
      ASSERT_EQ(found_.count({pair, k}), 1u);
      ASSERT_EQ(record->ns, found_.at({pair, k}));
    }
    EffectTable priors = load_priors(store_, device(pair));
    ASSERT_EQ(priors.empty(), learned_.count(pair) == 0);
    if (!priors.empty()) {
      ASSERT_EQ(priors.at(7).mean, learned_.at(pair));
    }
  }

  cache::Store& store_;
  common::Random random_;
  std::map<std::pair<Pair, size_t>, int64_t> measured_;
  std::map<std::pair<Pair, size_t>, double> found_;
  std::map<Pair, double> learned_;
};

TEST(ServiceClasses, WhatOneClassMeasuredIsNeverToldToAnother) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    auto scratch = common::ScratchDirectory::create("classes").value();
    auto store = cache::Store::open(scratch.path() + "/store", {}).value();
    ToldToOthers model(*store, seed);
    for (int64_t step = 0; step < 300; ++step) ASSERT_NO_FATAL_FAILURE(model.write(step));
    ASSERT_NO_FATAL_FAILURE(model.read());
  }
}

TEST(ServiceClasses, KeysOfBeforeClassesAreThoseOfNoClass) {
  Digest body = common::digest_of("body");
  EXPECT_EQ(kernel_key(common::Template::kLoops, body, {"cpu"}),
            kernel_key(common::Template::kLoops, body, {"cpu"}, ""));
  EXPECT_NE(kernel_key(common::Template::kLoops, body, {"cpu"}),
            kernel_key(common::Template::kLoops, body, {"cpu"}, "a"));
  EXPECT_EQ(common::place_of("team", body), common::place_of("team", body, ""));
  EXPECT_NE(common::place_of("team", body), common::place_of("team", body, "a"));
  EXPECT_EQ(device_name("cpu", ""), "cpu");
  EXPECT_EQ(target_of_device(device_name("cpu", "a")), "cpu");
  EXPECT_EQ(target_of_device("cpu"), "cpu");
}

TEST(ServiceClasses, TheNearestClassIsTheOneWithTheSameBeginning) {
  std::string wanted = "AMD EPYC 7763, L3 32 MiB, 64 threads";
  EXPECT_GT(class_likeness("AMD EPYC 7763, L3 32 MiB, 2 threads", wanted),
            class_likeness("AMD EPYC 7B13, L3 32 MiB, 64 threads", wanted));
  EXPECT_GT(class_likeness("AMD EPYC 7B13, L3 32 MiB, 64 threads", wanted),
            class_likeness("Intel(R) Xeon(R) 8481C, 64 threads", wanted));
  EXPECT_EQ(class_likeness("", wanted), 0u);
}

// ---- Wishes ------------------------------------------------------------------------------------

Wish wish(const std::string& graph, const std::string& machine) {
  return {"team", {common::digest_of(graph), {"cpu"}, "strict", "epoch"}, machine};
}

TEST(Wishes, TheMostUsedOneThatCanRunIsNext) {
  Wishes wishes;
  auto always = [](const Wish&) { return true; };
  EXPECT_EQ(wishes.next(0, always), nullptr);
  wishes.add(wish("g", "a"));
  for (int use = 0; use < 3; ++use) wishes.add(wish("h", "b"));
  ASSERT_NE(wishes.next(0, always), nullptr);
  EXPECT_EQ(wishes.next(0, always)->machine, "b");
  EXPECT_EQ(wishes.next(0, always)->uses, 3u);
  EXPECT_EQ(wishes.next(0, [](const Wish& one) { return one.machine == "a"; })->machine, "a");
  wishes.rest(wish("h", "b").place(), 100);
  EXPECT_EQ(wishes.next(99, always)->machine, "a");
  EXPECT_EQ(wishes.next(100, always)->machine, "b");
  wishes.remove(wish("h", "b").place());
  EXPECT_EQ(wishes.find(wish("h", "b").place()), nullptr);
  EXPECT_EQ(wishes.size(), 1u);
}

TEST(Wishes, ComeBackFromTheirBytesAndFromNoOthers) {
  Wishes wishes;
  wishes.add(wish("g", "a"));
  wishes.add(wish("g", "a"));
  wishes.add(wish("g", "b"));
  EXPECT_TRUE(wishes.take_changed());
  EXPECT_FALSE(wishes.take_changed());
  Wishes again;
  again.read(wishes.bytes());
  EXPECT_EQ(again.size(), 2u);
  EXPECT_EQ(*again.find(wish("g", "a").place()), *wishes.find(wish("g", "a").place()));
  for (const char* damaged : {"", "{", "7", "[7, {}, {\"tenant\": 3}]"}) {
    Wishes none;
    none.read(damaged);
    EXPECT_EQ(none.size(), 0u) << damaged;
  }
}

TEST(Wishes, AreBoundedAndTheLeastUsedGoes) {
  Wishes wishes;
  wishes.add(wish("first", "a"));
  wishes.add(wish("first", "a"));
  for (size_t k = 0; k < 2 * Wishes::kWishesMax; ++k) wishes.add(wish(cat("g", k), "a"));
  EXPECT_EQ(wishes.size(), Wishes::kWishesMax);
  EXPECT_NE(wishes.find(wish("first", "a").place()), nullptr);
}

}  // namespace
}  // namespace coordinator::service
