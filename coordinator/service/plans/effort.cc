#include "coordinator/service/plans/effort.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/cat.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Result;
using common::Status;

namespace {

// Efforts that are remembered for one place; the latest stay.
constexpr size_t kEffortsMax = 16;

// Lines of "CANDIDATES MS SEED", the oldest first.
std::string effort_name(const Digest& place) { return cat("effort/", place.hex()); }

Result<std::vector<Effort>> efforts_at(cache::Store& store, const Digest& place) {
  LFARM_ASSIGN_OR_RETURN(auto record, store.get_named(effort_name(place)));
  std::vector<Effort> all;
  std::istringstream words(record.value_or(""));
  for (Effort one; words >> one.candidates >> one.ms >> one.seed;) all.push_back(one);
  return all;
}

}  // namespace

bool covers(const Effort& spent, const Effort& asked) {
  auto reaches = [](uint64_t limit, uint64_t wanted) {
    return limit == 0 || (wanted != 0 && limit >= wanted);
  };
  return spent.seed == asked.seed && reaches(spent.candidates, asked.candidates) &&
         reaches(spent.ms, asked.ms);
}

Effort effort_of(const common::Provenance& provenance) {
  auto count = [](int64_t number) { return number > 0 ? static_cast<uint64_t>(number) : 0; };
  Effort spent{count(provenance.search.budget_candidates), count(provenance.search.budget_ms),
               provenance.search.seed};
  if (spent.candidates != 0 || spent.ms != 0) return spent;
  // Never without any limit: a plan that says nothing covers one candidate.
  spent.candidates = std::max<uint64_t>(1, count(provenance.search.candidates));
  return spent;
}

Status note_effort(cache::Store& store, const Digest& place, const Effort& spent) {
  LFARM_ASSIGN_OR_RETURN(std::vector<Effort> all, efforts_at(store, place));
  std::erase_if(all, [&](const Effort& known) { return covers(spent, known); });
  all.push_back(spent);
  std::string lines;
  for (size_t k = all.size() > kEffortsMax ? all.size() - kEffortsMax : 0; k < all.size(); ++k) {
    lines += cat(all[k].candidates, ' ', all[k].ms, ' ', all[k].seed, '\n');
  }
  return store.put_named(effort_name(place), lines);
}

Result<bool> has_covering_effort(cache::Store& store, const Digest& place, const Effort& asked) {
  LFARM_ASSIGN_OR_RETURN(std::vector<Effort> all, efforts_at(store, place));
  return std::any_of(all.begin(), all.end(),
                     [&](const Effort& spent) { return covers(spent, asked); });
}

}  // namespace coordinator::service
