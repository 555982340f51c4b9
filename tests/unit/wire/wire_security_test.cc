// Keys, roles and the allow-list decide who reaches a router, and every refusal is seen.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/wire/security.h"
#include "common/wire/socket.h"
#include "wire_peers.h"

namespace common {
namespace {

constexpr uint8_t kSubmitAndRead =
    static_cast<uint8_t>(Role::kSubmit) | static_cast<uint8_t>(Role::kRead);

// A router with keys and an authenticator that knows one client.
struct SecureFarm {
  SecureFarm() {
    AllowList allowed;
    allowed.add(client.public_key, {"team-a", kSubmitAndRead});
    auto started = Authenticator::start(context, allowed);
    EXPECT_TRUE(started.ok());
    authenticator = std::move(started).value();
    RouterOptions options;
    options.endpoint = "tcp://127.0.0.1:*";
    options.keys = server;
    options.authenticator = authenticator;
    options.on_connection = [this](const ConnectionEvent& event) { events.push_back(event); };
    auto bound = RouterSocket::bind(context, options);
    EXPECT_TRUE(bound.ok()) << bound.error().message;
    router = std::make_unique<RouterSocket>(std::move(bound).value());
  }

  DealerSocket connect(std::optional<ClientKeys> keys) {
    auto dealer = DealerSocket::connect(context, {router->endpoint(), std::move(keys), {}});
    EXPECT_TRUE(dealer.ok()) << dealer.error().message;
    return std::move(dealer).value();
  }

