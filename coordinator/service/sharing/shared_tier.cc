#include "coordinator/service/sharing/shared_tier.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "common/base/secret_file.h"
#include "common/plan/seal.h"
#include "common/shard/shard.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Result;
using common::Status;

namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr size_t kPasswordBytesMax = 4096;
// Objects may take longer than the question for the plan.
constexpr int64_t kTransferFactor = 10;
constexpr std::chrono::milliseconds kFarewell{1'000};
// Before a store that does not answer is tried again.
constexpr std::chrono::milliseconds kDeliveryPause{100};
constexpr int64_t kClaimsRenewedInATerm = 3;

Result<std::string> read_password(const std::string& path) {
  if (path.empty()) return std::string();
  LFARM_ASSIGN_OR_RETURN(std::string password, common::read_secret_file(path, kPasswordBytesMax));
  while (!password.empty() && (password.back() == '\n' || password.back() == '\r')) {
    password.pop_back();
  }
  if (password.empty()) return common::invalid_input(cat(path, " holds no password"));
  return password;
}

std::string state_of(const cache::RemoteHealth& health, const char* things) {
  if (!health.trouble.empty()) return cat("not used: ", health.trouble);
  return health.refusing.empty() ? "ok" : cat("takes no ", things, ": ", health.refusing);
}

Result<cache::S3Options> check_objects(const cache::S3Place& place) {
  cache::S3Options checked;
  LFARM_ASSIGN_OR_RETURN(checked.address, cache::parse_s3_address(cache::with_environment(place)));
  checked.credentials_file = place.credentials_file;
  LFARM_ASSIGN_OR_RETURN([[maybe_unused]] cache::S3Credentials who,
                         cache::read_s3_credentials(place.credentials_file));
  return checked;
}

PeerTrust trust_of(const SharedTierOptions& options, const SharedSigner& signer) {
  PeerTrust trust{signer, options.trusted};
  std::erase(trust.peers, signer->authority());
  return trust;
}

}  // namespace

Result<SharedTierSetup> check_shared_tier(const SharedTierOptions& options) {
  SharedTierSetup setup;
  setup.options = options;
  if (options.address.empty() && !options.objects.address.empty()) {
    return common::invalid_input(cat(options.objects.address,
                                     " is for objects of plans in a store that farms share; name "
                                     "that store with --remote"));
  }
  if (options.address.empty()) return setup;
  if (!options.objects.address.empty()) {
    LFARM_ASSIGN_OR_RETURN(setup.objects, check_objects(options.objects));
  }
  LFARM_ASSIGN_OR_RETURN(setup.remote.address, cache::parse_remote_address(options.address));
  LFARM_ASSIGN_OR_RETURN(setup.remote.password, read_password(options.password_file));
  setup.remote.answer_ms = options.wait_ms;
  setup.remote.transfer_ms = kTransferFactor * options.wait_ms;
  return setup;
}

SharedTier::Link::Link(const SharedTierSetup& setup, const SharedSigner& signer,
                       cache::Store& store, PlanRepository& plans, Sharding* sharding,
                       const common::Clock& clock)
    : remote(setup.remote),
      records(remote, setup.objects, sharding),
      peers(remote, records, store, plans, trust_of(setup.options, signer), setup.options.claim_ms),
      notes(remote, store, signer),
      measurements(remote, store, signer),
      questions(clock, setup.options.wait_ms) {}

SharedTier::SharedTier(const SharedTierSetup& setup, const SharedSigner& signer,
                       cache::Store& store, PlanRepository& plans, Tenants& tenants,
                       const common::Clock& clock, Sharding* sharding)
    : options_(setup.options),
      store_(store),
      plans_(plans),
      tenants_(tenants),
      clock_(clock),
      sharding_(sharding) {
  if (options_.address.empty()) return;
  link_ = std::make_unique<Link>(setup, signer, store, plans, sharding, clock);
  if (sharding == nullptr) return;
  preparation_ = std::make_unique<ShardPreparation>(
      *sharding, link_->peers, clock, [this](const PeerPlans::News& news) { apply(news); });
}

SharedTier::~SharedTier() = default;

Status SharedTier::begin() {
  if (!link_) return {};
  LFARM_RETURN_IF_ERROR(link_->peers.load());
  // A replica that takes over serves no plan that the one before it revoked: here it waits for the
  // shared store, as long as for any answer. One that is away is asked again, and until it answers
  // this replica goes by what its own store says.
  apply(link_->peers.learn_revocations());
  revocations_.read_ns = clock_.now_ns();
  auto usages = link_->notes.pull();
  if (usages.ok()) adopt(*usages);
  if (sharding_ != nullptr) take_measurements();
  LFARM_ASSIGN_OR_RETURN(std::vector<Digest> ids, store_.revocations());
  if (!ids.empty()) publish(std::move(ids));
  return {};
}

bool SharedTier::may_be_old(const std::string& tenant, const Digest& graph_hash) const {
  return preparation_ && preparation_->is_comparing(common::shard_of(tenant, graph_hash));
}

