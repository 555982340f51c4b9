// lfarm plan export: plans as one file, for a machine that no farm can be reached from.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "clients/cli/access/plan_cache.h"
#include "clients/cli/access/plan_source.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/cli/plans/find_plan.h"
#include "clients/pt2/translate.h"
#include "clients/runtime/farm/farm_access.h"
#include "clients/runtime/farm/plan_archive.h"
#include "clients/runtime/farm/revocations.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/wire/ir_codec.h"

namespace clients {
namespace {

using common::cat;
using common::Digest;
using common::Result;
using common::Status;

struct ExportOptions {
  FarmOptions farm;
  std::vector<std::string> what;
  std::string file;
  common::PlanPolicy policy;  // of models' plans
  bool all = false;
};

Result<common::PlanKey> key_of_model(const ExportOptions& options, const std::string& path) {
  LFARM_ASSIGN_OR_RETURN(Model model, load_model(path));
  LFARM_ASSIGN_OR_RETURN(common::Target target, target_of(options.farm));
  return common::plan_key_of(model.graph, target, options.policy.text());
}

bool is_file(const std::string& what) {
  std::error_code ignored;
  return std::filesystem::exists(what, ignored);
}

Status add_list(PlanArchiveWriter& writer, const std::string& signed_list) {
  if (signed_list.empty()) return {};
  return writer.add(ArchivePartKind::kRevocations, common::as_bytes(signed_list));
}

// ---- From the state directory ------------------------------------------------------------------

Result<std::vector<Digest>> places_here(const ExportOptions& options, PlanCache& cache) {
  std::vector<Digest> places;
  if (options.all) {
    LFARM_RETURN_IF_ERROR(
        cache.store().for_each_plan([&](const cache::PlanListing& plan) -> Status {
          places.push_back(plan.facts.key);
          return {};
        }));
  }
  for (const std::string& what : options.what) {
    if (is_file(what)) {
      LFARM_ASSIGN_OR_RETURN(common::PlanKey key, key_of_model(options, what));
      LFARM_ASSIGN_OR_RETURN(auto plan, cache.find(key, machine_of(options.farm)));
      if (!plan) return not_cached(what);
      places.push_back(
          common::place_of(common::kLocalTenant, key.digest(), plan->plan.provenance.machine));
      continue;
    }
    LFARM_ASSIGN_OR_RETURN(cache::PlanListing listing, listing_of_id(cache, what));
    places.push_back(listing.facts.key);
  }
  return places;
}

// The directory's list of revocations, signed as its coordinator would.
Result<common::Sealed> sign_here(const StateDirectory& state, const common::RevocationList& list) {
  LFARM_ASSIGN_OR_RETURN(common::PublicKey authority, own_signing_key(state));
  if (!common::file_exists(state.signing_key())) {
    return common::unsupported(
        cat("the signing key of ", state.path,
            " is with the farm's signer; export from the farm while it runs (--farm)"));
  }
  LFARM_ASSIGN_OR_RETURN(common::SigningKey key,
                         common::load_or_create_signing_key(state.signing_key()));
  common::Sealed sealed = common::sign_revocations(key, common::encode_revocations(list));
  if (sealed.signer == authority) return sealed;
  LFARM_ASSIGN_OR_RETURN(common::Delegation delegation,
                         common::read_delegation_file(state.delegation()));
  return common::sealed_by(authority, {sealed.signature, common::encode_delegation(delegation)},
                           std::move(sealed.bytes));
}

Status export_here(const ExportOptions& options, PlanArchiveWriter& writer, size_t* plans) {
  LFARM_ASSIGN_OR_RETURN(auto cache, PlanCache::open({options.farm.state}));
  LFARM_ASSIGN_OR_RETURN(std::vector<Digest> places, places_here(options, *cache));
  LFARM_ASSIGN_OR_RETURN(PlanTrust trust, cache->trust());
  for (const Digest& place : places) {
    LFARM_ASSIGN_OR_RETURN(auto stored, cache->store().get_plan(place, cache::Lookup::kInspect));
    if (!stored) return not_cached("what is to be exported");
    LFARM_ASSIGN_OR_RETURN(common::Plan plan,
                           open_signed_plan(common::as_bytes(stored->bytes), trust));
    LFARM_RETURN_IF_ERROR(writer.add(ArchivePartKind::kPlan, common::as_bytes(stored->bytes)));
    for (const Digest& object : plan.objects) {
      if (writer.has(object)) continue;
      LFARM_ASSIGN_OR_RETURN(auto bytes, cache->store().get_blob(object));
      if (!bytes) return common::corrupt(cat("object ", object.short_hex(), " is gone"));
      LFARM_RETURN_IF_ERROR(writer.add(ArchivePartKind::kObject, common::as_bytes(*bytes)));
    }
    ++*plans;
  }
  common::RevocationList list;
  LFARM_ASSIGN_OR_RETURN(list.plans, cache->store().revocations());
  if (list.plans.empty()) return {};
  LFARM_ASSIGN_OR_RETURN(common::Sealed sealed, sign_here({options.farm.state}, list));
  common::Bytes signed_list = common::encode_sealed(sealed);
  return writer.add(ArchivePartKind::kRevocations, signed_list);
}

// ---- From a farm -------------------------------------------------------------------------------

Status add_objects(FarmClient& farm, const common::Plan& plan, PlanArchiveWriter& writer) {
  for (const Digest& object : plan.objects) {
    if (writer.has(object)) continue;
    LFARM_ASSIGN_OR_RETURN(auto bytes, farm.blob(object));
    if (!bytes) return common::corrupt(cat("the farm lost object ", object.short_hex()));
    LFARM_RETURN_IF_ERROR(writer.add(ArchivePartKind::kObject, bytes->bytes));
  }
  return {};
}

Status export_of_farm(const ExportOptions& options, PlanArchiveWriter& writer, size_t* plans) {
  if (options.all) {
    return common::invalid_input(
        "--all takes the plans of a state directory; name those of a farm by their ids");
  }
  LFARM_ASSIGN_OR_RETURN(auto farm, connect_to_farm(options.farm));
  LFARM_ASSIGN_OR_RETURN(PlanTrust trust, farm->trust());
  for (const std::string& what : options.what) {
    common::SharedBytes signed_plan;
    if (is_file(what)) {
      LFARM_ASSIGN_OR_RETURN(common::PlanKey key, key_of_model(options, what));
      key.epoch = farm->compiler_epoch();
      LFARM_ASSIGN_OR_RETURN(auto pulled, farm->pull(key, machine_of(options.farm)));
      if (!pulled) return not_cached(what);
      signed_plan = pulled->signed_plan;
    } else {
      LFARM_ASSIGN_OR_RETURN(Digest id, id_at_farm(*farm, what));
      LFARM_ASSIGN_OR_RETURN(auto blob, farm->blob(id));
      if (!blob) return not_cached(what);
      signed_plan = *blob;
    }
    LFARM_ASSIGN_OR_RETURN(common::Plan plan, open_signed_plan(signed_plan.bytes, trust));
    LFARM_RETURN_IF_ERROR(writer.add(ArchivePartKind::kPlan, signed_plan.bytes));
    LFARM_RETURN_IF_ERROR(add_objects(*farm, plan, writer));
    ++*plans;
  }
  Revocations revocations(StateDirectory{options.farm.state}.revocations());
  LFARM_ASSIGN_OR_RETURN(std::string list, revocations.signed_list(trust.signer));
  return add_list(writer, list);
}

Status export_plans(const ExportOptions& options) {
  if (options.what.empty() && !options.all) {
    return common::invalid_input("nothing to export: name plans or models, or say --all");
  }
  LFARM_ASSIGN_OR_RETURN(PlanArchiveWriter writer, PlanArchiveWriter::create(options.file));
  size_t plans = 0;
  LFARM_RETURN_IF_ERROR(options.farm.farm.empty() ? export_here(options, writer, &plans)
                                                  : export_of_farm(options, writer, &plans));
  LFARM_RETURN_IF_ERROR(writer.finish());
  std::printf("%zu plan%s in %s\n", plans, plans == 1 ? "" : "s", options.file.c_str());
  return {};
}

}  // namespace

void declare_plan_export(CommandLine* line) {
  auto options = std::make_shared<ExportOptions>();
  Command command = line->add(
      "plan export",
      "Writes plans and the machine code they need to one file, as the farm signed them, for\n"
      "'lfarm plan import' where the farm cannot be reached. What the farm has revoked goes along.",
      [options] { return exit_code_of(export_plans(*options)); });
  command.value("plans", &options->what, "ID|MODEL.pt2", "Plans' or graphs' ids, or models");
  command.value("-o,--output", &options->file, "FILE", "The file to write").required();
  command.flag("--all", &options->all, "All plans of the state directory");
  add_policy_options(&command, &options->policy);
  add_device_option(&command, &options->farm);
  add_farm_options(&command, &options->farm);
}

}  // namespace clients
