#include "coordinator/service/jobs/wishes.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace coordinator::service {

using common::Digest;
using Json = nlohmann::json;

void Wishes::read(const std::string& bytes) {
  Json rows = Json::parse(bytes, nullptr, false);
  if (!rows.is_array()) return;
  for (const Json& row : rows) {
    if (!row.is_object() || wishes_.size() >= kWishesMax) continue;
    try {
      Wish wish;
      wish.tenant = row.at("tenant");
      wish.key.graph_hash =
          Digest::parse(row.at("graph_hash").get<std::string>()).value_or(Digest{});
      wish.key.target.name = row.at("target");
      wish.key.policy = row.at("policy");
      wish.key.epoch = row.at("epoch");
      wish.machine = row.at("machine");
      wish.uses = row.at("uses");
      wishes_.push_back(std::move(wish));
    } catch (const Json::exception&) {
      continue;
    }
  }
}

std::string Wishes::bytes() const {
  Json rows = Json::array();
  for (const Wish& wish : wishes_) {
    rows.push_back({{"tenant", wish.tenant},
                    {"graph_hash", wish.key.graph_hash.hex()},
                    {"target", wish.key.target.name},
                    {"policy", wish.key.policy},
                    {"epoch", wish.key.epoch},
                    {"machine", wish.machine},
                    {"uses", wish.uses}});
  }
  return rows.dump(-1, ' ', true, Json::error_handler_t::replace);
}

const Wish* Wishes::find(const Digest& place) const {
  auto found = std::find_if(wishes_.begin(), wishes_.end(),
                            [&](const Wish& wish) { return wish.place() == place; });
  return found == wishes_.end() ? nullptr : &*found;
}

void Wishes::add(Wish wish) {
  is_changed_ = true;
  auto known = std::find_if(wishes_.begin(), wishes_.end(), [&](const Wish& other) {
    return other.tenant == wish.tenant && other.key == wish.key && other.machine == wish.machine;
  });
  if (known != wishes_.end()) {
    ++known->uses;
    return;
  }
  if (wishes_.size() >= kWishesMax) {
    wishes_.erase(std::min_element(wishes_.begin(), wishes_.end(),
                                   [](const Wish& a, const Wish& b) { return a.uses < b.uses; }));
  }
  wish.uses = 1;
  wishes_.push_back(std::move(wish));
}

void Wishes::remove(const Digest& place) {
  is_changed_ =
      std::erase_if(wishes_, [&](const Wish& wish) { return wish.place() == place; }) != 0 ||
      is_changed_;
}

void Wishes::rest(const Digest& place, int64_t until_ns) {
  for (Wish& wish : wishes_) {
    if (wish.place() == place) wish.rests_ns = until_ns;
  }
}

const Wish* Wishes::next(int64_t now_ns, const std::function<bool(const Wish&)>& can_run) const {
  const Wish* best = nullptr;
  for (const Wish& wish : wishes_) {
    if (wish.rests_ns > now_ns || !can_run(wish)) continue;
    if (best == nullptr || wish.uses > best->uses) best = &wish;
  }
  return best;
}

bool Wishes::take_changed() { return std::exchange(is_changed_, false); }

}  // namespace coordinator::service