  WireContext context;
  KeyPair server = make_key_pair();
  KeyPair client = make_key_pair();
  std::shared_ptr<Authenticator> authenticator;
  std::vector<ConnectionEvent> events;
  std::unique_ptr<RouterSocket> router;
  Peers peers;
};

TEST(WireSecurity, KnownKeysGetTheirTenantAndRoles) {
  SecureFarm farm;
  DealerSocket dealer = farm.connect(ClientKeys{farm.client, farm.server.public_key});
  dealer.send(Ping{1});
  ASSERT_TRUE(
      farm.peers.until(farm.router.get(), &dealer, [&] { return !farm.peers.arrivals.empty(); }));
  EXPECT_EQ(*farm.peers.arrivals[0].principal,
            (Principal{"team-a", kSubmitAndRead, key_id_of(farm.client.public_key)}));
  EXPECT_NE(farm.peers.arrivals[0].address.find("127.0.0.1"), std::string::npos);
  EXPECT_EQ(farm.router->send(farm.peers.arrivals[0].peer, Pong{1}), SendOutcome::kSent);
  EXPECT_TRUE(
      farm.peers.until(farm.router.get(), &dealer, [&] { return !farm.peers.packets.empty(); }));
  EXPECT_EQ(farm.authenticator->allowed_count(), 1u);
  EXPECT_EQ(farm.authenticator->denied_count(), 0u);
}

TEST(WireSecurity, UnknownKeysAreDeniedAndBothSidesKnow) {
  SecureFarm farm;
  DealerSocket dealer = farm.connect(ClientKeys{make_key_pair(), farm.server.public_key});
  dealer.send(Ping{1});
  ASSERT_TRUE(farm.peers.until(farm.router.get(), &dealer, [&] {
    return dealer.counters().denied > 0 && farm.router->counters().denied > 0;
  }));
  EXPECT_GT(farm.authenticator->denied_count(), 0u);
  EXPECT_EQ(farm.authenticator->allowed_count(), 0u);
  EXPECT_TRUE(farm.peers.arrivals.empty());
  Status connection = dealer.connection();
  ASSERT_FALSE(connection.ok());
  EXPECT_EQ(connection.error().code, Code::kUnavailable);
  EXPECT_NE(connection.error().message.find("allow-list"), std::string::npos)
      << connection.error().message;
  bool told = false;
  for (const auto& event : farm.events) told |= event.kind == ConnectionEvent::Kind::kDenied;
  EXPECT_TRUE(told);
}

TEST(WireSecurity, AKeyThatIsAddedLaterGetsIn) {
  SecureFarm farm;
  KeyPair newcomer = make_key_pair();
  DealerSocket dealer = farm.connect(ClientKeys{newcomer, farm.server.public_key});
  ASSERT_TRUE(
      farm.peers.until(farm.router.get(), &dealer, [&] { return dealer.counters().denied > 0; }));
  AllowList allowed;
  allowed.add(newcomer.public_key, {"team-b", static_cast<uint8_t>(Role::kWorker)});
  farm.authenticator->replace(allowed);
  ASSERT_TRUE(
      farm.peers.until(farm.router.get(), &dealer, [&] { return dealer.connection().ok(); }));
  ASSERT_EQ(dealer.send(Ping{2}), SendOutcome::kSent);
  ASSERT_TRUE(
      farm.peers.until(farm.router.get(), &dealer, [&] { return !farm.peers.arrivals.empty(); }));
  EXPECT_EQ(farm.peers.arrivals[0].principal->tenant, "team-b");
}

TEST(WireSecurity, ARevokedKeyIsNoLongerHeard) {
  SecureFarm farm;
  DealerSocket dealer = farm.connect(ClientKeys{farm.client, farm.server.public_key});
  dealer.send(Ping{1});
  ASSERT_TRUE(farm.peers.until(farm.router.get(), &dealer,
                               [&] { return farm.peers.arrivals.size() == 1; }));
  farm.authenticator->replace({});
  dealer.send(Ping{2});
  ASSERT_TRUE(farm.peers.until(farm.router.get(), &dealer,
                               [&] { return farm.router->counters().denied > 0; }));
  EXPECT_EQ(farm.peers.arrivals.size(), 1u);
  // Its connection is dropped as well, and it does not get another.
  ASSERT_TRUE(
      farm.peers.until(farm.router.get(), &dealer, [&] { return dealer.counters().denied > 0; }));
}

TEST(WireSecurity, ARevokedKeyThatIsSilentIsDroppedToo) {
  SecureFarm farm;
  DealerSocket dealer = farm.connect(ClientKeys{farm.client, farm.server.public_key});
  dealer.send(Ping{1});
  ASSERT_TRUE(farm.peers.until(farm.router.get(), &dealer,
                               [&] { return farm.peers.arrivals.size() == 1; }));
  EXPECT_TRUE(farm.router->drop_revoked().empty());
  farm.authenticator->replace({});
  EXPECT_EQ(farm.router->drop_revoked(), std::vector<std::string>{farm.peers.arrivals[0].peer});
  EXPECT_TRUE(farm.router->drop_revoked().empty());
  ASSERT_TRUE(
      farm.peers.until(farm.router.get(), &dealer, [&] { return dealer.counters().denied > 0; }));
  EXPECT_EQ(farm.router->send(farm.peers.arrivals[0].peer, Pong{1}), SendOutcome::kPeerGone);
}

TEST(WireSecurity, PeersWithoutKeysFailTheHandshake) {
  SecureFarm farm;
  DealerSocket dealer = farm.connect(std::nullopt);
  dealer.send(Ping{1});
  ASSERT_TRUE(farm.peers.until(farm.router.get(), &dealer,
                               [&] { return farm.router->counters().bad_handshakes > 0; }));
  EXPECT_FALSE(dealer.connection().ok());
  EXPECT_TRUE(farm.peers.arrivals.empty());
}

TEST(WireSecurity, AWrongServerKeyFailsTheHandshakeOnBothSides) {
  SecureFarm farm;
  DealerSocket dealer = farm.connect(ClientKeys{farm.client, make_key_pair().public_key});
  dealer.send(Ping{1});
  ASSERT_TRUE(farm.peers.until(farm.router.get(), &dealer, [&] {
    return farm.router->counters().bad_handshakes > 0 && dealer.counters().bad_handshakes > 0;
  }));
  EXPECT_NE(dealer.connection().error().message.find("public key"), std::string::npos)
      << dealer.connection().error().message;
  EXPECT_TRUE(farm.peers.arrivals.empty());
}

TEST(WireSecurity, OtherMachinesNeedKeys) {
  WireContext context;
  for (const char* endpoint : {"tcp://*:*", "tcp://0.0.0.0:*"}) {
    auto router = RouterSocket::bind(context, {endpoint, {}, {}, {}});
    ASSERT_FALSE(router.ok()) << endpoint;
    EXPECT_EQ(router.error().code, Code::kInvalidInput);
    EXPECT_NE(router.error().message.find("lfarm keys"), std::string::npos);
  }
  auto dealer = DealerSocket::connect(context, {"tcp://10.0.0.1:5555", {}, {}});
  ASSERT_FALSE(dealer.ok());
  EXPECT_EQ(dealer.error().code, Code::kInvalidInput);

  // Keys alone would let anyone in who has some.
  RouterOptions options;
  options.endpoint = "tcp://127.0.0.1:*";
  options.keys = make_key_pair();
  EXPECT_FALSE(RouterSocket::bind(context, options).ok());
}

TEST(WireSecurity, OneAuthenticatorAContext) {
  WireContext context;
  auto first = Authenticator::start(context, {});
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(Authenticator::start(context, {}).ok());
  first = unavailable("gone");
  EXPECT_TRUE(Authenticator::start(context, {}).ok());
}

TEST(WireSecurity, MalformedKeysAreRefused) {
  EXPECT_TRUE(check_curve_key(make_key_pair().public_key, "key").ok());
  for (std::string key : {std::string(), std::string("short"), std::string(40, '~'),
                          std::string(40, '\0'), std::string(41, 'a')}) {
    EXPECT_FALSE(check_curve_key(key, "key").ok());
  }
}

TEST(WireSecurity, KeyFilesAreMadeOnceAndChecked) {
  auto scratch = ScratchDirectory::create("keys");
  ASSERT_TRUE(scratch.ok());
  std::string path = scratch->path() + "/farm.key";
  auto made = load_or_create_key_pair(path);
  ASSERT_TRUE(made.ok()) << made.error().message;
  auto read = load_or_create_key_pair(path);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*made, *read);
  KeyPair other = make_key_pair();
  std::string mixed = cat("public ", other.public_key, "\nsecret ", made->secret_key, "\n");
  ASSERT_TRUE(write_file_atomic(path, as_bytes(mixed)).ok());
  EXPECT_EQ(load_or_create_key_pair(path).error().code, Code::kCorrupt);
  EXPECT_FALSE(save_key_pair(path, other).ok()) << "keys are overwritten";
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  EXPECT_EQ(load_key_pair(path).error().code, Code::kInvalidInput);
}

TEST(WireSecurity, PublicKeysAreNoOptions) {
  for (int k = 0; k < 500; ++k) EXPECT_NE(make_key_pair().public_key[0], '-');
}

TEST(WireSecurity, AllowListsParseAndPrint) {
  KeyPair a = make_key_pair(), b = make_key_pair();
  std::string text = cat("# the teams\n\n", a.public_key, " team-a submit,read # Ada\n",
                         b.public_key, "\tworkers  worker\r\n");
  auto list = AllowList::parse(text);
  ASSERT_TRUE(list.ok()) << list.error().message;
  ASSERT_EQ(list->size(), 2u);
  ASSERT_NE(list->find(a.public_key), nullptr);
  EXPECT_EQ(**list->find(a.public_key),
            (Principal{"team-a", kSubmitAndRead, key_id_of(a.public_key)}));
  EXPECT_EQ(list->find("nobody"), nullptr);
  auto again = AllowList::parse(list->text());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->text(), list->text());

