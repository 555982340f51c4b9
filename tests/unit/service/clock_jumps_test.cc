// The wall clock is set: by fractions of a second, by hours, by years, forwards and back. If these
// fail, a farm believes what it revoked, a search's course depends on what it measured itself, a
// tenant waits for ever, or no copies of the store are made.
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "cache/store/backup.h"
#include "cache/store/store.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/random.h"
#include "coordinator/service/loop/backups.h"
#include "coordinator/service/loop/stamps.h"
#include "coordinator/service/plans/measurements.h"
#include "coordinator/service/plans/stored_tuning_records.h"
#include "coordinator/service/plans/tenants.h"

namespace coordinator::service {
namespace {

using common::cat;
using common::Digest;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kMinute = 60 * kSecond;
constexpr int64_t kHour = 60 * kMinute;
constexpr int64_t kYear = 365 * 24 * kHour;

class SetClock {
 public:
  explicit SetClock(common::Random& random) : random_(random) {}
  int64_t now_ns() const { return now_ns_; }
  void pass(int64_t ns) { now_ns_ += ns; }
  void jump() {
    constexpr int64_t kSteps[] = {kSecond / 2, kMinute, kHour, 30 * kHour, kYear};
    int64_t step = kSteps[random_.below(std::size(kSteps))];
    step = 1 + static_cast<int64_t>(random_.below(static_cast<uint64_t>(step)));
    now_ns_ = std::max(now_ns_ + (random_.chance(0.5) ? step : -step), kYear);
  }
  // What passes between two events, now and then with a jump.
  void go_on() {
    pass(static_cast<int64_t>(random_.below(10 * kMinute)));
    if (random_.chance(0.3)) jump();
  }

 private:
  common::Random& random_;
  int64_t now_ns_ = 50 * kYear;
};

class ClockJumps : public testing::TestWithParam<uint64_t> {
 protected:
  ClockJumps() : random_(GetParam()), clock_(random_) {
    cache::StoreOptions options;
    options.wall_ns = [this] { return clock_.now_ns(); };
    store_ = std::move(cache::Store::open(scratch_.path() + "/store", options)).value();
  }
  std::string one_of(const std::vector<std::string>& all) { return all[random_.below(all.size())]; }

