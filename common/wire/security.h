// Who may talk to a farm: CURVE keys, the allow-list that gives each key a tenant and roles, and
// the authenticator that enforces it on every connection (ZeroMQ's ZAP).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/wire/context.h"
#include "common/wire/messages.h"

namespace common {

// A CURVE key pair; both keys are 40 characters of Z85 text.
struct KeyPair {
  std::string public_key;
  std::string secret_key;
  friend bool operator==(const KeyPair&, const KeyPair&) = default;
};

// The public key never begins with '-', so that command lines take it.
KeyPair make_key_pair();
// The content of a key file: "public KEY" and "secret KEY" lines. kCorrupt when it is none or the
// keys are not a pair; `path` names it in the message.
Result<KeyPair> parse_key_pair(std::string_view text, const std::string& path);
// parse_key_pair() on a file. kInvalidInput when others than the owner may read or
// write it.
Result<KeyPair> load_key_pair(const std::string& path);
// Creates the file with mode 0600. kInvalidInput when there is one already.
Status save_key_pair(const std::string& path, const KeyPair& keys);
// load_key_pair(), or a new pair and save_key_pair() when the file is missing.
Result<KeyPair> load_or_create_key_pair(const std::string& path);
// kInvalidInput unless `key` is a well-formed CURVE key; `what` names it in the message.
Status check_curve_key(std::string_view key, std::string_view what);

// What a client or worker needs to reach a farm with CURVE.
struct ClientKeys {
  KeyPair own;
  std::string server_public_key;
};

enum class Role : uint8_t { kSubmit = 1, kRead = 2, kWorker = 4, kAdmin = 8, kPublish = 16 };
const char* role_name(Role role);
// "submit,read": a sum of Role values, at least one; empty when the text is anything else.
std::optional<uint8_t> parse_roles(std::string_view text);
std::string roles_text(uint8_t roles);
// Printable ASCII without spaces, up to kNameBytesMax characters.
bool is_tenant_name(std::string_view name);

// Who a connection belongs to. Roles are independent: an administrator submits only with kSubmit.
struct Principal {
  std::string tenant;
  uint8_t roles = 0;        // sum of Role values
  std::string key_id = {};  // of its public key, for provenance; empty where there are no keys
  bool has(Role role) const { return (roles & static_cast<uint8_t>(role)) != 0; }
  // Whether the tenant's jobs are this one's to list and cancel.
  bool may_see(std::string_view its_tenant) const {
    return has(Role::kAdmin) || tenant == its_tenant;
  }
  friend bool operator==(const Principal&, const Principal&) = default;
};
// Everyone, where security is off: on loopback, ipc and inproc without keys.
inline constexpr std::string_view kLocalTenant = "local";
Principal local_principal();

// Whether the principal may send this message to a coordinator: workers' messages need kWorker,
// Submit kSubmit, CancelJob kSubmit or kAdmin, PullPlan and AskRevocations kRead or kSubmit,
// StatusRequest kRead or kAdmin, AskTrace any of the three, RevokePlan and ImportPlans kAdmin,
// PublishPlan kPublish, Reverify kSubmit or kAdmin. Messages that only a coordinator sends are
// refused from anyone. Whose jobs and plans a message may name is not decided here.
bool may_send(const Principal& principal, const Message& message);

// Who gets a tenant's plans besides the tenant.
enum class Sharing : uint8_t { kPrivate, kFarm, kList };

// What a tenant may use of the farm, and what it gives to others.
struct TenantPolicy {
  int64_t quota_s = 0;  // worker-seconds in any 24 hours; 0: as many as there are
  Sharing sharing = Sharing::kPrivate;
  std::vector<std::string> with;  // of kList
  bool shares_with(std::string_view tenant) const;
  friend bool operator==(const TenantPolicy&, const TenantPolicy&) = default;
};
// "quota=3600 share=private|farm|TENANT,TENANT", either or both; empty when it is anything else.
std::optional<TenantPolicy> parse_policy(std::string_view text);
std::string policy_text(const TenantPolicy& policy);

// The first digits of a public key's digest.
std::string key_id_of(std::string_view public_key);

// The clients' public keys that a farm knows, and its tenants' policies.
class AllowList {
 public:
  // One entry a line: "KEY TENANT role,role", or "tenant TENANT POLICY" (parse_policy). '#' starts
  // a comment. kInvalidInput names the line.
  static Result<AllowList> parse(std::string_view text);
  void add(const std::string& public_key, Principal principal);
  void remove(const std::string& public_key);
  void set_policy(const std::string& tenant, TenantPolicy policy);
  // Inverse of parse(), ordered by key.
  std::string text() const;
  // Null when the key is not known. Valid while the list is.
  const std::shared_ptr<const Principal>* find(const std::string& public_key) const;
  size_t size() const { return entries_.size(); }
  // By public key.
  const std::map<std::string, std::shared_ptr<const Principal>>& entries() const {
    return entries_;
  }
  // By tenant; who is missing has no quota and shares nothing.
  const std::map<std::string, TenantPolicy>& policies() const { return policies_; }

 private:
  std::map<std::string, std::shared_ptr<const Principal>> entries_;
  std::map<std::string, TenantPolicy> policies_;
};

// Answers for every CURVE connection of one context whether its key is on the allow-list. Runs a
// thread of its own; all functions are thread-safe. Without one, servers with keys cannot be bound.
class Authenticator {
 public:
  // kInvalidInput when the context already has one.
  static Result<std::shared_ptr<Authenticator>> start(WireContext& context, AllowList allowed);
  ~Authenticator();
  Authenticator(const Authenticator&) = delete;
  Authenticator& operator=(const Authenticator&) = delete;

  // Takes effect at once: connections of keys that are gone are no longer listened to.
  void replace(AllowList allowed);
  // Null when the key is not, or no longer, on the list.
  std::shared_ptr<const Principal> principal_of(const std::string& public_key) const;
  // Handshakes since the start. Each denial is also logged, at most once a second.
  uint64_t allowed_count() const;
  uint64_t denied_count() const;

 private:
  struct State;
  explicit Authenticator(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace common
