// lfarm plan import: takes plans from a file that 'lfarm plan export' wrote.
#include <cstdio>
#include <memory>

#include "clients/cli/access/plan_source.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/cli/plans/plan_file.h"
#include "clients/runtime/farm/disk_cache.h"
#include "clients/runtime/farm/met_farms.h"
#include "clients/runtime/farm/revocations.h"
#include "common/base/cat.h"
#include "common/wire/ir_codec.h"

namespace clients {
namespace {

using common::cat;
using common::Digest;
using common::Result;
using common::Status;

struct ImportOptions {
  FarmOptions farm;
  std::string file;
  bool client = false;
};

struct Opened {
  PlanArchive archive;
  PlanFile file;
  PlanTrust owner;
};

// The file, all of which holds.
Result<Opened> open_file(const ImportOptions& options) {
  LFARM_ASSIGN_OR_RETURN(PlanArchive archive, PlanArchive::open(options.file));
  Revocations revocations(StateDirectory{options.farm.state}.revocations());
  PlanFile file =
      examine(archive, signers_trusted_here(options.farm),
              [&](const common::PublicKey& signer) { return revocations.known(signer); });
  LFARM_RETURN_IF_ERROR(file.status());
  LFARM_ASSIGN_OR_RETURN(PlanTrust owner, file.owner());
  return Opened{std::move(archive), std::move(file), std::move(owner)};
}

// What the file says has been revoked holds for what is here already, too.
Status learn_revocations(const ImportOptions& options, const Opened& opened) {
  Revocations known(StateDirectory{options.farm.state}.revocations());
  for (const ArchivePart& part : opened.archive.parts(ArchivePartKind::kRevocations)) {
    LFARM_ASSIGN_OR_RETURN(common::Bytes list, opened.archive.read(part));
    auto learned = known.learn(opened.owner.signer, list);
    // A list of another farm says nothing about this one's plans.
    if (!learned.ok() && learned.error().code != common::Code::kVerification) {
      return learned.error();
    }
  }
  return {};
}

// ---- To the programs of this machine -----------------------------------------------------------

// Everything that would speak against one of them, before the first is kept.
Result<std::string> check_for_client(const ImportOptions& options, const Opened& opened) {
  LFARM_ASSIGN_OR_RETURN(common::Target here, target_of(options.farm));
  std::string epoch = opened.file.plans[0].plan.key.epoch;
  for (const FiledPlan& plan : opened.file.plans) {
    const common::PlanKey& key = plan.plan.key;
    if (key.target != here) {
      return common::invalid_input(cat("plan ", plan.id.short_hex(), " is for ", key.target.name,
                                       ", this machine's programs take plans for ", here.name));
    }
    if (key.epoch != epoch) {
      return common::unsupported(cat("the file's plans are of compiler epochs ", epoch, " and ",
                                     key.epoch, "; export those of each by themselves"));
    }
  }
  auto met = MetFarms(StateDirectory{options.farm.state}.met_farms()).find(options.farm.farm);
  if (met && met->signer == opened.owner.signer && met->tenant != opened.owner.tenant) {
    return common::Error{
        common::Code::kVerification,
        cat("the plans are tenant ", opened.owner.tenant, "'s, and the farm knows ",
            "this client as ", met->tenant, "; import plans of your own tenant")};
  }
  if (met && met->signer != opened.owner.signer && options.farm.trust.empty()) {
    return common::Error{common::Code::kVerification,
                         cat("programs here take plans signed with ", common::to_hex(met->signer),
                             ", the file's are signed with ", common::to_hex(opened.owner.signer),
                             "; if they are to take these instead, name that key with --trust")};
  }
  return epoch;
}

Status import_to_client(const ImportOptions& options, const Opened& opened) {
  LFARM_ASSIGN_OR_RETURN(std::string epoch, check_for_client(options, opened));
  LFARM_RETURN_IF_ERROR(learn_revocations(options, opened));
  StateDirectory state{options.farm.state};
  DiskCache disk(state.client_plans(), 0);
  const std::vector<FiledPlan>& plans = opened.file.plans;
  for (size_t i = 0; i < plans.size(); ++i) {
    auto pulled = read_plan(opened.archive, plans[i]);
    Status kept = pulled.ok() ? disk.put(*pulled, opened.owner) : Status(pulled.error());
    if (kept.ok()) continue;
    for (size_t k = 0; k < i; ++k) disk.forget(plans[k].plan.key, opened.owner);
    return kept;
  }
  LFARM_RETURN_IF_ERROR(
      MetFarms(state.met_farms())
          .remember(options.farm.farm, {opened.owner.signer, opened.owner.tenant, epoch}));
  for (const FiledPlan& plan : plans) {
    std::printf("plan %s is there for this machine's programs\n", plan.id.hex().c_str());
  }
  return {};
}

// ---- To a farm ---------------------------------------------------------------------------------

// The list in the file that the plans' own farm signed; null when there is none.
Result<const ArchivePart*> list_of_owner(const Opened& opened,
                                         const std::vector<ArchivePart>& lists) {
  for (const ArchivePart& part : lists) {
    LFARM_ASSIGN_OR_RETURN(common::Bytes bytes, opened.archive.read(part));
    LFARM_ASSIGN_OR_RETURN(common::Sealed list, common::decode_sealed(bytes));
    if (list.signer == opened.owner.signer) return &part;
  }
  return static_cast<const ArchivePart*>(nullptr);
}

Result<common::SharedBytes> content_of(const PlanArchive& archive, const Digest& digest) {
  for (auto kind :
       {ArchivePartKind::kPlan, ArchivePartKind::kObject, ArchivePartKind::kRevocations}) {
    const ArchivePart* part = archive.find(kind, digest);
    if (part == nullptr) continue;
    LFARM_ASSIGN_OR_RETURN(common::Bytes bytes, archive.read(*part));
    return common::share(std::move(bytes));
  }
  return common::SharedBytes{};
}

Status import_to_farm(const ImportOptions& options, const Opened& opened) {
  common::ImportPlans request;
  request.signer = opened.owner.signer;
  for (const FiledPlan& plan : opened.file.plans) request.plans.push_back(plan.id);
  std::vector<ArchivePart> lists = opened.archive.parts(ArchivePartKind::kRevocations);
  LFARM_ASSIGN_OR_RETURN(const ArchivePart* list, list_of_owner(opened, lists));
  if (list != nullptr) request.revocations = list->digest;
  // The farm that runs here or that is named; without either one of our own, which needs no worker
  // to take plans in.
  FarmOptions farm = options.farm;
  farm.workers = 0;
  farm.trust.clear();  // it names the file's signer, not the farm that takes it
  Progress progress(true);
  PlanSource own(farm, {}, &progress);
  bool is_there = !farm.farm.empty() || FarmLock::holder({farm.state}).has_value();
  if (!is_there) {
    LFARM_ASSIGN_OR_RETURN(farm.farm, own.require_farm());
  }
  LFARM_ASSIGN_OR_RETURN(auto client, connect_to_farm(farm));
  LFARM_ASSIGN_OR_RETURN(std::vector<Digest> kept,
                         client->import_plans(request, [&opened](const Digest& digest) {
                           return content_of(opened.archive, digest);
                         }));
  for (size_t i = 0; i < kept.size() && i < opened.file.plans.size(); ++i) {
    std::printf("plan %s is plan %s here\n", opened.file.plans[i].id.hex().c_str(),
                kept[i].hex().c_str());
  }
  return {};
}

Status import_plans(const ImportOptions& options) {
  LFARM_ASSIGN_OR_RETURN(Opened opened, open_file(options));
  LFARM_RETURN_IF_ERROR(options.client ? import_to_client(options, opened)
                                       : import_to_farm(options, opened));
  return remember_signer(options.farm, opened.owner.signer);
}

}  // namespace

void declare_plan_import(CommandLine* line) {
  auto options = std::make_shared<ImportOptions>();
  Command command = line->add(
      "plan import",
      "Takes the plans of a file, all or none, once everything about them holds: signatures by a\n"
      "trusted key (--trust, the state directory's own, a farm's that was met, else the first\n"
      "file's), digests, and that none was revoked. A farm signs them anew, for the tenant that\n"
      "imports them; that takes the role admin.",
      [options] { return exit_code_of(import_plans(*options)); });
  command.value("file", &options->file, "FILE", "What 'lfarm plan export' wrote").required();
  command.flag("--client", &options->client,
               "For this machine's programs that use liblfarm, as the file's farm signed them;\n"
               "--farm is the endpoint they are given, if any. No farm is asked");
  add_device_option(&command, &options->farm);
  add_farm_options(&command, &options->farm);
}

}  // namespace clients
