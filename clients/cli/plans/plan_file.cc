#include "clients/cli/plans/plan_file.h"

#include <algorithm>
#include <map>

#include "clients/runtime/farm/farm_access.h"
#include "clients/runtime/farm/known_farms.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/wire/ir_codec.h"
#include "common/wire/limits.h"

namespace clients {

using common::cat;
using common::Result;
using common::Status;

namespace {

// Under which name the first signer of a file is remembered among the farms that were met.
constexpr const char* kFilesName = "file";

common::SharedBytes shared(common::Bytes bytes) { return common::share(std::move(bytes)); }

// What the file's lists say has been revoked, by the farms that signed them.
using ListsBySigner = std::map<common::PublicKey, common::RevocationList>;

Status read_list(const PlanArchive& archive, const ArchivePart& part, ListsBySigner& lists) {
  LFARM_ASSIGN_OR_RETURN(common::Bytes bytes, archive.read(part));
  LFARM_ASSIGN_OR_RETURN(common::Sealed outer, common::decode_sealed(bytes));
  LFARM_RETURN_IF_ERROR(common::check_revocations(outer, outer.signer));
  LFARM_ASSIGN_OR_RETURN(common::RevocationList list, common::decode_revocations(outer.bytes));
  common::RevocationList& known = lists[outer.signer];
  known.plans.insert(known.plans.end(), list.plans.begin(), list.plans.end());
  return {};
}

// Fills in as much of the plan as can be known.
Status open_plan(const PlanArchive& archive, const ArchivePart& part, FiledPlan& plan) {
  plan.id = part.digest;
  LFARM_ASSIGN_OR_RETURN(common::Bytes bytes, archive.read(part));
  LFARM_ASSIGN_OR_RETURN(common::Sealed outer, common::decode_sealed(bytes));
  plan.signer = outer.signer;
  LFARM_RETURN_IF_ERROR(common::check_signature(outer, outer.signer));
  LFARM_ASSIGN_OR_RETURN(common::PlanGrant grant, common::decode_grant(outer.bytes));
  plan.tenant = std::move(grant.tenant);
  LFARM_ASSIGN_OR_RETURN(plan.plan, common::decode_plan(grant.plan));
  return {};
}

Status has_objects(const PlanArchive& archive, const common::Plan& plan) {
  for (const common::Digest& object : plan.objects) {
    if (archive.find(ArchivePartKind::kObject, object) == nullptr) {
      return common::corrupt(cat("object ", object.short_hex(), " is not in the file"));
    }
  }
  return {};
}

Status objects_hold(const PlanArchive& archive) {
  for (const ArchivePart& part : archive.parts(ArchivePartKind::kObject)) {
    auto content = archive.read(part);
    if (!content.ok()) return content.error();
  }
  return {};
}

Status is_in_force(const FiledPlan& plan, const common::RevocationList& revoked) {
  if (!revoked.holds(plan.id) && !revoked.holds(plan.plan.provenance.origin.plan)) return {};
  return common::Error{common::Code::kVerification, cat("plan ", plan.id.short_hex(),
                                                        " was revoked by the farm that signed it")};
}

Result<std::vector<KnownFarm>> farms_met(const FarmOptions& options) {
  std::string path = StateDirectory{options.state}.known_farms();
  if (!common::file_exists(path)) return std::vector<KnownFarm>();
  LFARM_ASSIGN_OR_RETURN(std::string text, common::read_file(path, common::kKnownFarmsBytesMax));
  return parse_known_farms(text, path);
}

// Whether the state directory's own farm or one that was met signs so.
Result<bool> is_known(const FarmOptions& options, const common::PublicKey& signer,
                      bool* has_met_a_file) {
  auto own = own_signing_key({options.state});
  if (own.ok() && *own == signer) return true;
  LFARM_ASSIGN_OR_RETURN(std::vector<KnownFarm> farms, farms_met(options));
  *has_met_a_file = false;
  for (const KnownFarm& farm : farms) {
    if (farm.key == signer) return true;
    *has_met_a_file = *has_met_a_file || farm.endpoint == kFilesName;
  }
  return false;
}

}  // namespace

Status PlanFile::status() const {
  for (const Finding& finding : findings) {
    if (finding.status.ok()) continue;
    const common::Error& error = finding.status.error();
    return common::Error{error.code, cat(finding.about, ": ", error.message)};
  }
  return {};
}

Result<PlanTrust> PlanFile::owner() const {
  if (plans.empty()) return common::invalid_input("the file holds no plan");
  PlanTrust owner{plans[0].signer, plans[0].tenant, {}};
  for (const FiledPlan& plan : plans) {
    if (plan.signer == owner.signer && plan.tenant == owner.tenant) continue;
    return common::unsupported(
        "the file's plans are of several farms or tenants; export those of each by themselves");
  }
  return owner;
}

PlanFile examine(
    const PlanArchive& archive, const SignerCheck& trusted,
    const std::function<Result<common::RevocationList>(const common::PublicKey&)>& known) {
  PlanFile file;
  auto found = [&](const std::string& about, const char* what, Status status) {
    file.findings.push_back({about, what, std::move(status)});
    return file.findings.back().status.ok();
  };
  ListsBySigner lists;
  for (const ArchivePart& part : archive.parts(ArchivePartKind::kRevocations)) {
    found(archive.path(), "revocation list", read_list(archive, part, lists));
  }
  found(archive.path(), "objects' digests", objects_hold(archive));
  std::map<common::PublicKey, Status> trust;
  std::vector<ArchivePart> parts = archive.parts(ArchivePartKind::kPlan);
  if (parts.empty()) found(archive.path(), "plans", common::invalid_input("it holds no plan"));
  for (const ArchivePart& part : parts) {
    FiledPlan plan;
    std::string about = cat("plan ", part.digest.short_hex());
    bool opens = found(about, "signature and content", open_plan(archive, part, plan));
    if (opens) {
      // Asked once, because asking may be a first meeting.
      if (!trust.contains(plan.signer)) trust[plan.signer] = trusted(plan.signer);
      bool is_trusted = found(about, "signer", trust[plan.signer]);
      found(about, "objects", has_objects(archive, plan.plan));
      auto revoked = known(plan.signer);
      Status in_force = revoked.ok() ? is_in_force(plan, *revoked) : Status(revoked.error());
      // Only the farm's own list counts, and only if the farm does.
      if (in_force.ok() && is_trusted) in_force = is_in_force(plan, lists[plan.signer]);
      found(about, "not revoked", std::move(in_force));
    }
    file.plans.push_back(std::move(plan));
  }
  return file;
}

SignerCheck signers_trusted_here(const FarmOptions& options) {
  return [options](const common::PublicKey& signer) -> Status {
    if (!options.trust.empty()) {
      LFARM_ASSIGN_OR_RETURN(common::PublicKey named,
                             parse_signing_key(options.trust, "the key to trust (--trust)"));
      if (named == signer) return {};
      return common::Error{
          common::Code::kVerification,
          cat("it is signed with ", common::to_hex(signer), ", not with the key of --trust")};
    }
    bool has_met_a_file = false;
    LFARM_ASSIGN_OR_RETURN(bool known, is_known(options, signer, &has_met_a_file));
    if (known || !has_met_a_file) return {};
    return common::Error{
        common::Code::kVerification,
        cat("it is signed with ", common::to_hex(signer),
            ", which no farm met so far signs with; if that is right, name it with --trust")};
  };
}

Status remember_signer(const FarmOptions& options, const common::PublicKey& signer) {
  bool ignored = false;
  LFARM_ASSIGN_OR_RETURN(bool known, is_known(options, signer, &ignored));
  if (known || !options.trust.empty()) return {};
  return KnownFarms(StateDirectory{options.state}.known_farms()).meet(kFilesName, signer);
}

Result<PulledPlan> read_plan(const PlanArchive& archive, const FiledPlan& plan) {
  PulledPlan out;
  out.plan = plan.plan;
  out.id = plan.id;
  const ArchivePart* part = archive.find(ArchivePartKind::kPlan, plan.id);
  if (part == nullptr) return common::corrupt("the plan is not in the file");
  LFARM_ASSIGN_OR_RETURN(common::Bytes bytes, archive.read(*part));
  out.signed_plan = shared(std::move(bytes));
  for (const common::Digest& object : plan.plan.objects) {
    const ArchivePart* content = archive.find(ArchivePartKind::kObject, object);
    if (content == nullptr) return common::corrupt("an object is not in the file");
    LFARM_ASSIGN_OR_RETURN(common::Bytes code, archive.read(*content));
    out.objects.emplace(object, shared(std::move(code)));
  }
  out.facts = facts_of_hit(out.plan, out.id);
  return out;
}

}  // namespace clients
