// lfarm plan verify: says of a plan what holds and what does not.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "clients/cli/access/plan_cache.h"
#include "clients/cli/access/plan_source.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/cli/plans/find_plan.h"
#include "clients/cli/plans/plan_file.h"
#include "clients/cli/plans/plan_trial.h"
#include "clients/pt2/translate.h"
#include "clients/runtime/farm/revocations.h"
#include "clients/runtime/model/instance.h"
#include "common/base/cat.h"
#include "common/runtime/device/devices.h"
#include "common/wire/ir_codec.h"

namespace clients {
namespace {

using common::cat;
using common::Result;
using common::Status;

struct VerifyOptions {
  FarmOptions farm;
  std::string what;
  std::string model;
  common::PlanPolicy policy;
};

// One line each on standard output; remembers whether all held.
class Report {
 public:
  // Returns whether it holds.
  bool add(const std::string& about, const std::string& what, const Status& status,
           const std::string& detail = "") {
    std::string rest = status.ok() ? detail : status.error().message;
    std::printf("%-6s  %s: %s%s%s\n", status.ok() ? "ok" : "FAILED", about.c_str(), what.c_str(),
                rest.empty() ? "" : ": ", rest.c_str());
    failed_ += status.ok() ? 0 : 1;
    return status.ok();
  }
  int failed() const { return failed_; }

