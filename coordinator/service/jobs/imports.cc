#include "coordinator/service/jobs/imports.h"

#include <algorithm>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "common/wire/ir_codec.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Error;
using common::Result;
using common::Status;

namespace {

// At a time: an import holds blobs of at most 256 MiB each.
constexpr size_t kImportsMax = 8;
constexpr size_t kAskedMax = 2;  // common/wire/limits.h, kPeerInflowBytes

Result<ForeignPlan> open_plan(const Digest& digest, common::ByteView bytes,
                              const common::PublicKey& signer) {
  LFARM_ASSIGN_OR_RETURN(common::Sealed outer, common::decode_sealed(bytes));
  LFARM_RETURN_IF_ERROR(common::check_signature(outer, signer));
  LFARM_ASSIGN_OR_RETURN(common::PlanGrant grant, common::decode_grant(outer.bytes));
  LFARM_ASSIGN_OR_RETURN(common::Plan plan, common::decode_plan(grant.plan));
  if (plan.provenance.best_ns <= 0) {
    return common::invalid_input(
        cat("plan ", digest.short_hex(), " was never measured; export it again"));
  }
  return ForeignPlan{digest, signer, std::move(plan)};
}

}  // namespace

Imports::Import* Imports::find(const std::string& peer, uint64_t number) {
  auto found = imports_.find(peer);
  return found == imports_.end() || found->second.number != number ? nullptr : &found->second;
}

void Imports::begin(const std::string& peer, const std::string& tenant,
                    const common::ImportPlans& message) {
  imports_.erase(peer);
  if (imports_.size() >= kImportsMax) {
    Error error = common::unavailable(cat(imports_.size(), " imports are under way; try again in ",
                                          env_.options.try_again_s(), " s"));
    env_.outbox.send(peer, common::JobFailed{message.request_id, 0, error.code, error.message});
    return;
  }
  Import& import = imports_[peer];
  import.number = ++numbers_;
  import.request_id = message.request_id;
  import.tenant = tenant;
  import.signer = message.signer;
  import.revocations = message.revocations;
  // First, since it may say that a plan is none to take.
  if (!message.revocations.is_zero()) import.to_ask.push_back(message.revocations);
  for (const Digest& plan : message.plans) {
    if (!import.plan_blobs.insert(plan).second) continue;
    import.to_ask.push_back(plan);
    import.order.push_back(plan);
  }
  import.deadline_ns = env_.clock.now_ns() + env_.options.times.graph_wait_ms * kNsPerMs;
  advance(peer, import);
}

void Imports::advance(const std::string& peer, Import& import) {
  while (!import.to_ask.empty() && import.asked.size() + import.working < kAskedMax) {
    Digest next = import.to_ask.front();
    import.to_ask.pop_front();
    import.asked.insert(next);
    if (!env_.outbox.send(peer, common::BlobRequest{next})) {
      imports_.erase(peer);
      return;
    }
  }
  if (import.asked.empty() && import.to_ask.empty() && import.working == 0) keep(peer, import);
}

bool Imports::blob_arrived(const std::string& peer, const Digest& digest,
                           const common::SharedBytes& bytes) {
  auto found = imports_.find(peer);
  if (found == imports_.end() || found->second.asked.erase(digest) == 0) return false;
  Import& import = found->second;
  import.deadline_ns = env_.clock.now_ns() + env_.options.times.graph_wait_ms * kNsPerMs;
  if (digest == import.revocations) {
    take_revocations(peer, import, bytes.bytes);
  } else if (import.plan_blobs.contains(digest)) {
    take_plan(peer, import, digest, bytes);
  } else {
    take_object(peer, import, bytes);
  }
  return true;
}

bool Imports::blob_missing(const std::string& peer, const Digest& digest) {
  auto found = imports_.find(peer);
  if (found == imports_.end() || !found->second.asked.contains(digest)) return false;
  fail(peer, common::invalid_input(cat("the client does not have blob ", digest.short_hex(),
                                       ", which its plans need")));
  return true;
}

// Lists are short, so they are read here.
void Imports::take_revocations(const std::string& peer, Import& import, common::ByteView bytes) {
  auto read = [&]() -> Result<common::RevocationList> {
    LFARM_ASSIGN_OR_RETURN(common::Sealed outer, common::decode_sealed(bytes));
    LFARM_RETURN_IF_ERROR(common::check_revocations(outer, import.signer));
    return common::decode_revocations(outer.bytes);
  };
  auto list = read();
  if (!list.ok()) return fail(peer, list.error());
  import.revoked = std::move(*list);
  advance(peer, import);
}