  for (std::string bad :
       {cat(a.public_key, " team"), cat(a.public_key, " team boss"), cat(a.public_key, " team ,"),
        cat("key team read"), cat(a.public_key, " te\xc3\xa4m read"),
        cat(a.public_key, " team read write")}) {
    auto parsed = AllowList::parse("\n" + bad);
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_NE(parsed.error().message.find("line 2"), std::string::npos);
  }
}

TEST(WireSecurity, AllowListsSayWhatTenantsMayUseAndShare) {
  auto list = AllowList::parse(
      "tenant team-a quota=3600\ntenant team-b share=team-a,team-c quota=5 # both\n"
      "tenant team-c share=farm\n");
  ASSERT_TRUE(list.ok()) << list.error().message;
  const auto& policies = list->policies();
  ASSERT_EQ(policies.size(), 3u);
  EXPECT_EQ(policies.at("team-a"), (TenantPolicy{3600, Sharing::kPrivate, {}}));
  EXPECT_EQ(policies.at("team-b"), (TenantPolicy{5, Sharing::kList, {"team-a", "team-c"}}));
  EXPECT_FALSE(policies.at("team-a").shares_with("team-b"));
  EXPECT_TRUE(policies.at("team-b").shares_with("team-c"));
  EXPECT_FALSE(policies.at("team-b").shares_with("team-d"));
  EXPECT_TRUE(policies.at("team-c").shares_with("team-d"));
  EXPECT_EQ(AllowList::parse(list->text())->policies(), policies);
  for (const char* bad :
       {"tenant", "tenant team-a", "tenant team-a quota=", "tenant team-a quota=-1",
        "tenant team-a quota=1x", "tenant team-a share=", "tenant team-a gift=1",
        "tenant team-a share=,farm", "tenant team-a quota=99999999999999999999"}) {
    auto parsed = AllowList::parse(bad);
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_NE(parsed.error().message.find("line 1"), std::string::npos);
  }
}

