#include "coordinator/service/plans/revocation_log.h"

#include <algorithm>
#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/contains.h"
#include "common/base/log.h"
#include "common/wire/ir_codec.h"

namespace coordinator::service {

using common::cat;
using common::RevocationList;
using common::Status;

namespace {

constexpr std::string_view kRulesName = "revocations/rules";
// Clients take a list that long after it was signed: as long as somebody between them and the
// farm's signer can keep from them what was revoked since.
constexpr int64_t kListNs = int64_t{7} * 86'400 * 1'000'000'000;
constexpr int64_t kLookNs = 1'000'000'000;

}  // namespace

uint64_t RevocationLog::delegation_number() const {
  auto delegation = signer_.delegation();
  return delegation ? delegation->number : 0;
}

Status RevocationLog::keep(const RevocationList& kept) {
  common::Bytes bytes = common::encode_revocations(kept);
  return store_.put_named(kRulesName, common::as_text(bytes));
}

Status RevocationLog::load() {
  LFARM_ASSIGN_OR_RETURN(auto bytes, store_.get_named(kRulesName));
  if (bytes) {
    LFARM_ASSIGN_OR_RETURN(RevocationList kept,
                           common::decode_revocations(common::as_bytes(*bytes)));
    std::lock_guard lock(mutex_);
    rules_ = std::move(kept);
  }
  return sign_anew();
}

Status RevocationLog::sign_anew() {
  RevocationList list;
  LFARM_ASSIGN_OR_RETURN(list.plans, store_.revocations());
  RevocationList kept;
  {
    std::lock_guard lock(mutex_);
    kept = rules_;
  }
  list.rules = kept.rules;
  auto delegation = signer_.delegation();
  if (delegation) list.oldest_delegation = delegation->oldest_valid;
  signed_under_ = delegation_number();
  int64_t now_ns = common::wall_clock_ns();
  renew_ns_ = now_ns + kListNs / 2;
  if (list.is_empty()) return {};
  list.number = std::max(kept.number + 1, static_cast<uint64_t>(now_ns));
  list.until_ns = now_ns + kListNs;
  auto sealed = seal(signer_, Statement::kRevocations, common::encode_revocations(list));
  if (!sealed.ok()) {
    renew_ns_ = 0;
    return sealed.error();
  }
  signed_ = common::share(common::encode_sealed(*sealed));
  digest_ = common::digest_of(signed_.bytes);
  kept.number = list.number;
  LFARM_RETURN_IF_ERROR(keep(kept));
  std::lock_guard lock(mutex_);
  rules_ = std::move(kept);
  return {};
}

Status RevocationLog::add_rule(const common::RevocationRule& rule) {
  RevocationList kept;
  {
    std::lock_guard lock(mutex_);
    kept = rules_;
  }
  if (common::contains(kept.rules, rule)) return {};
  if (kept.rules.size() >= common::kRevocationRulesMax) {
    return common::unsupported(cat("this farm has ", kept.rules.size(),
                                   " rules of what is revoked and can list no more; begin a farm "
                                   "with a new signing key instead"));
  }
  kept.rules.push_back(rule);
  LFARM_RETURN_IF_ERROR(keep(kept));
  std::lock_guard lock(mutex_);
  rules_ = std::move(kept);
  return {};
}

void RevocationLog::tend(int64_t wall_ns) {
  if (wall_ns - looked_ns_ < kLookNs && wall_ns >= looked_ns_) return;
  looked_ns_ = wall_ns;
  if (wall_ns < renew_ns_ && delegation_number() == signed_under_) return;
  Status status = sign_anew();
  if (!status.ok() && !is_failing_) {
    common::log_error(cat("the list of revocations cannot be signed: ", status.error().message));
  }
  is_failing_ = !status.ok();
}

bool RevocationLog::holds(const common::Provenance& made) const {
  std::lock_guard lock(mutex_);
  return rules_.holds(made);
}

}  // namespace coordinator::service
