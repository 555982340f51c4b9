#include "common/wire/security.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <thread>
#include <unordered_map>

#include "common/base/cat.h"
#include "common/base/contains.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/secret_file.h"
#include "common/wire/limits.h"
#include "common/wire/zmq_support.h"

namespace common {
namespace {

constexpr size_t kCurveKeyCharacters = 40;
constexpr size_t kCurveKeyBytes = 32;
constexpr const char* kZapEndpoint = "inproc://zeromq.zap.01";

constexpr Role kRoles[] = {Role::kSubmit, Role::kRead, Role::kWorker, Role::kAdmin, Role::kPublish};

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> words;
  while (true) {
    size_t begin = text.find_first_not_of(separators);
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    size_t end = std::min(text.find_first_of(separators), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

// Z85 text of 32 bytes; empty when they are not 32.
std::string z85_of(ByteView key) {
  char text[kCurveKeyCharacters + 1];
  if (key.size() != kCurveKeyBytes) return {};
  zmq_z85_encode(text, reinterpret_cast<const uint8_t*>(key.data()), key.size());
  return text;
}

}  // namespace

// ---- Keys --------------------------------------------------------------------------------------

KeyPair make_key_pair() {
  char public_key[kCurveKeyCharacters + 1], secret_key[kCurveKeyCharacters + 1];
  do {
    LFARM_CHECK(zmq_curve_keypair(public_key, secret_key) == 0, "ZeroMQ was built without CURVE");
  } while (public_key[0] == '-');
  return {public_key, secret_key};
}

Status check_curve_key(std::string_view key, std::string_view what) {
  uint8_t bytes[kCurveKeyBytes];
  std::string text(key);
  bool ok = text.size() == kCurveKeyCharacters && text.find('\0') == std::string::npos &&
            zmq_z85_decode(bytes, text.c_str()) != nullptr;
  if (ok) return {};
  return invalid_input(
      cat(what, " is not a CURVE key of 40 Z85 characters; 'lfarm keys' makes one"));
}

Result<KeyPair> parse_key_pair(std::string_view text, const std::string& path) {
  auto words = split(text, " \t\r\n");
  if (words.size() == 4 && words[0] == "public" && words[2] == "secret") {
    KeyPair keys{std::string(words[1]), std::string(words[3])};
    char derived[kCurveKeyCharacters + 1];
    if (check_curve_key(keys.public_key, path).ok() &&
        check_curve_key(keys.secret_key, path).ok() &&
        zmq_curve_public(derived, keys.secret_key.c_str()) == 0 && keys.public_key == derived) {
      return keys;
    }
  }
  return corrupt(cat(path, " is not a key file; remove it, and 'lfarm keys new' makes another"));
}

Result<KeyPair> load_key_pair(const std::string& path) {
  LFARM_ASSIGN_OR_RETURN(std::string text, read_secret_file(path, kKeyFileBytesMax));
  return parse_key_pair(text, path);
}

Status save_key_pair(const std::string& path, const KeyPair& keys) {
  return create_secret_file(path,
                            cat("public ", keys.public_key, "\nsecret ", keys.secret_key, "\n"));
}

Result<KeyPair> load_or_create_key_pair(const std::string& path) {
  if (common::file_exists(path)) return load_key_pair(path);
  KeyPair keys = make_key_pair();
  Status saved = save_key_pair(path, keys);
  if (saved.ok()) return keys;
  // Another process was faster.
  if (common::file_exists(path)) return load_key_pair(path);
  return saved.error();
}

// ---- Principals --------------------------------------------------------------------------------

const char* role_name(Role role) {
  switch (role) {
    case Role::kSubmit:
      return "submit";
    case Role::kRead:
      return "read";
    case Role::kWorker:
      return "worker";
    case Role::kAdmin:
      return "admin";
    case Role::kPublish:
      return "publish";
  }
  return "unknown";
}

std::optional<uint8_t> parse_roles(std::string_view text) {
  uint8_t roles = 0;
  for (std::string_view word : split(text, ",")) {
    uint8_t found = 0;
    for (Role role : kRoles) {
      if (word == role_name(role)) found = static_cast<uint8_t>(role);
    }
    if (found == 0) return std::nullopt;
    roles |= found;
  }
  if (roles == 0) return std::nullopt;
  return roles;
}

std::string roles_text(uint8_t roles) {
  std::string text;
  for (Role role : kRoles) {
    if ((roles & static_cast<uint8_t>(role)) == 0) continue;
    if (!text.empty()) text += ',';
    text += role_name(role);
  }
  return text;
}

bool is_tenant_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

Principal local_principal() {
  Principal principal{std::string(kLocalTenant), 0};
  for (Role role : kRoles) principal.roles |= static_cast<uint8_t>(role);
  return principal;
}

namespace {

// Overloads for what a coordinator accepts; everything else only a coordinator sends.
struct MaySend {
  const Principal& who;
  bool operator()(const WorkerHello&) const { return who.has(Role::kWorker); }
  bool operator()(const Credit&) const { return who.has(Role::kWorker); }
  bool operator()(const Heartbeat&) const { return who.has(Role::kWorker); }
  bool operator()(const TaskResult&) const { return who.has(Role::kWorker); }
  bool operator()(const LeaseReturned&) const { return who.has(Role::kWorker); }
  bool operator()(const WorkerBye&) const { return who.has(Role::kWorker); }
  bool operator()(const ClientHello&) const { return true; }
  bool operator()(const Submit&) const { return who.has(Role::kSubmit); }
  bool operator()(const CancelJob&) const {
    return who.has(Role::kSubmit) || who.has(Role::kAdmin);
  }
  bool operator()(const PullPlan&) const { return who.has(Role::kRead) || who.has(Role::kSubmit); }
  bool operator()(const AskRevocations&) const {
    return who.has(Role::kRead) || who.has(Role::kSubmit);
  }
  bool operator()(const StatusRequest&) const {
    return who.has(Role::kRead) || who.has(Role::kAdmin);
  }
  bool operator()(const AskTrace&) const {
    return who.has(Role::kRead) || who.has(Role::kSubmit) || who.has(Role::kAdmin);
  }
  bool operator()(const RevokePlan&) const { return who.has(Role::kAdmin); }
  bool operator()(const ImportPlans&) const { return who.has(Role::kAdmin); }
  bool operator()(const PublishPlan&) const { return who.has(Role::kPublish); }
  bool operator()(const Reverify&) const { return who.has(Role::kSubmit) || who.has(Role::kAdmin); }
  // Which blobs a peer may fetch or bring, the coordinator decides one by one.
  bool operator()(const BlobRequest&) const {
    return who.has(Role::kWorker) || who.has(Role::kRead) || who.has(Role::kSubmit);
  }
  bool operator()(const Blob&) const { return brings_blobs(); }
  bool operator()(const BlobMissing&) const { return brings_blobs(); }
  bool operator()(const Refused&) const { return true; }
  bool operator()(const Ping&) const { return true; }
  bool operator()(const Pong&) const { return true; }
  template <class FromCoordinator>
  bool operator()(const FromCoordinator&) const {
    return false;
  }
  bool brings_blobs() const {
    return who.has(Role::kWorker) || who.has(Role::kSubmit) || who.has(Role::kAdmin);
  }
};

}  // namespace

bool may_send(const Principal& principal, const Message& message) {
  return std::visit(MaySend{principal}, message);
}

// ---- Tenants -----------------------------------------------------------------------------------

namespace {

constexpr std::string_view kTenantWord = "tenant";
constexpr std::string_view kQuotaWord = "quota=";
constexpr std::string_view kShareWord = "share=";
constexpr std::string_view kPrivateWord = "private";
constexpr std::string_view kFarmWord = "farm";
constexpr int64_t kQuotaMax = int64_t{1} << 40;

bool parse_quota(std::string_view text, int64_t* quota_s) {
  const char* end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, *quota_s);
  return read.ec == std::errc() && read.ptr == end && *quota_s >= 0 && *quota_s <= kQuotaMax;
}

bool parse_sharing(std::string_view text, TenantPolicy* policy) {
  if (text == kPrivateWord || text == kFarmWord) {
    policy->sharing = text == kFarmWord ? Sharing::kFarm : Sharing::kPrivate;
    return true;
  }
  policy->sharing = Sharing::kList;
  for (std::string_view tenant : split(text, ",")) policy->with.emplace_back(tenant);
  // A list of one tenant that is called as a word is would be read as the word the next time.
  auto is_name = [](const std::string& name) {
    return is_tenant_name(name) && name != kPrivateWord && name != kFarmWord;
  };
  return !policy->with.empty() && policy->with.size() <= kTenantsMax &&
         std::all_of(policy->with.begin(), policy->with.end(), is_name);
}

}  // namespace

std::string key_id_of(std::string_view public_key) { return digest_of(public_key).short_hex(); }

bool TenantPolicy::shares_with(std::string_view tenant) const {
  if (sharing != Sharing::kList) return sharing == Sharing::kFarm;
  return contains(with, tenant);
}

std::optional<TenantPolicy> parse_policy(std::string_view text) {
  TenantPolicy policy;
  for (std::string_view word : split(text, " \t\r")) {
    bool is_quota = word.starts_with(kQuotaWord);
    bool is_share = word.starts_with(kShareWord);
    bool ok =
        (is_quota && parse_quota(word.substr(kQuotaWord.size()), &policy.quota_s)) ||
        (is_share && policy.with.empty() && parse_sharing(word.substr(kShareWord.size()), &policy));
    if (!ok) return std::nullopt;
  }
  return policy;
}

std::string policy_text(const TenantPolicy& policy) {
  std::string text = cat(kQuotaWord, policy.quota_s, ' ', kShareWord);
  if (policy.sharing != Sharing::kList) {
    return cat(text, policy.sharing == Sharing::kFarm ? kFarmWord : kPrivateWord);
  }
  for (size_t i = 0; i < policy.with.size(); ++i) text += cat(i ? "," : "", policy.with[i]);
  return text;
}

Result<AllowList> AllowList::parse(std::string_view text) {
  AllowList list;
  size_t number = 0;
  while (!text.empty()) {
    ++number;
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    // '#' also occurs inside Z85 keys, so that a comment starts only at a word's beginning.
    auto words = split(line, " \t\r");
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i][0] == '#' && words[i].size() != kCurveKeyCharacters) words.resize(i);
    }
    if (words.empty()) continue;
    if (words[0] == kTenantWord) {
      std::string rest;
      for (size_t i = 2; i < words.size(); ++i) rest += cat(words[i], ' ');
      auto policy =
          words.size() > 2 && is_tenant_name(words[1]) ? parse_policy(rest) : std::nullopt;
      if (!policy) {
        return invalid_input(cat("allow-list line ", number,
                                 " is not 'tenant TENANT quota=SECONDS share=private|farm|T,T'"));
      }
      list.set_policy(std::string(words[1]), *policy);
      continue;
    }
    auto roles = words.size() == 3 ? parse_roles(words[2]) : std::nullopt;
    if (!roles || !check_curve_key(words[0], "key").ok() || !is_tenant_name(words[1])) {
      return invalid_input(
          cat("allow-list line ", number,
              " is not 'KEY TENANT ROLES' with roles of submit,read,worker,admin"));
    }
    list.add(std::string(words[0]), {std::string(words[1]), *roles});
  }
  return list;
}

