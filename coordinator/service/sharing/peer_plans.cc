#include "coordinator/service/sharing/peer_plans.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/contains.h"
#include "common/base/log.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/plan/seal.h"
#include "common/wire/ir_codec.h"
#include "common/wire/limits.h"

namespace coordinator::service {

using cache::RemoteRecord;
using common::cat;
using common::Code;
using common::Digest;
using common::Error;
using common::Result;
using common::Status;

namespace {

constexpr int64_t kNsPerMs = 1'000'000;
// Clocks of farms differ by seconds at most, or claims are taken for expired: then two search.
constexpr int64_t kClockSkewMs = 5'000;
// Plans that are looked at together: a signed one has some hundred kilobytes.
constexpr size_t kPlansAtOnce = 64;
constexpr std::string_view kRevokedName = "peers/revoked";
constexpr std::string_view kWithdrawnName = "peers/withdrawn";

Digest content_of(const common::PlanGrant& grant) {
  return common::digest_of(common::encode_grant(grant));
}

Digest place_of_list(const common::PublicKey& farm) {
  return common::Hasher().text("revocations of").data(farm).finish();
}

// ---- Claims: the holder's key, when it expires, the proof that the holder says so --------------

struct ClaimText {
  common::PublicKey holder{};
  int64_t expires_wall_ns = 0;
  common::Proof proof;
};
constexpr size_t kClaimHeadBytes = 32 + 8;

std::string encode(const ClaimText& claim) {
  std::string out(common::as_text(claim.holder));
  auto expires = static_cast<uint64_t>(claim.expires_wall_ns);
  for (int byte = 0; byte < 8; ++byte) out.push_back(static_cast<char>(expires >> (8 * byte)));
  out += common::as_text(common::encode_proof(claim.proof));
  return out;
}

std::optional<ClaimText> decode_claim(const std::string& text) {
  if (text.size() < kClaimHeadBytes) return std::nullopt;
  ClaimText claim;
  std::memcpy(claim.holder.data(), text.data(), 32);
  uint64_t expires = 0;
  for (int byte = 0; byte < 8; ++byte) {
    expires |=
        static_cast<uint64_t>(static_cast<unsigned char>(text[32 + static_cast<size_t>(byte)]))
        << (8 * byte);
  }
  claim.expires_wall_ns = static_cast<int64_t>(expires);
  common::ByteView rest = common::as_bytes(text).subspan(kClaimHeadBytes);
  auto proof = common::take_proof(&rest);
  if (!proof.ok() || !rest.empty()) return std::nullopt;
  claim.proof = std::move(*proof);
  return claim;
}

}  // namespace

PeerPlans::PeerPlans(cache::RemoteStore& remote, PlanRecords& records, cache::Store& store,
                     const PlanRepository& repository, PeerTrust trust, int64_t claim_ms)
    : remote_(remote),
      records_(records),
      store_(store),
      repository_(repository),
      trust_(std::move(trust)),
      claim_ms_(claim_ms) {}

bool PeerPlans::is_trusted(const common::PublicKey& signer) const {
  return signer == trust_.own->authority() || common::contains(trust_.peers, signer);
}

bool PeerPlans::is_revoked(const Digest& id) const {
  std::lock_guard lock(mutex_);
  return revoked_.count(id) != 0 || withdrawn_.count(id) != 0;
}

// The shared store lies, or another version or farm uses it: worth a line, but not one a request.
void PeerPlans::refuse(const std::string& what) {
  uint64_t count = 0;
  {
    std::lock_guard lock(mutex_);
    count = ++counts_.refused;
  }
  bool is_power_of_two = (count & (count - 1)) == 0;
  if (is_power_of_two) {
    common::log_warning(cat("the remote store at ", remote_.address(), " holds what is refused (",
                            count, " so far): ", what));
  }
}

PeerCounts PeerPlans::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

// ---- Plans -------------------------------------------------------------------------------------

// What this farm signed outlives its delegation there, so that a rotation loses nothing; a
// delegation that its root key has voided does not count.
Status PeerPlans::check_signed(const common::Sealed& outer) const {
  if (outer.signer != trust_.own->authority()) {
    return common::check_signature(outer, outer.signer);
  }
  auto present = trust_.own->delegation();
  auto its = common::decode_delegation(outer.delegation);
  if (present && its.ok() && its->number < present->oldest_valid) {
    return Error{Code::kVerification, "a plan's delegation was voided by its root key"};
  }
  return common::check_signature(outer, outer.signer, common::time_of(outer));
}

// Not a byte of the content is looked at before the signature holds.
Result<PeerPlans::Opened> PeerPlans::open(const std::string& bytes, const std::string& tenant,
                                          const Digest& plan_key,
                                          const std::string& machine) const {
  LFARM_ASSIGN_OR_RETURN(common::Sealed outer, common::decode_sealed(common::as_bytes(bytes)));
  if (!is_trusted(outer.signer)) {
    return Error{Code::kVerification,
                 cat("a plan is signed by ", common::to_hex(outer.signer),
                     ", a farm that this one does not trust; --trust-peer names those it does")};
  }
  LFARM_RETURN_IF_ERROR(check_signed(outer));
  LFARM_ASSIGN_OR_RETURN(common::PlanGrant grant, common::decode_grant(outer.bytes));
  LFARM_ASSIGN_OR_RETURN(common::Plan plan, common::decode_plan(grant.plan));
  if (grant.tenant != tenant || plan.key.digest() != plan_key ||
      plan.provenance.machine != machine) {
    return Error{Code::kVerification, "a plan stands where another one belongs"};
  }
  LFARM_RETURN_IF_ERROR(common::verify(plan));
  Opened opened{content_of({tenant, common::encode_plan(plan)}), std::move(plan)};
  if (is_revoked(opened.content) || is_revoked(common::digest_of(common::as_bytes(bytes)))) {
    return Error{Code::kVerification, "a revoked plan is still there"};
  }
  return opened;
}

Result<bool> PeerPlans::bring(const PlanPlace& place) {
  LFARM_ASSIGN_OR_RETURN(auto bytes, records_.get(place));
  if (!bytes) return false;
  LFARM_ASSIGN_OR_RETURN(Opened opened, open(*bytes, place.tenant, place.plan_key, place.machine));
  LFARM_ASSIGN_OR_RETURN(auto objects, records_.get_objects(opened.plan.objects));
  if (!objects) return false;
  for (const std::string& object : *objects) {
    LFARM_ASSIGN_OR_RETURN([[maybe_unused]] Digest digest, store_.put_blob(object));
  }
  KeptPlan copy;
  copy.is_copy = true;
  LFARM_ASSIGN_OR_RETURN(copy.recipe, recipe_there(place));
  LFARM_ASSIGN_OR_RETURN(auto here, store_.get_plan(place.digest(), cache::Lookup::kInspect));
  if (here && here->bytes == *bytes && !copy.recipe.empty()) {
    LFARM_ASSIGN_OR_RETURN(auto recipe, recipe_here(*here, opened.plan.objects));
    if (!recipe) copy.compared = here->facts.plan_id;
  }
  LFARM_ASSIGN_OR_RETURN([[maybe_unused]] common::Digest id,
                         repository_.keep(place.tenant, opened.plan, copy));
  return true;
}

// Empty where there is none that is this graph's.
Result<std::string> PeerPlans::recipe_there(const PlanPlace& place) {
  LFARM_ASSIGN_OR_RETURN(auto digest, records_.recipe(place));
  if (!digest) return std::string();
  LFARM_ASSIGN_OR_RETURN(auto objects, records_.get_objects({&*digest, 1}));
  if (!objects) return std::string();
  auto recipe = decode_recipe(common::as_bytes(objects->front()));
  auto graph = recipe.ok() ? common::decode_graph(recipe->graph) : recipe.error();
  if (graph.ok() && common::graph_hash(*graph) == place.graph_hash) {
    return std::move(objects->front());
  }
  refuse(graph.ok() ? "a plan's recipe is of another graph" : graph.error().message);
  return std::string();
}

Result<std::optional<Digest>> PeerPlans::recipe_here(const cache::StoredPlan& stored,
                                                     std::span<const Digest> objects) const {
  for (const Digest& need : stored.needs) {
    bool is_object = std::find(objects.begin(), objects.end(), need) != objects.end();
    if (is_object || need == stored.facts.plan_id) continue;
    LFARM_ASSIGN_OR_RETURN(auto blob, store_.get_blob(need));
    if (blob && is_recipe(common::as_bytes(*blob))) return std::optional(need);
  }
  return std::optional<Digest>();
}

bool PeerPlans::fetch(const PlanPlace& place) {
  auto brought = bring(place);
  // What the network does is the remote store's to tell.
  bool is_lie = !brought.ok() && !is_away(brought.error());
  if (is_lie) refuse(brought.error().message);
  bool found = brought.ok() && *brought;
  std::lock_guard lock(mutex_);
  ++(found ? counts_.hits : counts_.misses);
  return found;
}

// Whether `there` is the same plan without its recipe, as an earlier release has put it.
Result<bool> PeerPlans::lacks_recipe_there(const PlanPlace& place, const cache::StoredPlan& stored,
                                           const std::string& there,
                                           std::span<const Digest> objects) {
  if (!records_.are_sharded() || there != stored.bytes) return false;
  LFARM_ASSIGN_OR_RETURN(auto here, recipe_here(stored, objects));
  if (!here) return false;
  LFARM_ASSIGN_OR_RETURN(auto recipe, records_.recipe(place));
  return !recipe;
}

Status PeerPlans::offer(const PlanPlace& place) {
  std::lock_guard one(offering_[place.shard()]);
  LFARM_ASSIGN_OR_RETURN(auto stored, store_.get_plan(place.digest(), cache::Lookup::kInspect));
  if (!stored) return {};
  LFARM_ASSIGN_OR_RETURN(auto there, records_.get(place));
  if (there) {
    auto opened = open(*there, place.tenant, place.plan_key, place.machine);
    if (opened.ok() && opened->plan.provenance.best_ns <= stored->facts.best_ns) {
      LFARM_ASSIGN_OR_RETURN(bool is_whole, records_.has_objects(opened->plan.objects));
      LFARM_ASSIGN_OR_RETURN(bool lacks_recipe,
                             lacks_recipe_there(place, *stored, *there, opened->plan.objects));
      if (is_whole && !lacks_recipe) return {};
    }
  }
  std::vector<std::string> bytes;
  std::vector<Digest> digests;
  std::optional<Digest> recipe;
  for (const Digest& need : stored->needs) {
    if (need == stored->facts.plan_id) continue;
    LFARM_ASSIGN_OR_RETURN(auto blob, store_.get_blob(need));
    if (!blob) return {};
    if (is_recipe(common::as_bytes(*blob))) recipe = need;
    digests.push_back(need);
    bytes.push_back(std::move(*blob));
  }
  std::vector<cache::RemoteObject> objects;
  for (size_t i = 0; i < bytes.size(); ++i) objects.push_back({digests[i], bytes[i]});
  LFARM_RETURN_IF_ERROR(records_.put(place, stored->bytes, objects, recipe));
  std::lock_guard lock(mutex_);
  ++counts_.offered;
  return {};
}

// ---- Who searches ------------------------------------------------------------------------------

Result<std::string> PeerPlans::claim_text(const Digest& place) const {
  ClaimText claim;
  claim.holder = trust_.own->authority();
  claim.expires_wall_ns = common::wall_clock_ns() + claim_ms_ * kNsPerMs;
  LFARM_ASSIGN_OR_RETURN(
      claim.proof, trust_.own->sign(Statement::kClaim, claim_bytes(place, claim.expires_wall_ns)));
  return encode(claim);
}

// A claim that nobody trusted has signed, or that outlives what any farm asks for, holds up no one.
PeerPlans::Holder PeerPlans::holder_of(const std::string& text, const Digest& place) const {
  auto claim = decode_claim(text);
  if (!claim || !is_trusted(claim->holder)) return Holder::kNobody;
  auto content = content_of(Statement::kClaim, claim_bytes(place, claim->expires_wall_ns));
  int64_t now_ns = common::wall_clock_ns();
  if (!common::check_proof(claim->proof, claim->holder, *content, "claim", now_ns).ok()) {
    return Holder::kNobody;
  }
  int64_t left_ms = (claim->expires_wall_ns - now_ns) / kNsPerMs;
  if (left_ms < -kClockSkewMs || left_ms > kClaimMsMax + kClockSkewMs) return Holder::kNobody;
  return claim->holder == trust_.own->authority() ? Holder::kThisFarm : Holder::kPeer;
}

void PeerPlans::hold(const Digest& place, std::string claim) {
  {
    std::lock_guard lock(mutex_);
    if (!leaving_) {
      claims_[place] = std::move(claim);
      return;
    }
  }
  (void)remote_.release(place, claim);
}

Claim PeerPlans::claim(const PlanPlace& plan) {
  if (fetch(plan)) return Claim::kFound;
  // Whoever holds a shard is the only one that searches for its graphs.
  if (records_.are_sharded()) return Claim::kOurs;
  Digest place = plan.digest();
  auto mine = claim_text(place);
  // Nobody signs: two farms may search.
  if (!mine.ok()) return Claim::kOurs;
  auto claimed = remote_.claim(place, *mine, claim_ms_);
  if (!claimed.ok()) return Claim::kOurs;
  if (*claimed) {
    hold(place, std::move(*mine));
    return Claim::kOurs;
  }
  auto there = remote_.get(RemoteRecord::kSearch, place);
  if (!there.ok() || !*there) return Claim::kOurs;
  Holder holder = holder_of(**there, place);
  if (holder == Holder::kPeer) return Claim::kTheirs;
  // Of an earlier life of this farm.
  if (holder == Holder::kThisFarm) hold(place, std::move(**there));
  return Claim::kOurs;
}

void PeerPlans::renew_claims() {
  std::unordered_map<Digest, std::string> claims;
  {
    std::lock_guard lock(mutex_);
    claims = claims_;
  }
  for (const auto& [place, text] : claims) {
    auto next = claim_text(place);
    if (!next.ok()) return;
    auto renewed = remote_.renew(place, text, *next, claim_ms_);
    if (!renewed.ok()) return;
    std::lock_guard lock(mutex_);
    auto held = claims_.find(place);
    if (held == claims_.end()) continue;
    *renewed ? void(held->second = std::move(*next)) : void(claims_.erase(held));
  }
}

void PeerPlans::release(const Digest& place) {
  std::string text;
  {
    std::lock_guard lock(mutex_);
    auto held = claims_.find(place);
    if (held == claims_.end()) return;
    text = std::move(held->second);
    claims_.erase(held);
  }
  // A claim that stays expires.
  (void)remote_.release(place, text);
}

void PeerPlans::leave() {
  std::unordered_map<Digest, std::string> claims;
  {
    std::lock_guard lock(mutex_);
    leaving_ = true;
    claims.swap(claims_);
  }
  for (const auto& [place, text] : claims) {
    if (!remote_.release(place, text).ok()) return;
  }
}

// ---- Revocations -------------------------------------------------------------------------------

Status PeerPlans::keep_ids(std::string_view name, const std::set<Digest>& ids) {
  std::string bytes;
  for (const Digest& id : ids) bytes += common::as_text(id.bytes);
  return store_.put_named(name, bytes);
}

Result<std::set<Digest>> PeerPlans::kept_ids(std::string_view name) {
  std::set<Digest> ids;
  LFARM_ASSIGN_OR_RETURN(auto bytes, store_.get_named(name));
  if (!bytes) return ids;
  for (size_t begin = 0; begin + sizeof(Digest) <= bytes->size(); begin += sizeof(Digest)) {
    Digest id;
    std::memcpy(id.bytes.data(), bytes->data() + begin, sizeof(Digest));
    ids.insert(id);
  }
  return ids;
}

Status PeerPlans::load() {
  LFARM_ASSIGN_OR_RETURN(auto revoked, kept_ids(kRevokedName));
  LFARM_ASSIGN_OR_RETURN(auto withdrawn, kept_ids(kWithdrawnName));
  std::lock_guard lock(mutex_);
  revoked_ = std::move(revoked);
  withdrawn_ = std::move(withdrawn);
  return {};
}

// What stands in this farm's name, so that one replica's list does not take another's place. One
// that cannot be read is written anew.
Result<std::set<Digest>> PeerPlans::published_by_replicas() {
  std::set<Digest> ids;
  const common::PublicKey own = trust_.own->authority();
  LFARM_ASSIGN_OR_RETURN(auto bytes, remote_.get(RemoteRecord::kRevocations, place_of_list(own)));
  if (!bytes) return ids;
  auto outer = common::decode_sealed(common::as_bytes(*bytes));
  if (!outer.ok()) return ids;
  if (!common::check_revocations(*outer, own, common::time_of(*outer)).ok()) return ids;
  auto list = common::decode_revocations(outer->bytes);
  if (list.ok()) ids.insert(list->plans.begin(), list->plans.end());
  return ids;
}

Status PeerPlans::publish_revocations(const std::vector<Digest>& ids,
                                      const std::vector<std::string>& plans) {
  std::set<Digest> all;
  std::vector<Digest> places;
  {
    std::lock_guard lock(mutex_);
    withdrawn_.insert(ids.begin(), ids.end());
    for (const std::string& bytes : plans) {
      auto outer = common::decode_sealed(common::as_bytes(bytes));
      auto grant = outer.ok() ? common::decode_grant(outer->bytes) : outer.error();
      auto plan = grant.ok() ? common::decode_plan(grant->plan) : grant.error();
      if (!plan.ok()) continue;
      withdrawn_.insert(content_of(*grant));
      places.push_back(
          common::place_of(grant->tenant, plan->key.digest(), plan->provenance.machine));
    }
    all = withdrawn_;
  }
  if (all.size() > common::kDigestsMax) {
    return common::unsupported("other farms cannot be told of so many revocations");
  }
  LFARM_ASSIGN_OR_RETURN(std::set<Digest> published, published_by_replicas());
  all.insert(published.begin(), published.end());
  {
    std::lock_guard lock(mutex_);
    withdrawn_ = all;
  }
  LFARM_RETURN_IF_ERROR(keep_ids(kWithdrawnName, all));
  common::RevocationList list;
  list.plans.assign(all.begin(), all.end());
  LFARM_ASSIGN_OR_RETURN(common::Sealed sealed, seal(*trust_.own, Statement::kRevocations,
                                                     common::encode_revocations(list)));
  LFARM_RETURN_IF_ERROR(remote_.put(RemoteRecord::kRevocations,
                                    place_of_list(trust_.own->authority()),
                                    common::as_text(common::encode_sealed(sealed))));
  return remove_revoked(places);
}

// What stands there may be a better plan by now.
Status PeerPlans::remove_revoked(std::span<const Digest> places) {
  // Nobody takes a revoked plan from its shard; the holder's next one replaces it.
  if (records_.are_sharded()) return {};
  while (!places.empty()) {
    std::span<const Digest> some = places.first(std::min(places.size(), kPlansAtOnce));
    places = places.subspan(some.size());
    LFARM_ASSIGN_OR_RETURN(auto plans, remote_.get_each(RemoteRecord::kPlan, some));
    std::vector<Digest> revoked;
    for (size_t k = 0; k < some.size(); ++k) {
      if (!plans[k].ok() || !*plans[k]) continue;
      auto outer = common::decode_sealed(common::as_bytes(**plans[k]));
      if (outer.ok() && is_revoked(common::digest_of(outer->bytes))) revoked.push_back(some[k]);
    }
    LFARM_RETURN_IF_ERROR(remote_.remove(RemoteRecord::kPlan, revoked));
  }
  return {};
}

namespace {

// Adds the ids of this store's plans that have one of the names, once each.
Status add_kept(cache::Store& store, const std::set<Digest>& named, std::vector<Digest>& plans) {
  for (const Digest& name : named) {
    LFARM_ASSIGN_OR_RETURN(std::vector<Digest> places, store.plans_named(name));
    for (const Digest& place : places) {
      auto stored = store.get_plan(place, cache::Lookup::kInspect);
      if (!stored.ok() || !*stored) continue;
      const Digest& id = (*stored)->facts.plan_id;
      auto outer = common::decode_sealed(common::as_bytes((*stored)->bytes));
      bool is_named = id == name || (outer.ok() && common::digest_of(outer->bytes) == name);
      if (is_named && !common::contains(plans, id)) plans.push_back(id);
    }
  }
  return {};
}

}  // namespace

void PeerPlans::read_list(const common::PublicKey& peer, const std::optional<std::string>& bytes,
                          News& news, std::set<Digest>& named) {
  bool is_own = peer == trust_.own->authority();
  if (!bytes) {
    std::lock_guard lock(mutex_);
    news.own_is_short = news.own_is_short || (is_own && !withdrawn_.empty());
    return;
  }
  Digest seen = common::digest_of(common::as_bytes(*bytes));
  Digest who = common::digest_of(common::ByteView(peer));
  {
    std::lock_guard lock(mutex_);
    if (lists_[who] == seen) return;
  }
  auto outer = common::decode_sealed(common::as_bytes(*bytes));
  // What was revoked stays so when the delegation has ended.
  Status checked = outer.ok() ? common::check_revocations(*outer, peer, common::time_of(*outer))
                              : Status(outer.error());
  auto list = checked.ok() ? common::decode_revocations(outer->bytes) : checked.error();
  if (!list.ok()) {
    refuse(list.error().message);
    return note_applied({{}, {{who, seen}}});  // refused once
  }
  named.insert(list->plans.begin(), list->plans.end());
  news.lists[who] = seen;
  if (!is_own) return;
  // Clients learn of them from this replica, too, whether or not it has the plans.
  for (const Digest& id : list->plans) {
    auto known = store_.revocation(id);
    if (known.ok() && !*known) news.plans.push_back(id);
  }
  std::lock_guard lock(mutex_);
  news.own_is_short = std::any_of(withdrawn_.begin(), withdrawn_.end(),
                                  [&](const Digest& id) { return !list->holds(id); });
}

PeerPlans::News PeerPlans::learn_revocations() {
  News news;
  std::set<Digest> named;
  // The own list, too: other replicas sign with the same key.
  std::vector<common::PublicKey> farms = trust_.peers;
  farms.push_back(trust_.own->authority());
  std::vector<Digest> places;
  for (const common::PublicKey& farm : farms) places.push_back(place_of_list(farm));
  auto lists = remote_.get_each(RemoteRecord::kRevocations, places);
  news.is_whole = lists.ok();
  for (size_t k = 0; lists.ok() && k < farms.size(); ++k) {
    const auto& list = (*lists)[k];
    if (list.ok()) read_list(farms[k], *list, news, named);
    news.is_whole = news.is_whole && list.ok();
  }
  if (named.empty()) return news;
  std::set<Digest> all;
  {
    std::lock_guard lock(mutex_);
    revoked_.insert(named.begin(), named.end());
    all = revoked_;
  }
  Status kept = keep_ids(kRevokedName, all);
  if (!kept.ok()) {
    common::log_warning(cat("revocations are not kept: ", kept.error().message));
    news.lists.clear();  // and looked at again
  }
  Status found = add_kept(store_, named, news.plans);
  if (found.ok()) return news;
  common::log_warning(cat("cannot look for what was revoked: ", found.error().message));
  News nothing;
  nothing.is_whole = false;
  return nothing;
}

void PeerPlans::note_applied(const News& news) {
  std::lock_guard lock(mutex_);
  for (const auto& [who, list] : news.lists) lists_[who] = list;
  counts_.revoked += news.plans.size();
}

}  // namespace coordinator::service
