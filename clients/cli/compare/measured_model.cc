#include "clients/cli/compare/measured_model.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "clients/cli/access/plan_source.h"
#include "clients/cli/models/npy.h"
#include "clients/runtime/model/weights.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/ir/hlir/sizes.h"
#include "common/runtime/device/devices.h"
#include "common/runtime/tensor/compare.h"
#include "common/runtime/tensor/synthetic.h"

namespace clients {

using common::cat;
using common::HostTensor;
using common::Result;
using common::Status;

namespace {

constexpr Tolerance kTolerance{1e-3, 1e-3};
constexpr Tolerance kHalfTolerance{5e-2, 5e-2};

size_t at(int index) { return static_cast<size_t>(index); }

// What the case's meta.json says, where it does.
Tolerance tolerance_of(const std::string& folder, const std::string& dtype) {
  Tolerance usual = dtype == "f32" || dtype == "f64" ? kTolerance : kHalfTolerance;
  if (folder.empty()) return usual;
  auto text = common::read_file(folder + "/meta.json");
  if (!text.ok()) return usual;
  auto json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_object() || !json.contains("tolerance") || !json["tolerance"].is_object()) {
    return usual;
  }
  return {json["tolerance"].value("rtol", usual.rtol), json["tolerance"].value("atol", usual.atol)};
}

Result<std::vector<HostTensor>> synthetic_inputs_of(const Model& model) {
  std::vector<int64_t> sizes = common::representative_sizes(model.graph.symbols);
  LFARM_ASSIGN_OR_RETURN(
      auto all, common::synthetic_inputs(model.graph, sizes, 0, common::InputPattern::kNormal));
  std::vector<HostTensor> inputs;
  for (int position : model.user_inputs) {
    inputs.push_back(position < 0 ? HostTensor() : all[at(position)]);
  }
  return inputs;
}

// "bfloat16" is what .npy files cannot say themselves.
std::string torch_dtype(common::DType dtype) {
  return dtype == common::DType::kBfloat16 ? "bfloat16" : std::string(common::dtype_name(dtype));
}

}  // namespace

Result<MeasuredModel> open_model(const std::string& path) {
  MeasuredModel measured;
  std::error_code ignored;
  bool is_folder = std::filesystem::is_directory(path, ignored);
  if (is_folder) measured.folder = path;
  measured.file = is_folder ? path + "/model.pt2" : path;
  measured.name = model_name(measured.file);
  LFARM_ASSIGN_OR_RETURN(Model loaded, load_model(measured.file));
  measured.model = std::make_shared<const Model>(std::move(loaded));
  measured.dtype = common::dtype_name(common::narrowest_float(measured.model->graph));
  if (is_folder) {
    LFARM_ASSIGN_OR_RETURN(measured.inputs, read_inputs(*measured.model, path + "/inputs"));
  } else {
    LFARM_ASSIGN_OR_RETURN(measured.inputs, synthetic_inputs_of(*measured.model));
  }
  LFARM_RETURN_IF_ERROR(check_user_inputs(*measured.model, measured.inputs));
  std::vector<common::TensorRef> refs;
  for (const HostTensor& input : measured.inputs) refs.push_back(common::ref_of(input));
  LFARM_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, symbols_of(*measured.model, refs));
  measured.work = work_of(measured.model->graph, sizes);
  measured.tolerance = tolerance_of(measured.folder, measured.dtype);
  return measured;
}

std::vector<PeerArray> arrays_of(const MeasuredModel& model) {
  std::vector<PeerArray> arrays;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    if (model.model->user_inputs[i] < 0) continue;
    arrays.push_back({torch_dtype(model.inputs[i].dtype()),
                      npy_from_tensor(model.inputs[i], model.model->user_input_is_complex[i])});
  }
  return arrays;
}

