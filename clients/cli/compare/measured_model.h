// A model that is measured beside other runtimes: its file and inputs, and lfarm's plan for it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "clients/cli/access/farm_options.h"
#include "clients/cli/models/case.h"
#include "clients/peers/peer_process.h"
#include "clients/pt2/translate.h"
#include "clients/runtime/farm/pulled_plan.h"
#include "clients/runtime/model/plan_instance.h"
#include "clients/score/model_work.h"
#include "common/base/result.h"
#include "common/runtime/device/device.h"

namespace clients {

struct MeasuredModel {
  std::string name;    // of its folder or file
  std::string file;    // the archive
  std::string folder;  // of the case; empty: a file alone
  std::string dtype;   // its least precise float: "f32", "bf16"
  std::shared_ptr<const Model> model;
  std::vector<common::HostTensor> inputs;  // one an input of the user's
  Tolerance tolerance;
  ModelWork work;
};

// A case's folder (clients/cli/models/case.h) or a .pt2 file alone: inputs are then synthetic, of
// the sizes that searches measure with, and the tolerance is that of its type.
common::Result<MeasuredModel> open_model(const std::string& path);

// As peers take them: tensors alone, in order.
std::vector<PeerArray> arrays_of(const MeasuredModel& model);
// What a peer's first call gave, one entry an output of the model that is a tensor. kVerification
// when number or types are others.
common::Result<std::vector<common::HostTensor>> outputs_of(const MeasuredModel& model,
                                                           const PeerModel& peer);
// What PyTorch gave for a case, of its folder. kUnavailable for a file alone, whose inputs are made
// up.
common::Result<std::vector<common::HostTensor>> stored_outputs(const MeasuredModel& model);
// kVerification naming the output and the greatest difference.
common::Status compare(const MeasuredModel& model, const std::vector<common::HostTensor>& actual,
                       const std::vector<common::HostTensor>& expected);

// The plan that lfarm has, or makes, for the model on this machine's processor.
common::Result<PulledPlan> plan_for(const MeasuredModel& model, const FarmOptions& farm,
                                    const BudgetOptions& budget);

// Runs the plan in this process. Not thread-safe.
class LfarmSide {
 public:
  static common::Result<LfarmSide> open(const MeasuredModel& model, const PulledPlan& plan,
                                        int threads);
  // The outputs that are tensors of the first call on a fresh instance. Once, before run().
  common::Result<std::vector<common::HostTensor>> first_call();
  // Calls it once more, and then `calls` times: microseconds of each of these.
  common::Result<std::vector<double>> run(int calls);

 private:
  LfarmSide(const MeasuredModel& model, std::unique_ptr<common::Device> device)
      : model_(&model), device_(std::move(device)) {}
  const MeasuredModel* model_;
  std::unique_ptr<common::Device> device_;
  std::unique_ptr<PlanInstance> instance_;
  std::vector<common::TensorRef> refs_;
  common::RunOutputs outputs_;
};

}  // namespace clients
