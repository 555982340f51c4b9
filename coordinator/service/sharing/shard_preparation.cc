#include "coordinator/service/sharing/shard_preparation.h"

#include <memory>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"

namespace coordinator::service {

using common::cat;
using common::Fence;

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

void ShardPreparation::again(uint32_t shard) {
  if (keeper_.holds(shard)) again_.insert(shard);
}

// Whoever holds them now prepares them.
void ShardPreparation::drop_lost() {
  std::erase_if(raised_,
                [this](const auto& one) { return keeper_.holds(one.first) != one.second; });
  std::erase_if(again_, [this](uint32_t shard) { return !keeper_.holds(shard); });
}

void ShardPreparation::turn(int64_t now_ns) {
  for (const Fence& fence : keeper_.take_raised()) raised_[fence.shard] = fence;
  if (is_working_ || now_ns < next_ns_) return;
  drop_lost();
  if (!raised_.empty() || !again_.empty()) work();
}

void ShardPreparation::work() {
  is_working_ = true;
  comparing_ = std::exchange(again_, {});
  std::set<uint32_t> shards = comparing_;
  std::vector<Fence> fences;
  for (const auto& [shard, fence] : raised_) {
    shards.insert(shard);
    fences.push_back(fence);
  }
  thread_.start([this, shards, fences]() -> Background::Done {
    PeerPlans::News news = peers_.learn_revocations();
    std::map<uint32_t, common::Error> failed = peers_.reconcile(shards);
    auto prepared = std::make_shared<std::vector<Ready>>();
    for (const Fence& fence : fences) {
      if (!news.is_whole || failed.contains(fence.shard)) continue;
      auto journals = journals_.read(fence.shard);
      if (!journals.ok()) {
        failed.emplace(fence.shard, journals.error());
        continue;
      }
      prepared->push_back({fence, std::move(*journals)});
    }
    return [this, prepared, news, failed] {
      is_working_ = false;
      comparing_.clear();
      apply_(news);
      for (Ready& ready : *prepared) {
        auto raised = raised_.find(ready.fence.shard);
        if (raised == raised_.end() || raised->second != ready.fence) continue;
        raised_.erase(raised);
        ready_.push_back(std::move(ready));
      }
      for (const auto& [shard, error] : failed) {
        if (!raised_.contains(shard)) again_.insert(shard);
      }
      if (failed.empty() && news.is_whole) return;
      next_ns_ = clock_.now_ns() + kPauseNs;
      common::log_debug(
          cat("shards are not prepared: ", failed.empty() ? "the list of revocations cannot be read"
                                                          : failed.begin()->second.message));
    };
  });
}

std::vector<ShardPreparation::Ready> ShardPreparation::take_ready() {
  return std::exchange(ready_, {});
}

}  // namespace coordinator::service