// ---- Questions ---------------------------------------------------------------------------------

void SharedTier::fetch(const PlanPlace& place, Done done) {
  if (!link_) return done(false);
  // Then those that share theirs with the tenant, of which the plans makes a copy.
  std::vector<PlanPlace> places{place};
  auto sharing = plans_.owners_for(place.tenant, place.plan_key);
  if (sharing.ok()) {
    for (const std::string& owner : *sharing) {
      places.push_back({owner, place.plan_key, place.machine, place.graph_hash});
    }
  }
  Digest what = common::Hasher().text("fetch").digest(place.digest()).finish();
  ask(
      what, [done = std::move(done)](Claim claim) { done(claim == Claim::kFound); },
      [this, places = std::move(places), is_old = may_be_old(place.tenant, place.graph_hash)] {
        if (is_old) (void)link_->peers.compare(places[0]);
        for (size_t k = is_old ? 1 : 0; k < places.size(); ++k) {
          if (link_->peers.fetch(places[k])) return Claim::kFound;
        }
        return Claim::kOurs;
      },
      [](Claim) {});
}

void SharedTier::claim(const PlanPlace& place, Claimed done) {
  Digest what = common::Hasher().text("claim").digest(place.digest()).finish();
  // A right that comes when nobody waits for it any more would be renewed for ever.
  auto late = [this, digest = place.digest()](Claim claim) {
    if (claim == Claim::kOurs) release(digest);
  };
  ask(
      what, std::move(done), [this, place] { return link_->peers.claim(place); }, late);
}

void SharedTier::ask(const Digest& what, Claimed done, std::function<Claim()> question,
                     Claimed late) {
  if (!link_ || link_->remote.rests()) return done(Claim::kOurs);
  link_->questions.ask(what, std::move(done), std::move(question), std::move(late));
}

// ---- What other farms are told -----------------------------------------------------------------

void SharedTier::push(std::function<void()> work) {
  ++pushes_;
  link_->pushing.start([this, work = std::move(work)]() -> Background::Done {
    work();
    return [this] { --pushes_; };
  });
}

void SharedTier::offer(const PlanPlace& place) {
  if (!link_) return;
  if (pushes_ >= kPushesMax) {
    ++dropped_;
    return;
  }
  ++pushes_;
  link_->pushing.start([this, place]() -> Background::Done {
    Status offered = link_->peers.offer(place);
    const bool is_unanswered = is_away(offered);
    if (!offered.ok() && !is_unanswered) {
      common::log_warning(cat("plan key ", place.plan_key.short_hex(),
                              " is not shared: ", offered.error().message));
    }
    return [this, place, is_unanswered] {
      --pushes_;
      if (is_unanswered && preparation_) preparation_->again(place);
    };
  });
}

void SharedTier::release(const Digest& place) {
  if (link_) push([this, place] { link_->peers.release(place); });
}

void SharedTier::deliver_plan(const PlanPlace& place, std::function<void()> done) {
  ++pushes_;
  link_->pushing.start([this, place, done = std::move(done)]() mutable -> Background::Done {
    Status offered = link_->peers.offer(place);
    const bool is_unanswered = is_away(offered);
    bool goes_on = is_unanswered && sharding_->keeper.holds(place.shard());
    if (goes_on) std::this_thread::sleep_for(kDeliveryPause);
    if (!offered.ok() && !goes_on) {
      common::log_warning(cat("plan key ", place.plan_key.short_hex(),
                              " is not in the engine: ", offered.error().message));
    }
    return [this, place, goes_on, is_unanswered, done = std::move(done)]() mutable {
      --pushes_;
      if (goes_on) return deliver_plan(place, std::move(done));
      if (!is_unanswered) done();
    };
  });
}

void SharedTier::end_journal(const std::string& job) {
  if (sharding_ == nullptr) return;
  push([this, job] { sharding_->journals.end(job); });
}

void SharedTier::remove_journal(uint32_t shard, const ShardJournal& journal) {
  if (sharding_ == nullptr) return;
  push([this, shard, journal] { sharding_->journals.remove(shard, journal); });
}

void SharedTier::revoked(const std::vector<Digest>& ids) {
  if (link_) publish(ids);
}

// Before plans that wait to be offered. What cannot be said now is said when this farm looks for
// others' news again.
void SharedTier::publish(std::vector<Digest> ids) {
  ++pushes_;
  link_->pushing.start_first([this, ids = std::move(ids)]() -> Background::Done {
    std::vector<std::string> plans;
    for (const Digest& id : ids) {
      auto blob = store_.get_blob(id);
      if (blob.ok() && *blob) plans.push_back(std::move(**blob));
    }
    Status published = link_->peers.publish_revocations(ids, plans);
    if (!published.ok()) {
      common::log_warning(
          cat("other farms do not know yet what was revoked: ", published.error().message));
    }
    return [this, is_published = published.ok()] {
      --pushes_;
      revocations_.has_unpublished = !is_published;
    };
  });
}