void AllowList::set_policy(const std::string& tenant, TenantPolicy policy) {
  policies_[tenant] = std::move(policy);
}

void AllowList::add(const std::string& public_key, Principal principal) {
  principal.key_id = key_id_of(public_key);
  entries_[public_key] = std::make_shared<const Principal>(std::move(principal));
}

void AllowList::remove(const std::string& public_key) { entries_.erase(public_key); }

std::string AllowList::text() const {
  std::string text;
  for (const auto& [key, principal] : entries_) {
    text += cat(key, ' ', principal->tenant, ' ', roles_text(principal->roles), '\n');
  }
  for (const auto& [tenant, policy] : policies_) {
    text += cat(kTenantWord, ' ', tenant, ' ', policy_text(policy), '\n');
  }
  return text;
}

const std::shared_ptr<const Principal>* AllowList::find(const std::string& public_key) const {
  auto found = entries_.find(public_key);
  return found == entries_.end() ? nullptr : &found->second;
}

// ---- Authenticator -----------------------------------------------------------------------------

struct Authenticator::State {
  State(std::shared_ptr<void> context, AllowList list)
      : socket(std::move(context), ZMQ_REP), allowed_keys(std::move(list)) {}

  void run();
  void answer();
  void log_denial(const std::string& key, std::string_view address);

