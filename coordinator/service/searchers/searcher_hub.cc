#include "coordinator/service/searchers/searcher_hub.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"

namespace coordinator::service {

using common::cat;

namespace {

constexpr size_t kArrivalsAtOnce = 64;
constexpr int kTurnMs = 250;
constexpr int64_t kNsPerMs = 1'000'000;
constexpr size_t kSearchersMax = 4'096;
constexpr uint32_t kPlacesMax = 1'024;  // of one searcher

struct Searcher {
  std::string name;
  uint32_t places = 0;
  int64_t heard_ns = 0;
  uint64_t cpu_us = 0;
  std::map<uint64_t, std::shared_ptr<SeatInbox>> searches = {};
  size_t room() const { return places > searches.size() ? places - searches.size() : 0; }
};

struct Outgoing {
  std::string peer;
  std::string frame;
};

}  // namespace

struct SearcherHub::State {
  State(common::FrameRouter its_router, int64_t its_silence_ms)
      : router(std::move(its_router)), silence_ms(its_silence_ms) {}

  void run();
  void receive(const common::FrameArrival& arrival);
  std::shared_ptr<SeatInbox> inbox_of(const std::string& peer, const SearchFrame& frame);
  void hello(const common::FrameArrival& arrival, std::string_view body);
  void send_all();
  void send_now(const std::string& peer, std::string frame);
  void post(const std::string& peer, std::string frame);
  void leave(const std::string& peer, uint64_t search);
  // These hold the mutex.
  void lose(const std::string& peer, const std::string& reason);
  Searcher* roomiest(std::string* peer);

