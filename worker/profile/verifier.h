// Verifies candidates: runs each on synthetic inputs and compares its outputs with the reference
// interpreter's.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/ir/hlir/graph.h"
#include "common/runtime/executor/executor.h"
#include "common/runtime/executor/resident_weights.h"
#include "common/runtime/tensor/compare.h"
#include "common/runtime/tensor/synthetic.h"
#include "common/wire/task.h"

namespace worker {

// Whether the graph's weights are the same memory, so that an executor that has the ones has the
// others: those that no symbol's size is in.
bool has_same_weights(const common::Graph& graph, const std::vector<common::HostTensor>& a,
                      const std::vector<common::HostTensor>& b);

struct Verdict {
  // Greatest over all cases, as OutputError in compare.h says.
  double max_error = 0;
};

// Keeps inputs and reference results, because many candidates of one graph are verified in a row.
// All cases of a graph share its weights, which are most of a model's inputs. Not thread-safe.
class Verifier {
 public:
  // `cache_bytes_max` bounds the inputs and references kept of a graph, without its weights, and
  // what is kept of all other graphs, weights included. A graph eight times as large, used lately,
  // does not count among those: it is the model that regions are of. The newest case always stays.
  explicit Verifier(size_t cache_bytes_max) : cache_bytes_max_(cache_bytes_max) {}

  // Called with true before code of the candidate runs and with false after it.
  void set_observer(std::function<void(bool candidate_runs)> observer) {
    observer_ = std::move(observer);
  }

  // Runs `executor` (loaded with guards) on every case that the options ask for. kVerification with
  // the case and what is wrong with the candidate; any other error is not the candidate's fault.
  // `digest` is the graph's name in the cache.
  common::Result<Verdict> verify(const common::Digest& digest, const common::Graph& graph,
                                 common::Executor& executor, const common::VerifyOptions& options);

  // Whether the last candidate was seen to write outside its buffers.
  bool memory_damaged() const { return memory_damaged_; }

  // Random inputs of these sizes, for measuring, with the weights of all cases.
  common::Result<std::vector<common::HostTensor>> inputs_at(const common::Digest& digest,
                                                            const common::Graph& graph,
                                                            const common::VerifyOptions& options,
                                                            const std::vector<int64_t>& sizes);
  // Gives an executor these inputs of inputs_at() and returns the user's. `kept`: it has the
  // weights.
  common::Result<std::vector<common::HostTensor>> bind(
      common::Executor& executor, const common::Digest& digest,
      const common::VerifyOptions& options, const std::vector<common::HostTensor>& inputs,
      bool kept);
  // Frees the weights on devices; called before a device is closed.
  void forget_residents();
  // Runs and compares the first case alone, on an executor with `bound` inputs, which keeps their
  // weights where the case has the same.
  common::Status check_first_case(const common::Digest& digest, const common::Graph& graph,
                                  common::Executor& executor, const common::VerifyOptions& options,
                                  const std::vector<common::HostTensor>& bound);

 private:
  struct Case;
  struct Reference;
  struct Family;

  std::vector<Case> cases(const common::VerifyOptions& options) const;
  static common::Digest key_of(const Case& which);
  // Whether the case's reference is known.
  bool is_known(const common::Digest& digest, const Case& which);
  using Families = std::list<std::shared_ptr<Family>>;
  Families::iterator find_family(const common::Digest& digest, uint64_t weight_seed);
  // The graph's, now the newest.
  Family& family_of(const common::Digest& digest, uint64_t weight_seed);
  common::Result<std::shared_ptr<Reference>> reference(const common::Digest& digest,
                                                       const common::Graph& graph,
                                                       const Case& which);
  common::Status check_cases(const common::Digest& digest, const common::Graph& graph,
                             common::Executor& executor, const common::VerifyOptions& options,
                             Verdict& verdict);
  // `kept`: the executor has the reference's weights, which are of `resident`.
  common::Status check_case(const common::Graph& graph, Reference& reference,
                            common::ResidentWeights& resident, bool kept,
                            common::Executor& executor, Verdict& verdict);
  // Executor::check_guards(); sets memory_damaged_ if it fails.
  common::Status check_guards(common::Executor& executor, common::Guards which);

  // Evicts other families until they fit into cache_bytes_max_, the least recently used first.
  void make_room_beside(const Family& family);

  size_t cache_bytes_max_;
  Families cache_;  // newest first
  uint64_t uses_ = 0;
  std::function<void(bool)> observer_;
  bool memory_damaged_ = false;
};

}  // namespace worker