Result<std::vector<HostTensor>> outputs_of(const MeasuredModel& model, const PeerModel& peer) {
  std::vector<HostTensor> outputs;
  for (const UserOutput& output : model.model->user_outputs) {
    if (output.graph_output < 0) continue;
    const common::Graph& graph = model.model->graph;
    const common::Node& node = graph.node(graph.outputs[at(output.graph_output)].node);
    if (outputs.size() == peer.outputs.size()) break;
    const common::Bytes& file = peer.outputs[outputs.size()].npy;
    auto array = parse_npy(file);
    if (!array.ok()) return array.error();
    LFARM_ASSIGN_OR_RETURN(HostTensor tensor, tensor_from_npy(*array, node.dtype, output.complex));
    outputs.push_back(std::move(tensor));
  }
  if (outputs.size() != peer.outputs.size()) {
    return common::Error{common::Code::kVerification,
                         cat("gives ", peer.outputs.size(), " outputs")};
  }
  return outputs;
}

Result<std::vector<HostTensor>> stored_outputs(const MeasuredModel& model) {
  PeerModel stored;
  for (size_t k = 0; !model.folder.empty(); ++k) {
    std::string file = cat(model.folder, "/outputs/", k, ".npy");
    if (!common::file_exists(file)) break;
    LFARM_ASSIGN_OR_RETURN(std::string bytes, common::read_file(file));
    stored.outputs.push_back({"", common::to_bytes(common::as_bytes(bytes))});
  }
  if (stored.outputs.empty()) return common::unavailable("no outputs of PyTorch to compare with");
  return outputs_of(model, stored);
}

Status compare(const MeasuredModel& model, const std::vector<HostTensor>& actual,
               const std::vector<HostTensor>& expected) {
  auto differs = [](std::string what) {
    return common::Error{common::Code::kVerification, std::move(what)};
  };
  size_t k = 0;
  for (const UserOutput& output : model.model->user_outputs) {
    if (output.graph_output < 0) continue;
    if (k >= actual.size() || k >= expected.size())
      return differs(cat("output ", k, " is missing"));
    auto what = output.order
                    ? order_difference(actual[k], expected[k],
                                       model.inputs[output.order->user_input], output.order->axis)
                    : difference(actual[k], expected[k], model.tolerance);
    if (what) return differs(cat("output ", k, ": ", *what));
    ++k;
  }
  return {};
}

Result<PulledPlan> plan_for(const MeasuredModel& model, const FarmOptions& farm,
                            const BudgetOptions& budget) {
  Progress progress(false);
  PlanSource source(farm, budget, &progress, PlanSource::Disk::kUse);
  auto plan = source.obtain(model.model->graph, model.name);
  progress.clear();
  if (!plan.ok()) return plan.error();
  return std::move(plan->pulled);
}

Result<LfarmSide> LfarmSide::open(const MeasuredModel& model, const PulledPlan& plan, int threads) {
  LFARM_ASSIGN_OR_RETURN(auto device, common::open_device("cpu", threads));
  LfarmSide side(model, std::move(device));
  auto weights = std::make_shared<Weights>(model.model, side.device_.get());
  LFARM_ASSIGN_OR_RETURN(side.instance_,
                         PlanInstance::make(model.model, std::move(weights), plan.plan,
                                            plan.object_source(), *side.device_, nullptr));
  for (const HostTensor& input : model.inputs) side.refs_.push_back(common::ref_of(input));
  return side;
}

Result<std::vector<HostTensor>> LfarmSide::first_call() {
  LFARM_ASSIGN_OR_RETURN(CallResult result, instance_->call(model_->inputs));
  std::vector<HostTensor> outputs;
  for (std::optional<HostTensor>& output : result.outputs) {
    if (output) outputs.push_back(std::move(*output));
  }
  return outputs;
}

Result<std::vector<double>> LfarmSide::run(int calls) {
  common::SteadyClock clock;
  std::vector<double> times;
  LFARM_RETURN_IF_ERROR(instance_->run(refs_, outputs_, nullptr));
  for (int k = 0; k < calls; ++k) {
    int64_t start = clock.now_ns();
    LFARM_RETURN_IF_ERROR(instance_->run(refs_, outputs_, nullptr));
    times.push_back(static_cast<double>(clock.now_ns() - start) / 1e3);
  }
  return times;
}

}  // namespace clients