  common::FrameRouter router;  // the thread's alone
  const int64_t silence_ms;
  const common::SteadyClock clock{};
  common::Waker waker;
  std::atomic<bool> stopping{false};
  std::mutex mutex;  // guards what follows
  std::condition_variable room;
  std::map<std::string, Searcher> searchers;  // by peer
  std::vector<Outgoing> outgoing;
  uint64_t searches_made = 0;
  uint64_t lost = 0;
  bool is_closed = false;
};

void SearcherHub::State::run() {
  std::vector<common::FrameArrival> arrivals;
  while (!stopping) {
    router.wait(kTurnMs, waker.fd());
    waker.clear();
    do {
      arrivals.clear();
      router.receive(arrivals, kArrivalsAtOnce);
      for (const common::FrameArrival& arrival : arrivals) receive(arrival);
    } while (arrivals.size() == kArrivalsAtOnce);
    send_all();
    std::lock_guard lock(mutex);
    std::vector<std::string> silent;
    for (const auto& [peer, searcher] : searchers) {
      if (clock.now_ns() - searcher.heard_ns > silence_ms * kNsPerMs) silent.push_back(peer);
    }
    for (const std::string& peer : silent) lose(peer, cat("it was silent for ", silence_ms, " ms"));
  }
}

void SearcherHub::State::receive(const common::FrameArrival& arrival) {
  auto frame = parse_frame(common::as_text(arrival.bytes.bytes));
  if (!frame.ok()) {
    std::lock_guard lock(mutex);
    return lose(arrival.peer, frame.error().message);
  }
  if (frame->kind == FrameKind::kHello) return hello(arrival, frame->body);
  std::shared_ptr<SeatInbox> inbox = inbox_of(arrival.peer, *frame);
  if (!inbox) return;
  // Most frames are lookups: waking the thread of the search for each costs as much again.
  if (frame->kind == FrameKind::kLookup) {
    auto answers = inbox->answer(frame->body);
    if (answers) {
      return send_now(arrival.peer,
                      search_frame(FrameKind::kAnswers, frame->search, *std::move(answers)));
    }
  }
  inbox->deliver(arrival.bytes);
}

// Null where the frame says something of the searcher itself, or nobody waits for it.
std::shared_ptr<SeatInbox> SearcherHub::State::inbox_of(const std::string& peer,
                                                        const SearchFrame& frame) {
  std::lock_guard lock(mutex);
  auto found = searchers.find(peer);
  if (found == searchers.end()) {
    SearchFailure failure{common::Code::kUnavailable,
                          "the coordinator does not know this connection; say hello"};
    outgoing.push_back({peer, search_frame(FrameKind::kRefused, 0, encode(failure))});
    return nullptr;
  }
  Searcher& searcher = found->second;
  searcher.heard_ns = clock.now_ns();
  if (frame.kind == FrameKind::kBeat) {
    auto beat = decode<SearcherBeat>(frame.body);
    if (beat.ok()) searcher.cpu_us = beat->cpu_us;
    return nullptr;
  }
  // Of a search that was given up meanwhile, nobody waits for it.
  auto search = searcher.searches.find(frame.search);
  return search != searcher.searches.end() ? search->second : nullptr;
}

void SearcherHub::State::hello(const common::FrameArrival& arrival, std::string_view body) {
  auto hello = decode<SearcherHello>(body);
  SearchFailure refusal;
  if (!hello.ok()) {
    refusal = {hello.error().code, hello.error().message};
  } else if (!arrival.principal->has(common::Role::kWorker)) {
    refusal = {common::Code::kInvalidInput,
               "this key may not search; ask the farm's administrator for the worker role"};
  } else if (hello->build != searcher_build()) {
    refusal = {common::Code::kUnsupported, cat("this searcher is of ", hello->build,
                                               ", the coordinator of ", searcher_build())};
  }
  if (!refusal.message.empty()) {
    common::log_warning(cat("a searcher is refused: ", refusal.message));
    return send_now(arrival.peer, search_frame(FrameKind::kRefused, 0, encode(refusal)));
  }
  {
    std::lock_guard lock(mutex);
    if (searchers.size() >= kSearchersMax) return;
    lose(arrival.peer, "it began anew");
    Searcher& searcher = searchers[arrival.peer];
    searcher.name = hello->name;
    searcher.places = std::min(hello->searches, kPlacesMax);
    searcher.heard_ns = clock.now_ns();
    common::log_info(cat("searcher ", searcher.name, " takes ", searcher.places, " searches"));
  }
  send_now(arrival.peer, search_frame(FrameKind::kWelcome, 0));
  room.notify_all();
}

void SearcherHub::State::lose(const std::string& peer, const std::string& reason) {
  auto found = searchers.find(peer);
  if (found == searchers.end()) return;
  common::log_warning(cat("searcher ", found->second.name, " is lost with ",
                          found->second.searches.size(), " searches: ", reason));
  lost += found->second.searches.empty() ? 0 : 1;
  for (auto& [search, inbox] : found->second.searches) inbox->close(reason);
  searchers.erase(found);
}

void SearcherHub::State::send_all() {
  std::vector<Outgoing> all;
  {
    std::lock_guard lock(mutex);
    all.swap(outgoing);
  }
  for (Outgoing& one : all) send_now(one.peer, std::move(one.frame));
}

void SearcherHub::State::send_now(const std::string& peer, std::string frame) {
  common::SendOutcome outcome = router.send(peer, std::move(frame));
  if (outcome == common::SendOutcome::kSent) return;
  std::lock_guard lock(mutex);
  lose(peer, outcome == common::SendOutcome::kFull ? "it reads nothing" : "its connection ended");
}

void SearcherHub::State::post(const std::string& peer, std::string frame) {
  {
    std::lock_guard lock(mutex);
    if (searchers.contains(peer)) outgoing.push_back({peer, std::move(frame)});
  }
  waker.wake();
}

void SearcherHub::State::leave(const std::string& peer, uint64_t search) {
  {
    std::lock_guard lock(mutex);
    auto found = searchers.find(peer);
    if (found == searchers.end() || found->second.searches.erase(search) == 0) return;
    outgoing.push_back({peer, search_frame(FrameKind::kClose, search)});
  }
  room.notify_all();
  waker.wake();
}

Searcher* SearcherHub::State::roomiest(std::string* peer) {
  Searcher* best = nullptr;
  for (auto& [its_peer, searcher] : searchers) {
    if (searcher.room() == 0 || (best != nullptr && searcher.room() <= best->room())) continue;
    best = &searcher;
    *peer = its_peer;
  }
  return best;
}

SearcherHub::SearcherHub(std::shared_ptr<State> state) : state_(std::move(state)) {
  thread_ = std::thread([running = state_.get()] { running->run(); });
}

common::Result<std::unique_ptr<SearcherHub>> SearcherHub::start(common::WireContext& context,
                                                                common::FrameRouterOptions options,
                                                                int64_t silence_ms) {
  LFARM_ASSIGN_OR_RETURN(common::FrameRouter router,
                         common::FrameRouter::bind(context, std::move(options)));
  return std::unique_ptr<SearcherHub>(
      new SearcherHub(std::make_shared<State>(std::move(router), silence_ms)));
}

SearcherHub::~SearcherHub() {
  close();
  state_->stopping = true;
  state_->waker.wake();
  thread_.join();
}

const std::string& SearcherHub::endpoint() const { return state_->router.endpoint(); }

std::unique_ptr<Seat> SearcherHub::take_seat(int64_t wait_ms) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  std::string peer;
  Searcher* searcher = nullptr;
  auto has_room = [&] {
    searcher = state.roomiest(&peer);
    return state.is_closed || searcher != nullptr;
  };
  state.room.wait_for(lock, std::chrono::milliseconds(wait_ms), has_room);
  if (state.is_closed || searcher == nullptr) return nullptr;
  uint64_t search = ++state.searches_made;
  auto inbox = std::make_shared<SeatInbox>();
  searcher->searches.emplace(search, inbox);
  return std::make_unique<Seat>(
      search, searcher->name, std::move(inbox),
      [state = state_, peer](std::string frame) { state->post(peer, std::move(frame)); },
      [state = state_, peer, search] { state->leave(peer, search); });
}

SearcherCounts SearcherHub::counts() const {
  std::lock_guard lock(state_->mutex);
  SearcherCounts counts;
  counts.lost = state_->lost;
  for (const auto& [peer, searcher] : state_->searchers) {
    ++counts.searchers;
    counts.places += searcher.places;
    counts.searches += searcher.searches.size();
    counts.cpu_s += static_cast<double>(searcher.cpu_us) * 1e-6;
  }
  return counts;
}

void SearcherHub::close() {
  {
    std::lock_guard lock(state_->mutex);
    state_->is_closed = true;
    for (auto& [peer, searcher] : state_->searchers) {
      for (auto& [search, inbox] : searcher.searches) inbox->close("the coordinator stops");
    }
  }
  state_->room.notify_all();
}

bool SearcherHub::is_closed() const {
  std::lock_guard lock(state_->mutex);
  return state_->is_closed;
}

}  // namespace coordinator::service
