#include "clients/cli/models/planned_programs.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "common/base/cat.h"
#include "common/runtime/device/devices.h"

namespace clients {

using common::cat;
using common::Result;
using common::Status;

namespace {

std::vector<std::string> archives_of(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return {path};
  std::vector<std::string> found;
  for (const char* name : {"decode.pt2", "prompt.pt2"}) {
    std::string file = cat(path, "/", name);
    if (std::filesystem::exists(file)) found.push_back(file);
  }
  if (found.empty()) found.push_back(cat(path, "/model.pt2"));
  return found;
}

}  // namespace

PlannedPrograms::PlannedPrograms(const FarmOptions& farm, const BudgetOptions& budget,
                                 Progress* progress)
    : takes_first_(budget.takes_first),
      progress_(progress),
      source_(farm, budget, progress, PlanSource::Disk::kUse),
      state_directory_{farm.state},
      prepared_({.directory = state_directory_.prepared_weights()}),
      device_name_(farm.device) {}

PlannedPrograms::~PlannedPrograms() {
  is_over_ = true;
  if (later_.joinable()) later_.join();
  state_.finish_keeping();
}

Status PlannedPrograms::load_families(const std::string& model,
                                      const std::function<Status(const Roles&)>& check) {
  std::vector<std::future<Result<Model>>> archives;
  for (const std::string& archive : archives_of(model)) {
    archives.push_back(std::async(std::launch::async, load_model, archive));
  }
  for (std::future<Result<Model>>& archive : archives) {
    LFARM_ASSIGN_OR_RETURN(Model loaded, archive.get());
    families_.push_back({std::make_shared<const Model>(std::move(loaded)), nullptr, {}});
    LFARM_ASSIGN_OR_RETURN(Roles roles, roles_of(*families_.back().model));
    LFARM_RETURN_IF_ERROR(check(roles));
  }
  for (size_t family = 0; family < families_.size(); ++family) {
    LFARM_ASSIGN_OR_RETURN(std::vector<WidthPart> parts, parts_of(families_[family].model));
    for (WidthPart& part : parts) parts_.push_back({std::move(part), family, {}, {}});
    if (family == 0) continue;
    std::optional<RememberedComparison> remembered;
    const auto &first = families_[0].model->identity, &other = families_[family].model->identity;
    if (first && other) remembered = {state_directory_.compared_weights(), *first, *other};
    // Gigabytes that were not compared before are while plans are made.
    families_[family].equal =
        std::async(std::launch::async,
                   [first = families_[0].model, other = families_[family].model, remembered] {
                     return remembered ? equal_weights(*first, *other, *remembered)
                                       : equal_weights(*first, *other);
                   });
  }
  return {};
}

Result<std::shared_ptr<Weights>> PlannedPrograms::weights_of(size_t family) {
  Family& of = families_[family];
  if (of.weights) return of.weights;
  auto made = std::make_shared<Weights>(of.model, device_.get());
  if (family > 0) {
    LFARM_ASSIGN_OR_RETURN(std::shared_ptr<Weights> first, weights_of(0));
    LFARM_RETURN_IF_ERROR(share_weights(of.equal.get(), first, *made));
  }
  of.weights = std::move(made);
  return of.weights;
}

// Plans of the parts from `first` on, one after the other: together they would keep each other's
// searches from the workers.
void PlannedPrograms::obtain_later(size_t first) {
  std::vector<std::promise<Result<CompiledPlan>>> plans(parts_.size() - first);
  for (size_t k = 0; k < plans.size(); ++k) parts_[first + k].plan = plans[k].get_future().share();
  std::vector<std::shared_ptr<const Model>> models;
  for (size_t k = first; k < parts_.size(); ++k) models.push_back(parts_[k].model.model);
  later_ = std::thread([this, plans = std::move(plans), models = std::move(models)]() mutable {
    Progress silent = Progress::none();
    auto source = source_.beside(&silent, [this]() -> Status {
      if (is_over_) return common::internal_error("the tokens are generated");
      return {};
    });
    for (size_t k = 0; k < plans.size(); ++k) {
      plans[k].set_value(source->obtain(models[k]->graph, name_));
    }
  });
}

Status PlannedPrograms::run(Part& part, std::span<const common::TensorRef> inputs,
                            common::RunOutputs& outputs) {
  if (!part.instance) {
    const Result<CompiledPlan>& plan = part.plan.get();
    if (!plan.ok()) return plan.error();
    LFARM_ASSIGN_OR_RETURN(std::shared_ptr<Weights> weights, weights_of(part.family));
    LFARM_ASSIGN_OR_RETURN(auto made,
                           PlanInstance::make(part.model.model, weights, plan->pulled.plan,
                                              plan->pulled.object_source(), *device_, &prepared_));
    part.instance = state_.add(std::move(made), part.model.model, part.family);
  }
  LFARM_ASSIGN_OR_RETURN(PlanInstance * used, state_.use(*part.instance));
  return used->run(inputs, outputs, nullptr);
}

Result<std::vector<GeneratorProgram>> PlannedPrograms::load(
    const std::string& model, int threads, const std::function<Status(const Roles&)>& check) {
  name_ = model_name(model);
  LFARM_ASSIGN_OR_RETURN(device_, common::open_device(device_name_, threads));
  LFARM_RETURN_IF_ERROR(load_families(model, check));
  const Roles& first = parts_[0].model.roles;
  size_t at_once = takes_first_ && first.has_cache && first.width_least <= 1 ? 1 : parts_.size();
  for (size_t k = 0; k < at_once; ++k) {
    std::promise<Result<CompiledPlan>> plan;
    parts_[k].plan = plan.get_future().share();
    plan.set_value(source_.obtain(parts_[k].model.model->graph, name_));
    progress_->clear();
    if (const auto& found = parts_[k].plan.get(); !found.ok()) return found.error();
  }
  if (at_once < parts_.size()) obtain_later(at_once);
  std::vector<GeneratorProgram> programs;
  for (Part& part : parts_) {
    programs.push_back(
        {part.model.model, part.model.roles,
         [this, &part](std::span<const common::TensorRef> inputs, common::RunOutputs& outputs) {
           return run(part, inputs, outputs);
         },
         [&part] {
           bool is_known = part.plan.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
           return is_known && part.plan.get().ok();
         }});
  }
  return programs;
}

}  // namespace clients
