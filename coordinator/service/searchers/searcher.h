// A searcher: a process that searches for a coordinator, which keeps the jobs, their journals and
// the workers. It keeps nothing: what it knows of a search is lost with it, and found again
// elsewhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/wire/security.h"
#include "coordinator/service/loop/options.h"

namespace coordinator::service {

struct SearcherSetup {
  std::string coordinator;  // endpoint where it takes searchers
  std::optional<common::ClientKeys> keys;
  std::string name;
  uint32_t searches = 1;  // at a time
  SearchFactory create;
};

// How it goes, for another thread to read.
struct SearcherState {
  std::atomic<bool> has_joined{false};  // a coordinator has welcomed it, ever
  std::atomic<bool> is_joined{false};   // and has not gone since
  std::atomic<uint64_t> searches{0};
  std::atomic<int64_t> turned_ns{0};  // when its loop last turned, by the steady clock
};

// Serves until `ends` says so, asked some times a second. kInvalidInput when the endpoint or a key
// is malformed or may not search, kUnsupported when the coordinator is of another build.
common::Status run_searcher(const SearcherSetup& setup, SearcherState& state,
                            const std::function<bool()>& ends);

}  // namespace coordinator::service