  ZmqSocket socket;  // the thread's alone once it runs
  mutable std::shared_mutex mutex;
  AllowList allowed_keys;  // guarded by mutex
  std::atomic<uint64_t> allowed{0}, denied{0};
  std::unordered_map<std::string, LogThrottle> throttles;
  std::atomic<bool> stopping{false};
  Waker waker;
  std::thread thread;
};

void Authenticator::State::run() {
  zmq_pollitem_t items[] = {{socket.get(), 0, ZMQ_POLLIN, 0}, {nullptr, waker.fd(), ZMQ_POLLIN, 0}};
  while (!stopping) {
    if (zmq_poll(items, 2, -1) < 0 && zmq_errno() != EINTR) return;
    if ((items[0].revents & ZMQ_POLLIN) != 0) answer();
  }
  // Closing alone frees the name only when ZeroMQ's reaper comes to it; the next authenticator of
  // this context may start before.
  zmq_unbind(socket.get(), kZapEndpoint);
}

// One request of ZeroMQ RFC 27: version, id, domain, address, identity, mechanism, credentials.
void Authenticator::State::answer() {
  std::vector<std::shared_ptr<ZmqFrame>> frames;
  size_t total = 0;
  if (!receive_frames(socket.get(), 7, frames, total)) return;
  auto text = [&](size_t i) {
    return i < frames.size() ? std::string(as_text(frames[i]->bytes())) : std::string();
  };
  std::string key;
  bool known = false;
  if (total == 7 && text(0) == "1.0" && text(5) == "CURVE") {
    key = z85_of(frames[6]->bytes());
    std::shared_lock lock(mutex);
    known = allowed_keys.find(key) != nullptr;
  }
  if (known) {
    ++allowed;
  } else {
    ++denied;
    log_denial(key, text(3));
  }
  // The user id is the key itself, so that a key taken off the list loses its live connections.
  const std::string reply[] = {"1.0",
                               text(1),
                               known ? "200" : "400",
                               known ? "OK" : "key not on the allow-list",
                               known ? key : "",
                               ""};
  for (size_t i = 0; i < std::size(reply); ++i) {
    ZmqFrame frame{as_bytes(reply[i])};
    frame.send(socket.get(), i + 1 < std::size(reply) ? ZMQ_SNDMORE : 0);
  }
}