void SharedTier::apply(const PeerPlans::News& news) {
  Status revoked = plans_.revoke_all(news.plans, "revoked by another farm");
  for (const Digest& id : news.plans) {
    revoked.ok() ? common::log_warning(cat("plan ", id.hex(), " is revoked by another farm"))
                 : common::log_error(cat("plan ", id.hex(), " stays: ", revoked.error().message));
  }
  if (revoked.ok()) link_->peers.note_applied(news);
  revocations_.has_unpublished = revocations_.has_unpublished || news.own_is_short;
}

// What a migration has left, in the background, where this coordinator's store has measured
// nothing.
void SharedTier::take_measurements() {
  push([this] {
    auto stats = store_.stats();
    if (!stats.ok() || stats->measurements.count != 0) return;
    auto taken = link_->measurements.take();
    if (!taken.ok()) {
      common::log_warning(cat("kernels are measured again: ", taken.error().message));
    } else if (taken->copied != 0) {
      common::log_info(cat("took ", taken->copied, " measurements of kernels from the engine"));
    }
  });
}

void SharedTier::look_for_revocations() {
  revocations_.is_looking = true;
  const bool has_unpublished = std::exchange(revocations_.has_unpublished, false);
  link_->pushing.start_first([this]() -> Background::Done {
    PeerPlans::News news = link_->peers.learn_revocations();
    return [this, news] {
      revocations_.is_looking = false;
      revocations_.look_ns = clock_.now_ns() + options_.revocations_ms * kNsPerMs;
      if (link_->remote.health().trouble.empty()) revocations_.read_ns = clock_.now_ns();
      apply(news);
    };
  });
  if (has_unpublished) publish({});  // goes before
}

void SharedTier::adopt(const ReplicaNotes::Usages& usages) {
  tenants_.adopt(usages);
  for (const cache::Changes::Named& record : tenants_.take_changes()) {
    Status kept = store_.put_named(record.name, record.bytes);
    if (!kept.ok()) common::log_warning(cat("tenants' usage: ", kept.error().message));
  }
}

// What the shared store does not take now is left when it is next time.
void SharedTier::leave_notes() {
  noting_ = true;
  note_ns_ = clock_.now_ns() + options_.notes_ms * kNsPerMs;
  link_->pushing.start([this]() -> Background::Done {
    ReplicaNotes::Usages usages;
    if (!link_->notes.is_pulled()) {
      auto pulled = link_->notes.pull();
      if (pulled.ok()) usages = std::move(*pulled);
    } else if (Status left = link_->notes.push(); !left.ok()) {
      common::log_warning(
          cat("a replica that takes over now lacks the latest usage, publications "
              "and tuning records: ",
              left.error().message));
    }
    return [this, usages] {
      noting_ = false;
      if (!usages.empty()) adopt(usages);
    };
  });
}

// ---- The loop ----------------------------------------------------------------------------------

std::optional<double> SharedTier::revocations_age_s(int64_t now_ns) const {
  if (!link_) return std::nullopt;
  return static_cast<double>(now_ns - revocations_.read_ns) * 1e-9;
}

int SharedTier::answers_fd() const { return link_ ? link_->questions.fd() : -1; }
int SharedTier::pushes_fd() const { return link_ ? link_->pushing.fd() : -1; }
int SharedTier::shards_fd() const { return preparation_ ? preparation_->fd() : -1; }

void SharedTier::deliver() {
  if (!link_) return;
  link_->questions.deliver();
  link_->pushing.deliver();
  if (preparation_) preparation_->deliver();
}

void SharedTier::turn(int64_t now_ns) {
  if (!link_) return;
  link_->questions.expire(now_ns);
  if (now_ns >= renew_ns_) {
    renew_ns_ = now_ns + options_.claim_ms * kNsPerMs / kClaimsRenewedInATerm;
    push([this] { link_->peers.renew_claims(); });
  }
  if (!revocations_.is_looking && now_ns >= revocations_.look_ns) look_for_revocations();
  if (!noting_ && now_ns >= note_ns_) leave_notes();
  if (preparation_) preparation_->turn(now_ns);
}

void SharedTier::wind_up() {
  if (!link_) return;
  if (link_->remote.rests()) return;
  push([this] {
    link_->peers.leave();
    (void)link_->notes.push();
  });
  (void)link_->pushing.finish(kFarewell);
}

SharedTierFacts SharedTier::facts() const {
  SharedTierFacts facts;
  if (!link_) return facts;
  facts.address = link_->remote.address();
  facts.health = link_->remote.health();
  facts.counts = link_->peers.counts();
  facts.late = link_->questions.late();
  facts.dropped = dropped_;
  facts.state = state_of(facts.health, "plans");
  if (const cache::S3Objects* objects = link_->records.object_store()) {
    facts.objects_address = objects->address();
    facts.objects_health = objects->health();
    facts.objects_state = state_of(facts.objects_health, "objects");
  }
  return facts;
}

}  // namespace coordinator::service