TEST(WireSecurity, RolesDecideWhatMaySend) {
  auto with = [](Role role) { return Principal{"t", static_cast<uint8_t>(role)}; };
  EXPECT_TRUE(may_send(with(Role::kWorker), TaskResult{}));
  EXPECT_FALSE(may_send(with(Role::kSubmit), TaskResult{}));
  EXPECT_FALSE(may_send(with(Role::kSubmit), WorkerHello{}));
  EXPECT_TRUE(may_send(with(Role::kSubmit), Submit{}));
  EXPECT_FALSE(may_send(with(Role::kRead), Submit{}));
  EXPECT_FALSE(may_send(with(Role::kWorker), Submit{}));
  EXPECT_TRUE(may_send(with(Role::kRead), PullPlan{}));
  EXPECT_TRUE(may_send(with(Role::kAdmin), CancelJob{}));
  EXPECT_FALSE(may_send(with(Role::kRead), CancelJob{}));
  EXPECT_FALSE(may_send(with(Role::kWorker), StatusRequest{}));
  EXPECT_FALSE(may_send(with(Role::kRead), Blob{}));
  EXPECT_TRUE(may_send(with(Role::kAdmin), ImportPlans{}));
  EXPECT_FALSE(may_send(with(Role::kPublish), ImportPlans{}));
  EXPECT_TRUE(may_send(with(Role::kPublish), PublishPlan{}));
  EXPECT_FALSE(may_send(with(Role::kSubmit), PublishPlan{}));
  EXPECT_FALSE(may_send(with(Role::kRead), Reverify{}));
  // What only a coordinator says is refused from everyone.
  EXPECT_FALSE(may_send(local_principal(), Task{}));
  EXPECT_FALSE(may_send(local_principal(), Welcome{}));
  EXPECT_FALSE(may_send(local_principal(), PlanReady{}));
  EXPECT_TRUE(may_send(local_principal(), Submit{}));
}

}  // namespace
}  // namespace common