void Imports::take_plan(const std::string& peer, Import& import, const Digest& digest,
                        const common::SharedBytes& bytes) {
  ++import.working;
  env_.threads.background.start([this, peer, number = import.number, digest, bytes,
                                 signer = import.signer]() -> Background::Done {
    auto opened = std::make_shared<Result<ForeignPlan>>(open_plan(digest, bytes.bytes, signer));
    return [this, peer, number, opened] {
      Import* one = find(peer, number);
      if (one != nullptr) plan_opened(peer, *one, std::move(*opened));
    };
  });
}

void Imports::plan_opened(const std::string& peer, Import& import, Result<ForeignPlan> opened) {
  --import.working;
  if (!opened.ok()) return fail(peer, opened.error());
  auto revoked = env_.store.revocation(opened->id);
  if (!revoked.ok()) return fail(peer, revoked.error());
  if (*revoked || import.revoked.holds(opened->id)) {
    return fail(peer, Error{common::Code::kVerification,
                            cat("plan ", opened->id.short_hex(), " was revoked")});
  }
  for (const Digest& object : opened->plan.objects) {
    auto there = env_.store.has_blob(object);
    if (!there.ok()) return fail(peer, there.error());
    bool is_wanted = import.asked.contains(object) ||
                     std::count(import.to_ask.begin(), import.to_ask.end(), object) != 0;
    if (!*there && !is_wanted) import.to_ask.push_back(object);
  }
  import.plans.push_back(std::move(*opened));
  advance(peer, import);
}

void Imports::take_object(const std::string& peer, Import& import,
                          const common::SharedBytes& bytes) {
  ++import.working;
  env_.threads.steps.start(
      [this, peer, number = import.number, bytes, &store = env_.store]() -> Background::Done {
        auto kept = store.put_blob(common::as_text(bytes.bytes));
        Status status = kept.ok() ? Status() : Status(kept.error());
        return [this, peer, number, status] {
          Import* one = find(peer, number);
          if (one == nullptr) return;
          --one->working;
          status.ok() ? advance(peer, *one) : fail(peer, status.error());
        };
      });
}

void Imports::keep(const std::string& peer, Import& import) {
  if (!import.revoked.plans.empty()) {
    auto revoked = env_.plans.revoke_imported(import.signer, import.revoked);
    if (!revoked.ok()) return fail(peer, revoked.error());
    if (*revoked > 0) {
      common::log_warning(
          cat(*revoked, " imported plans are revoked: their farm has revoked them"));
    }
  }
  ++import.working;
  // In the order in which they were asked for, whichever was opened first.
  std::vector<ForeignPlan> plans = std::exchange(import.plans, {});
  auto place = [&](const ForeignPlan& plan) {
    return std::find(import.order.begin(), import.order.end(), plan.id);
  };
  std::sort(plans.begin(), plans.end(),
            [&](const ForeignPlan& a, const ForeignPlan& b) { return place(a) < place(b); });
  env_.threads.steps.start([this, peer, number = import.number, tenant = import.tenant,
                            plans = std::move(plans), &repository = env_.plans,
                            farm = env_.options.name]() -> Background::Done {
    auto kept = std::make_shared<Result<std::vector<Digest>>>(
        repository.keep_imported(tenant, plans, farm));
    return [this, peer, number, kept] {
      Import* one = find(peer, number);
      if (one == nullptr) return;
      if (!kept->ok()) return fail(peer, kept->error());
      common::log_info(cat((*kept)->size(), " plans are imported"), {{"tenant", one->tenant}});
      env_.outbox.send(peer, common::PlansChanged{one->request_id, std::move(**kept)});
      imports_.erase(peer);
    };
  });
}

void Imports::fail(const std::string& peer, const Error& error) {
  auto found = imports_.find(peer);
  if (found == imports_.end()) return;
  common::log_warning(cat("an import failed: ", error.message), {{"tenant", found->second.tenant}});
  env_.outbox.send(peer, common::JobFailed{found->second.request_id, 0, error.code, error.message});
  imports_.erase(found);
}

void Imports::tick(int64_t now_ns) {
  for (auto it = imports_.begin(); it != imports_.end();) {
    const std::string peer = it->first;
    bool is_late = it->second.working == 0 && now_ns >= it->second.deadline_ns;
    ++it;
    if (is_late) {
      fail(peer, Error{common::Code::kTimedOut, "the plans' bytes did not arrive; import again"});
    }
  }
}

}  // namespace coordinator::service
