// Plans that were asked for on a machine class for which there is none yet: whoever asked got a
// neighbour's plan, and the farm searches once a worker of the class is there. Kept over restarts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cache/store/store.h"
#include "common/plan/plan.h"
#include "common/plan/seal.h"

namespace coordinator::service {

struct Wish {
  std::string tenant;
  common::PlanKey key;
  std::string machine;
  uint64_t uses = 0;     // times that it was asked for
  int64_t rests_ns = 0;  // after a failed search, until then; not kept
  common::Digest place() const { return common::place_of(tenant, key.digest(), machine); }
  friend bool operator==(const Wish&, const Wish&) = default;
};

// Not thread-safe.
class Wishes {
 public:
  static constexpr const char* kRecord = "coordinator/wishes";  // in the store
  static constexpr size_t kWishesMax = 256;

  // Damaged bytes hold no wish: whoever asks again wishes again.
  void read(const std::string& bytes);
  std::string bytes() const;

  // Counts one use more of what is wished for already. Where there is no room, the least used
  // wish is forgotten.
  void add(Wish wish);
  void remove(const common::Digest& place);
  // Puts off the wish after a search for it that came to nothing.
  void rest(const common::Digest& place, int64_t until_ns);
  // Null when there is no such wish.
  const Wish* find(const common::Digest& place) const;
  // The most used that is not put off and for which `can_run`; null when there is none.
  const Wish* next(int64_t now_ns, const std::function<bool(const Wish&)>& can_run) const;
  size_t size() const { return wishes_.size(); }
  // Whether bytes() has changed since the last call.
  bool take_changed();

 private:
  std::vector<Wish> wishes_;
  bool is_changed_ = false;
};

}  // namespace coordinator::service