void Authenticator::State::log_denial(const std::string& key, std::string_view address) {
  if (throttles.size() >= kDeniedKeysMax) throttles.clear();
  if (uint64_t lines = throttles[key].admit()) {
    log_warning(cat("key ", key.empty() ? "(none)" : key, " from ", clean_text(address),
                    " denied: not on the allow-list", times_text(lines)));
  }
}

Authenticator::Authenticator(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::shared_ptr<Authenticator>> Authenticator::start(WireContext& context,
                                                            AllowList allowed) {
  auto state = std::make_unique<State>(context.handle(), std::move(allowed));
  state->socket.set(ZMQ_LINGER, 0);
  if (zmq_bind(state->socket.get(), kZapEndpoint) != 0) {
    return invalid_input("this process already has an authenticator; replace its allow-list");
  }
  State* running = state.get();
  state->thread = std::thread([running] { running->run(); });
  return std::shared_ptr<Authenticator>(new Authenticator(std::move(state)));
}

Authenticator::~Authenticator() {
  state_->stopping = true;
  state_->waker.wake();
  state_->thread.join();
}

void Authenticator::replace(AllowList allowed) {
  std::unique_lock lock(state_->mutex);
  state_->allowed_keys = std::move(allowed);
}

std::shared_ptr<const Principal> Authenticator::principal_of(const std::string& public_key) const {
  std::shared_lock lock(state_->mutex);
  auto* found = state_->allowed_keys.find(public_key);
  return found == nullptr ? nullptr : *found;
}

uint64_t Authenticator::allowed_count() const { return state_->allowed; }
uint64_t Authenticator::denied_count() const { return state_->denied; }

}  // namespace common
