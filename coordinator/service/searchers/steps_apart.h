// One job's search in a searcher's process. When the searcher is lost, hangs or breaks the
// protocol, the search begins anew at another one, or in this process where there is none, with all
// results that it was told: it proposes the same again, of which the farm has the results or awaits
// them, and comes to the same plan.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/service/searchers/search_beginning.h"
#include "coordinator/service/searchers/searcher_hub.h"

namespace coordinator::service {

class StepsApart final : public SearchSteps {
 public:
  // Blocks while the searcher prepares the search, as advance() does while it takes a step. Errors
  // as begin_inside(); kUnavailable when the hub is closed, or too many searchers were lost.
  static common::Result<std::shared_ptr<SearchSteps>> begin(SearcherHub& hub,
                                                            std::unique_ptr<Seat> seat,
                                                            SearchBeginning beginning,
                                                            const SearcherOptions& options);

  common::Result<StepResult> advance(StepRequest request) override;
  const std::vector<StageTime>& preparation() const override { return opened_.preparation; }
  SearchStatus status() const override { return opened_.status; }
  bool is_apart() const override { return true; }

 private:
  // What the farm and the search have told one another so far.
  struct Course {
    uint64_t next_id = 0;                     // behind all candidates that were handed out
    std::map<uint64_t, ResultKey> under_way;  // handed out, without a result
    std::map<uint64_t, std::pair<ResultKey, std::string>> results;  // result_record()
    std::set<uint64_t> interim;  // candidates whose plans were handed out
  };

  StepsApart(SearcherHub& hub, std::unique_ptr<Seat> seat, SearchBeginning beginning,
             const SearcherOptions& options);
  common::Status open();
  common::Status open_at_seat();
  common::Status open_inside();
  common::Status go_on_elsewhere(common::Error why);
  common::Result<StepResult> take_step(StepRequest request);
  common::Result<StepResult> step_at_seat(const StepRequest& request);
  common::Result<Seat::Received> reply(int64_t wait_ms);
  common::Status step_and_filter(StepRequest request, size_t wanted, StepResult& all);
  common::Status keep_new(StepResult& from, StepResult& into, StepRequest& again);
  OpenSearch journal() const;

  SearcherHub& hub_;
  std::unique_ptr<Seat> seat_;           // null: the search is inside
  std::shared_ptr<SearchSteps> inside_;  // or null
  SearchBeginning beginning_;
  const SearcherOptions options_;
  SearchOpened opened_;  // its status is the last step's
  KnownGraphs graphs_;
  Course course_;
  int losses_ = 0;
};

}  // namespace coordinator::service