 private:
  int failed_ = 0;
};

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Models are ZIP archives.
bool is_model(const std::string& path) {
  char magic[2] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  return magic[0] == 'P' && magic[1] == 'K';
}

// Whether the plan computes what the model says.
Status try_with_model(const VerifyOptions& options, const Model& model, const PulledPlan& plan,
                      Report& report) {
  std::string about = cat("plan ", plan.id.short_hex());
  common::PlanKey key =
      common::plan_key_of(model.graph, plan.plan.key.target, plan.plan.key.policy);
  Status same =
      key.graph_hash == plan.plan.key.graph_hash
          ? Status()
          : common::invalid_input(cat("the model's graph is ", key.graph_hash.short_hex(),
                                      ", the plan's is ", plan.plan.key.graph_hash.short_hex()));
  if (!report.add(about, "model", same)) return {};
  LFARM_ASSIGN_OR_RETURN(auto device, common::open_device(options.farm.device, default_threads()));
  Status here = device->target() == plan.plan.key.target
                    ? Status()
                    : common::invalid_input(cat("it is for ", plan.plan.key.target.name,
                                                ", this machine is ", device->target().name));
  if (!report.add(about, "device", here)) return {};
  auto tried = try_plan(plan, model.graph, *device);
  report.add(about, "outputs against the reference", tried.ok() ? Status() : Status(tried.error()),
             tried.ok() ? *tried : "");
  return {};
}

Status objects_hold(const PulledPlan& plan) {
  for (const common::Digest& object : plan.plan.objects) {
    auto found = plan.objects.find(object);
    if (found == plan.objects.end() || common::digest_of(found->second.bytes) != object) {
      return common::corrupt(cat("object ", object.short_hex(), " is missing or damaged"));
    }
  }
  return {};
}

// ---- Files -------------------------------------------------------------------------------------

Status verify_file(const VerifyOptions& options, const std::optional<Model>& model,
                   Report& report) {
  auto archive = PlanArchive::open(options.what);
  if (!report.add(options.what, "file", archive.ok() ? Status() : Status(archive.error()))) {
    return {};
  }
  Revocations revocations(StateDirectory{options.farm.state}.revocations());
  PlanFile file =
      examine(*archive, signers_trusted_here(options.farm),
              [&](const common::PublicKey& signer) { return revocations.known(signer); });
  for (const Finding& finding : file.findings) {
    report.add(finding.about, finding.what, finding.status);
  }
  // What does not hold is not run.
  if (!model || report.failed() > 0) return {};
  common::Digest graph = common::plan_key_of(model->graph, {}, "").graph_hash;
  size_t tried = 0;
  for (const FiledPlan& plan : file.plans) {
    if (file.plans.size() > 1 && plan.plan.key.graph_hash != graph) continue;
    ++tried;
    LFARM_ASSIGN_OR_RETURN(PulledPlan pulled, read_plan(*archive, plan));
    LFARM_RETURN_IF_ERROR(try_with_model(options, *model, pulled, report));
  }
  if (tried == 0) {
    report.add(options.what, "model",
               common::invalid_input("no plan of the file is for its graph"));
  }
  return {};
}

// ---- Plans of a cache or a farm ----------------------------------------------------------------

Result<PulledPlan> plan_of_model(const VerifyOptions& options, const Model& model) {
  LFARM_ASSIGN_OR_RETURN(common::Target target, target_of(options.farm));
  common::PlanKey key = common::plan_key_of(model.graph, target, options.policy.text());
  std::optional<PulledPlan> found;
  if (options.farm.farm.empty()) {
    LFARM_ASSIGN_OR_RETURN(auto cache, PlanCache::open({options.farm.state}));
    LFARM_ASSIGN_OR_RETURN(found, cache->find(key, machine_of(options.farm)));
  } else {
    LFARM_ASSIGN_OR_RETURN(auto farm, connect_to_farm(options.farm));
    key.epoch = farm->compiler_epoch();
    LFARM_ASSIGN_OR_RETURN(found, farm->pull(key, machine_of(options.farm)));
  }
  if (!found) return not_cached(options.what);
  return std::move(*found);
}

// The farm's plan, checked on its way.
Result<PulledPlan> plan_of_id_with_objects(const VerifyOptions& options) {
  if (options.farm.farm.empty()) {
    LFARM_ASSIGN_OR_RETURN(auto cache, PlanCache::open({options.farm.state}));
    LFARM_ASSIGN_OR_RETURN(cache::PlanListing listing, listing_of_id(*cache, options.what));
    LFARM_ASSIGN_OR_RETURN(common::Plan plan, cache->read(listing));
    LFARM_ASSIGN_OR_RETURN(auto found, cache->find(plan.key, plan.provenance.machine));
    if (!found) return not_cached(options.what);
    return std::move(*found);
  }
  LFARM_ASSIGN_OR_RETURN(auto farm, connect_to_farm(options.farm));
  LFARM_ASSIGN_OR_RETURN(common::Digest id, id_at_farm(*farm, options.what));
  LFARM_ASSIGN_OR_RETURN(auto blob, farm->blob(id));
  if (!blob) return not_cached(options.what);
  LFARM_ASSIGN_OR_RETURN(PlanTrust trust, farm->trust());
  PulledPlan out;
  LFARM_ASSIGN_OR_RETURN(out.plan, open_signed_plan(blob->bytes, trust));
  out.id = id;
  LFARM_ASSIGN_OR_RETURN(out.objects, farm->blobs(out.plan.objects));
  return out;
}

Status verify_kept(const VerifyOptions& options, const std::optional<Model>& model,
                   Report& report) {
  auto plan = model && options.model.empty() ? plan_of_model(options, *model)
                                             : plan_of_id_with_objects(options);
  if (!plan.ok() && plan.error().code != common::Code::kVerification &&
      plan.error().code != common::Code::kCorrupt) {
    return plan.error();
  }
  Status opened = plan.ok() ? Status() : Status(plan.error());
  if (!report.add(options.what, "signature, tenant and content", opened)) return {};
  bool holds = report.add(cat("plan ", plan->id.short_hex()), "objects", objects_hold(*plan));
  if (!model || !holds) return {};
  return try_with_model(options, *model, *plan, report);
}

Status verify(const VerifyOptions& options) {
  bool is_file_of_plans = is_file(options.what) && !is_model(options.what);
  std::optional<Model> model;
  std::string model_path = options.model;
  if (model_path.empty() && is_file(options.what) && !is_file_of_plans) model_path = options.what;
  if (!model_path.empty()) {
    LFARM_ASSIGN_OR_RETURN(model, load_model(model_path));
  }
  Report report;
  LFARM_RETURN_IF_ERROR(is_file_of_plans ? verify_file(options, model, report)
                                         : verify_kept(options, model, report));
  if (report.failed() == 0) return {};
  return common::Error{common::Code::kVerification,
                       cat(report.failed(), " of what was checked about ", options.what,
                           report.failed() == 1 ? " does not hold" : " do not hold")};
}

}  // namespace

void declare_plan_verify(CommandLine* line) {
  auto options = std::make_shared<VerifyOptions>();
  Command command = line->add(
      "plan verify",
      "Says of a file of plans, or of a plan of the cache or a farm, what holds and what does "
      "not:\n"
      "signature, signer, digests, revocation. With a model the plan also runs on random inputs\n"
      "beside the reference interpreter. Exits with 5 when anything does not hold.",
      [options] { return exit_code_of(verify(*options)); });
  command
      .value("plan", &options->what, "FILE|ID|MODEL.pt2",
             "A file of 'lfarm plan export', the plan's or the graph's id, or a model")
      .required();
  command.value("model", &options->model, "MODEL.pt2", "The model that it is to compute");
  add_policy_options(&command, &options->policy);
  add_device_option(&command, &options->farm);
  add_farm_options(&command, &options->farm);
}

}  // namespace clients
