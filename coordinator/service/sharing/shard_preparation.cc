#include "coordinator/service/sharing/shard_preparation.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Fence;
using common::Status;

namespace {

// A store that has just come back is not used again at once.
constexpr int64_t kPauseNs = 250'000'000;

}  // namespace

ShardPreparation::ShardPreparation(Sharding& sharding, PeerPlans& peers, const common::Clock& clock,
                                   Apply apply)
    : keeper_(sharding.keeper),
      journals_(sharding.journals),
      peers_(peers),
      clock_(clock),
      apply_(std::move(apply)) {}

// Beyond the bound the whole shard is compared.
void ShardPreparation::again(const PlanPlace& place) {
  if (!keeper_.holds(place.shard())) return;
  if (unoffered_.size() < kUnofferedMax) {
    unoffered_.emplace(place.digest(), place);
  } else {
    comparison_.waiting.set(place.shard());
  }
}

bool ShardPreparation::is_behind(uint32_t shard) const {
  return std::any_of(unoffered_.begin(), unoffered_.end(),
                     [shard](const auto& one) { return one.second.shard() == shard; });
}

// Whoever holds them now prepares them.
void ShardPreparation::drop_lost() {
  std::erase_if(raised_,
                [this](const auto& one) { return keeper_.holds(one.first) != one.second; });
  std::erase_if(unoffered_, [this](const auto& one) { return !keeper_.holds(one.second.shard()); });
  for (uint32_t shard = 0; shard < common::kShardCount; ++shard) {
    if (!is_comparing(shard) || keeper_.holds(shard)) continue;
    comparison_.waiting.reset(shard);
    comparison_.under_way.reset(shard);
  }
}

void ShardPreparation::turn(int64_t now_ns) {
  for (const Fence& fence : keeper_.take_raised()) raised_[fence.shard] = fence;
  if (is_working_) return;
  drop_lost();
  bool has_plans = (comparison_.waiting | comparison_.under_way).any();
  if (!raised_.empty() && now_ns >= prepare_ns_) {
    prepare();
  } else if (!unoffered_.empty() && now_ns >= offer_ns_) {
    offer_again();
  } else if (has_plans && now_ns >= comparison_.next_ns) {
    compare();
  }
}

void ShardPreparation::prepare() {
  is_working_ = true;
  std::vector<Fence> fences;
  for (const auto& [shard, fence] : raised_) fences.push_back(fence);
  thread_.start([this, fences]() -> Background::Done {
    PeerPlans::News news = peers_.learn_revocations();
    auto prepared = std::make_shared<std::vector<Ready>>();
    std::string trouble = news.is_whole ? "" : "the list of revocations cannot be read";
    for (const Fence& fence : fences) {
      if (!news.is_whole) break;
      auto journals = journals_.read(fence.shard);
      if (journals.ok()) {
        prepared->push_back({fence, std::move(*journals)});
      } else {
        trouble = journals.error().message;
      }
    }
    return [this, prepared, news, trouble] {
      is_working_ = false;
      apply_(news);
      for (Ready& ready : *prepared) {
        const uint32_t shard = ready.fence.shard;
        auto raised = raised_.find(shard);
        if (raised == raised_.end() || raised->second != ready.fence) continue;
        raised_.erase(raised);
        // Also when it was compared before: the engine may have lost plans since.
        comparison_.under_way.reset(shard);
        comparison_.waiting.set(shard);
        ready_.push_back(std::move(ready));
      }
      if (trouble.empty()) return;
      prepare_ns_ = clock_.now_ns() + kPauseNs;
      common::log_debug(cat("shards are not prepared: ", trouble));
    };
  });
}

void ShardPreparation::offer_again() {
  is_working_ = true;
  std::vector<PlanPlace> places;
  for (const auto& [digest, place] : unoffered_) {
    if (places.size() < kOffersAtOnce) places.push_back(place);
  }
  thread_.start([this, places]() -> Background::Done {
    std::vector<Digest> done;
    bool is_unanswered = false;
    for (const PlanPlace& place : places) {
      is_unanswered = is_away(peers_.compare(place));
      if (is_unanswered) break;
      done.push_back(place.digest());
    }
    return [this, done, is_unanswered] {
      is_working_ = false;
      for (const Digest& digest : done) unoffered_.erase(digest);
      if (is_unanswered) offer_ns_ = clock_.now_ns() + kPauseNs;
    };
  });
}

void ShardPreparation::compare() {
  is_working_ = true;
  if (comparison_.under_way.none()) {
    comparison_.under_way = std::exchange(comparison_.waiting, {});
    comparison_.last.reset();
  }
  thread_.start(
      [this, shards = comparison_.under_way, last = comparison_.last]() -> Background::Done {
        auto compared = peers_.compare_some(shards, last);
        return [this, compared] {
          is_working_ = false;
          if (!compared.ok()) {
            comparison_.next_ns = clock_.now_ns() + kPauseNs;
            return common::log_debug(cat("plans are not compared: ", compared.error().message));
          }
          comparison_.last = *compared;
          if (!comparison_.last) comparison_.under_way.reset();
        };
      });
}

std::vector<ShardPreparation::Ready> ShardPreparation::take_ready() {
  return std::exchange(ready_, {});
}

}  // namespace coordinator::service
