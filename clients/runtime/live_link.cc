#include "clients/runtime/live_link.h"

#include <algorithm>
#include <utility>

#include "common/base/cat.h"
#include "common/base/incarnation.h"
#include "common/base/log.h"

namespace clients {

using common::cat;
using common::Code;
using common::Status;
using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

namespace {

// Between tries of a farm that is away, which double up to the second.
constexpr milliseconds kRetryFirst{1000};
constexpr milliseconds kRetryLast{60'000};
// Thousands of sessions hear of one plan at once, and fetch it within this time.
constexpr int kSpreadMs = 500;
// A lost message, or a farm that forgot who watches, costs at most this.
constexpr milliseconds kWatchAgain{600'000};
// How often a connection that brings nothing is looked at.
constexpr milliseconds kWaitMax{250};
constexpr milliseconds kFirstPause{200};

}  // namespace

LiveLink::LiveLink(Session& session)
    : session_(session), random_(common::Incarnation::draw().low), thread_([this] { run(); }) {}

LiveLink::~LiveLink() { stop(); }

void LiveLink::stop() {
  waker_.wake();
  if (thread_.joinable()) thread_.join();
}

void LiveLink::run() {
  milliseconds pause_for = kRetryFirst;
  while (session_.check_open().ok()) {
    bool connected = false;
    // Why there is no farm, who asks for a plan says.
    (void)follow(&connected);
    if (connected) pause_for = kRetryFirst;
    pause(pause_for);
    pause_for = std::min(2 * pause_for, kRetryLast);
  }
}

void LiveLink::pause(milliseconds time) {
  common::Poller poller;
  poller.watch_fd(waker_.fd());
  if (!session_.check_open().ok()) return;
  (void)poller.wait(static_cast<int>(time.count()));
  waker_.clear();
}

Status LiveLink::follow(bool* connected) {
  LFARM_ASSIGN_OR_RETURN(auto farm, connect_to_farm(session_.options_.access,
                                                    [this] { return session_.check_open(); }));
  *connected = true;
  revocations_due_ = SteadyClock::now() + milliseconds(session_.options_.revocations_ms);
  uint64_t welcomes = 0;
  for (;;) {
    LFARM_RETURN_IF_ERROR(session_.check_open());
    // Nothing is watched on a new connection.
    if (farm->welcomes() != welcomes) watched_.clear();
    welcomes = farm->welcomes();
    waker_.clear();
    LFARM_RETURN_IF_ERROR(look(*farm));
    Time next = SteadyClock::now() + kWaitMax;
    for (const auto& [request, watched] : watched_) next = std::min(next, watched.due);
    auto wait = std::chrono::ceil<milliseconds>(next - SteadyClock::now());
    LFARM_ASSIGN_OR_RETURN(auto news, farm->news(std::max(wait, milliseconds(0)), waker_.fd()));
    for (const common::PlanNews& one : news) take(one);
  }
}

// Asks for what is due.
Status LiveLink::look(FarmClient& farm) {
  for (const std::shared_ptr<PlanRequest>& request : session_.requests()) {
    auto [found, is_new] = watched_.try_emplace(request);
    Watched& watched = found->second;
    // Who fetches the plan for the first time comes first, so that it comes once.
    if (is_new && !request->plan()) watched.due = SteadyClock::now() + kFirstPause;
    if (SteadyClock::now() < watched.due) continue;
    Status brought = bring(farm, *request, watched);
    watched.due = SteadyClock::now() + kWatchAgain;
    if (brought.ok()) continue;
    bool is_lost = brought.error().code == Code::kUnavailable ||
                   brought.error().code == Code::kTimedOut || !session_.check_open().ok();
    if (is_lost) return brought;
    common::log_warning(cat("the farm's plan cannot be used: ", brought.error().message));
  }
  if (session_.options_.revocations_ms == 0 || SteadyClock::now() < revocations_due_) return {};
  revocations_due_ = SteadyClock::now() + milliseconds(session_.options_.revocations_ms);
  return look_for_revocations(farm);
}

Status LiveLink::bring(FarmClient& farm, PlanRequest& request, Watched& watched) {
  common::PlanKey theirs = request.key_;
  theirs.epoch = farm.compiler_epoch();
  watched.key = theirs.digest();
  // Another process of this machine may have fetched it.
  common::Digest news = std::exchange(watched.news, common::Digest{});
  if (news != common::Digest{}) {
    SharedPlan on_disk = session_.find_on_disk(request.key_);
    if (on_disk && on_disk->id == news) {
      request.offer(std::move(on_disk));
      return {};
    }
  }
  SharedPlan known = request.plan();
  LFARM_ASSIGN_OR_RETURN(
      WatchedPlan pulled,
      session_.resolver_.pull(farm, request.key_, known ? known->id : common::Digest{}, true));
  if (pulled.plan) request.offer(std::make_shared<const PulledPlan>(std::move(*pulled.plan)));
  return {};
}

void LiveLink::take(const common::PlanNews& news) {
  for (auto& [request, watched] : watched_) {
    if (watched.key != news.plan_key) continue;
    SharedPlan known = request->plan();
    if (known && known->id == news.plan) continue;
    watched.news = news.plan;
    auto delay = milliseconds(random_.below(kSpreadMs + 1));
    watched.due = std::min(watched.due, SteadyClock::now() + delay);
  }
}

Status LiveLink::look_for_revocations(FarmClient& farm) {
  LFARM_ASSIGN_OR_RETURN(PlanTrust trust, farm.trust());
  LFARM_ASSIGN_OR_RETURN(trust.revoked, farm.revocations());
  if (!trust.revoked.plans.empty()) session_.withdraw(trust);
  return {};
}

}  // namespace clients