  common::ScratchDirectory scratch_ = common::ScratchDirectory::create("clock_jumps").value();
  common::Random random_;
  SetClock clock_;
  std::unique_ptr<cache::Store> store_;
};

// Whatever the clock says: what was found before a revocation is gone, what was found later is not.
TEST_P(ClockJumps, ARevocationForgetsWhatWasFoundBeforeAndNothingElse) {
  const std::vector<std::string> tenants = {"red", "blue"};
  struct Found {
    int step = 0;
    std::string by;
  };
  std::map<Digest, Found> found;
  std::map<std::string, int> revoked = {{"", -1}, {"red", -1}, {"blue", -1}};
  for (int step = 0; step < 150; ++step) {
    clock_.go_on();
    Digest key = common::digest_of(cat("kernel ", random_.below(8)));
    if (random_.chance(0.2)) {
      std::string owner = one_of({"", "red", "blue"});
      ASSERT_TRUE(store_->revoke(common::digest_of(cat("plan ", step)), "wrong", owner).ok());
      revoked[owner] = step;
    } else if (random_.chance(0.5)) {
      found[key] = {step, one_of(tenants)};
      // More thorough than any before, so that it takes their place.
      TuningRecord record{{step + 1, 0}, 2.5, 0, 6, {}, {}};
      ASSERT_TRUE(
          keep_tuning_records(*store_, {{key, record}}, clock_.now_ns(), found[key].by).ok());
    }
    for (const auto& [kernel, what] : found) {
      for (const std::string& reader : tenants) {
        bool is_gone =
            what.step < revoked[""] || what.step < revoked[what.by] || what.step < revoked[reader];
        EXPECT_EQ(
            load_tuning_record(*store_, TuningRecordKind::kKernel, kernel, reader).has_value(),
            !is_gone)
            << "step " << step << ", found at " << what.step << " by " << what.by << ", for "
            << reader;
      }
    }
  }
}

// A search knows what was measured before it began, and never what was measured later, by itself or
// others; not even when a new coordinator goes on with it.
TEST_P(ClockJumps, ASearchNeverLearnsWhatWasMeasuredAfterItBegan) {
  struct Search {
    int began = 0;
    int64_t stamp_ns = 0;
    std::unique_ptr<JobMeasurements> told;
  };
  auto stamps = std::make_unique<Stamps>([this] { return clock_.now_ns(); });
  std::deque<Search> searches;
  std::map<Digest, int> measured;
  int restarted = 0;
  for (int step = 0; step < 150; ++step) {
    clock_.go_on();
    if (random_.chance(0.05)) {
      restarted = step;
      stamps = std::make_unique<Stamps>([this] { return clock_.now_ns(); });
      for (const Search& search : searches) stamps->go_on_from(search.stamp_ns);
    }
    if (random_.chance(0.2)) {
      int64_t stamp = stamps->now_ns();
      searches.push_back(
          {step, stamp,
           std::make_unique<JobMeasurements>(store_.get(), "cpu", "red", stamp, KernelAnswers())});
      if (searches.size() > 4) searches.pop_front();
    }
    Digest kernel = common::digest_of(cat("kernel ", step));
    ASSERT_TRUE(store_->put_measurement(kernel, "cpu", {7, 1, stamps->now_ns()}).ok());
    measured[kernel] = step;
    for (const Search& search : searches) {
      const auto& [asked, when] = *std::next(measured.begin(), random_.below(measured.size()));
      bool is_known = search.told->kernel_ns(asked).has_value();
      bool is_later = when >= search.began;
      // What an earlier coordinator measured under a clock that ran ahead may be of no use.
      if (is_later || when >= restarted) {
        EXPECT_EQ(is_known, !is_later) << when << ", began at " << search.began;
      }
    }
  }
}

// However the clock was set: a day without jumps, and what was used before counts no more.
TEST_P(ClockJumps, NoTenantWaitsForLongerThanADay) {
  Tenants tenants(*store_);
  common::TenantPolicy policy;
  policy.quota_s = 10;
  tenants.set_policies({{"red", policy}});
  for (int round = 0; round < 40; ++round) {
    uint64_t charged = 0;
    for (int k = 0; k < 5; ++k) {
      clock_.go_on();
      tenants.charge("red", 7'000, clock_.now_ns());
      charged += 7'000;
      EXPECT_GE(tenants.used_ms("red", clock_.now_ns()), 7'000u);
      EXPECT_LE(tenants.used_ms("red", clock_.now_ns()), charged);
    }
    tenants.charge("red", 7'000, clock_.now_ns());
    EXPECT_NE(tenants.exhausted("red", clock_.now_ns()), "");
    clock_.pass(26 * kHour);
    EXPECT_EQ(tenants.exhausted("red", clock_.now_ns()), "");
    EXPECT_EQ(tenants.used_ms("red", clock_.now_ns()), 0u);
  }
}

// A copy is made within the time that was asked for, counted from the jump, and stays.
TEST_P(ClockJumps, CopiesGoOnBeingMade) {
  const std::string folder = scratch_.path() + "/copies";
  Background background(1);
  std::optional<Backups> backups;
  backups.emplace(BackupOptions{folder, 60 * 60 * 1'000, 3}, *store_, background);
  auto turn = [&] {
    backups->turn(clock_.now_ns());
    ASSERT_TRUE(background.finish(std::chrono::minutes(10)));
    background.deliver();
  };
  turn();
  for (int round = 0; round < 12; ++round) {
    clock_.jump();
    if (random_.chance(0.3))
      backups.emplace(BackupOptions{folder, 3'600'000, 3}, *store_, background);
    int64_t begin_ns = clock_.now_ns();
    for (int minutes = 0; minutes <= 61; ++minutes) {
      turn();
      clock_.pass(kMinute);
    }
    int64_t latest_ns = 0;
    for (int64_t ns = begin_ns; ns <= begin_ns + 61 * kMinute; ns += kMinute) {
      if (std::filesystem::exists(cat(folder, "/store-", ns))) latest_ns = ns;
    }
    EXPECT_GT(latest_ns, 0) << "no copy within an hour of round " << round;
    EXPECT_LE(cache::backups_in(folder).size(), 3u);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ClockJumps, testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace coordinator::service
