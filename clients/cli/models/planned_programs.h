// A language model's programs with their plans, which share weights and state: what `lfarm
// generate` runs.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "clients/cli/access/plan_source.h"
#include "clients/generate/equal_weights.h"
#include "clients/generate/generator.h"
#include "clients/generate/programs.h"
#include "clients/generate/shared_state.h"
#include "clients/runtime/farm/state_directory.h"
#include "common/base/result.h"

namespace clients {

// Outlives the programs that it gave. One thread at a time.
class PlannedPrograms {
 public:
  PlannedPrograms(const FarmOptions& farm, const BudgetOptions& budget, Progress* progress);
  ~PlannedPrograms();
  PlannedPrograms(const PlannedPrograms&) = delete;
  PlannedPrograms& operator=(const PlannedPrograms&) = delete;

  // The programs of a case: model.pt2, or prompt.pt2 and decode.pt2 of one model. Plans are looked
  // for once `check` has passed the roles of all. With BudgetOptions::takes_first and a model that
  // keeps its tokens the program for single tokens comes with its plan, and the others become ready
  // (GeneratorProgram::is_ready) as a thread obtains theirs.
  common::Result<std::vector<GeneratorProgram>> load(
      const std::string& model, int threads,
      const std::function<common::Status(const Roles&)>& check);

 private:
  struct Part {
    WidthPart model;
    size_t family = 0;  // the archive that it is of
    std::shared_future<common::Result<CompiledPlan>> plan;
    std::optional<size_t> instance;  // in state_
  };
  common::Status load_families(const std::string& model,
                               const std::function<common::Status(const Roles&)>& check);
  void obtain_later(size_t first);
  // Of the archive, sharing what it can with those of the first.
  common::Result<std::shared_ptr<Weights>> weights_of(size_t family);
  common::Status run(Part& part, std::span<const common::TensorRef> inputs,
                     common::RunOutputs& outputs);

  const bool takes_first_;
  Progress* progress_;
  PlanSource source_;
  const StateDirectory state_directory_;
  const PreparedStore prepared_;
  const std::string device_name_;
  std::unique_ptr<common::Device> device_;
  std::string name_;  // of the model, for the farm
  struct Family {
    std::shared_ptr<const Model> model;
    std::shared_ptr<Weights> weights;             // null until they are needed
    std::future<std::vector<EqualWeight>> equal;  // to those of the first; none of the first
  };
  std::vector<Family> families_;
  std::vector<Part> parts_;
  SharedState state_;
  std::atomic<bool> is_over_ = false;
  std::thread later_;  // obtains plans
};

}  // namespace clients
