// Keys and trust with the real binaries: what an administrator types, and what users are told who
// are shut out or served by the wrong farm.
#include <sys/stat.h>

#include <atomic>
#include <map>

#include "tests/farm/cli/cli_testing.h"

namespace {

using cli_testing::CliTest;
using cli_testing::Invocation;
using cli_testing::TakenPort;

// Answers every connection with a line that no farm sends, and ends it.
class WebServer {
 public:
  WebServer() : port_(true), thread_([this] { serve(); }) {}
  ~WebServer() {
    stopping_ = true;
    ::shutdown(port_.fd(), SHUT_RDWR);
    thread_.join();
  }
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;
  std::string endpoint() const { return port_.endpoint(); }

 private:
  void serve() {
    while (!stopping_) {
      int fd = ::accept(port_.fd(), nullptr, nullptr);
      if (fd < 0) continue;
      std::string_view line = "HTTP/1.1 400 Bad Request\r\n\r\n";
      char request[64];
      if (::read(fd, request, sizeof request) > 0) (void)!::write(fd, line.data(), line.size());
      ::close(fd);
    }
  }
  TakenPort port_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

class CliKeys : public CliTest {
 protected:
  // The output without its newline; the command must succeed.
  std::string said(std::vector<std::string> arguments) {
    Invocation run = lfarm(std::move(arguments));
    EXPECT_EQ(run.wait(), 0) << run.err();
    std::string out = run.out();
    if (!out.empty()) out.pop_back();
    return out;
  }
  // The plan key in what `plan show` prints.
  static std::string key_in(const std::string& shown) {
    constexpr std::string_view kName = "\n  key       ";
    size_t at = shown.find(kName);
    return at == std::string::npos ? "" : shown.substr(at + kName.size(), 64);
  }
  // One line on standard error that holds the words, and this exit code.
  static void expect_refusal(Invocation& run, int code, const std::string& words) {
    EXPECT_EQ(run.wait(), code) << run.err();
    std::string text = run.err();
    size_t last = text.rfind("lfarm: ");
    ASSERT_NE(last, std::string::npos) << text;
    EXPECT_EQ(text.find('\n', last), text.size() - 1) << text;
    EXPECT_NE(text.find(words, last), std::string::npos) << text;
  }
  struct Farm {
    Invocation process;
    std::string endpoint, key;
  };
  Farm open_farm() {
    Invocation up = start({"up", "--workers", "1", "--listen", "tcp://0.0.0.0:*"});
    EXPECT_TRUE(up.until_out("public key ")) << up.err();
    std::string out = up.out();
    size_t at = out.find("tcp://");
    std::string endpoint = out.substr(at, out.find('\n', at) - at);
    std::string key = out.substr(out.find("public key ") + 11, 40);
    return {std::move(up), endpoint, key};
  }
};

TEST_F(CliKeys, KeysAreMadeGrantedListedAndRevoked) {
  std::string key = said({"keys", "new", path("ada.key")});
  EXPECT_EQ(key.size(), 40u);
  struct stat info {};
  ASSERT_EQ(::stat(path("ada.key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0600U);
  Invocation again = lfarm({"keys", "new", path("ada.key")});
  expect_refusal(again, 2, "keys are not overwritten");

  std::filesystem::create_directories(state());
  write("state/allow", "# the teams\n");
  said({"keys", "grant", key, "team-a", "submit,read"});
  std::string worker = said({"keys", "new", path("worker.key")});
  said({"keys", "grant", path("worker.key"), "workers", "worker"});
  ASSERT_EQ(::stat((state() + "/allow").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0600U);
  std::string list = said({"keys", "ls"});
  EXPECT_NE(list.find(key + "  team-a   submit,read"), std::string::npos) << list;
  EXPECT_NE(list.find(worker + "  workers  worker"), std::string::npos) << list;
  said({"keys", "grant", key, "team-b", "read"});
  std::string file = common::read_file(state() + "/allow").value();
  EXPECT_EQ(file, "# the teams\n" + key + " team-b read\n" + worker + " workers worker\n");
  said({"keys", "revoke", path("worker.key")});
  file = common::read_file(state() + "/allow").value();
  EXPECT_EQ(file, "# the teams\n" + key + " team-b read\n");

  Invocation unknown = lfarm({"keys", "revoke", worker});
  expect_refusal(unknown, 2, "is not in ");
  Invocation no_key = lfarm({"keys", "grant", "Ada", "team-a", "read"});
  expect_refusal(no_key, 2, "neither a public key");
  Invocation no_role = lfarm({"keys", "grant", key, "team-a", "boss"});
  expect_refusal(no_role, 2, "submit,read,worker,admin");
  Invocation no_tenant = lfarm({"keys", "grant", key, "team a", "read"});
  expect_refusal(no_tenant, 2, "no tenant's name");
  write("state/allow", "nonsense\n");
  Invocation broken = lfarm({"keys", "grant", key, "team-a", "read"});
  expect_refusal(broken, 2, "line 1");
  EXPECT_EQ(common::read_file(state() + "/allow").value(), "nonsense\n");
}

TEST_F(CliKeys, AFarmsKeysAreMadeBeforeItRuns) {
  std::string said_first = said({"keys", "init"});
  for (const char* name : {"farm.key", "signing.key", "worker.key", "client_keys", "allow"}) {
    struct stat info {};
    ASSERT_EQ(::stat((state() + "/" + name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_mode & 07777U, 0600U) << name;
  }
  EXPECT_EQ(said({"keys", "init"}), said_first);
  std::string list = said({"keys", "ls"});
  EXPECT_NE(list.find("local   worker"), std::string::npos) << list;
  EXPECT_NE(list.find("local   submit,read,admin"), std::string::npos) << list;
  std::string up_said = open_farm().process.out();
  EXPECT_NE(said_first.find("farm key " + up_said.substr(up_said.find("public key ") + 11, 40)),
            std::string::npos)
      << up_said;
}

TEST_F(CliKeys, GrantsAndRevocationsReachAFarmThatRuns) {
  Farm farm = open_farm();
  said({"keys", "new", path("ada.key")});
  std::vector<std::string> far = {"status",          "--farm",     farm.endpoint, "--state",
                                  path("elsewhere"), "--farm-key", farm.key,      "--keys",
                                  path("ada.key"),   "--json"};
  Invocation stranger = lfarm(far);
  expect_refusal(stranger, 4, "does not know this client's key; ask its administrator");
  said({"keys", "grant", path("ada.key"), "team-a", "read"});
  bool let_in = false;
  for (int attempt = 0; attempt < 100 && !let_in; ++attempt) {
    Invocation run = lfarm(far);
    let_in = run.wait() == 0;
    if (let_in) {
      EXPECT_NE(field(run.out(), "handshakes_denied"), "0") << run.out();
    }
  }
  EXPECT_TRUE(let_in);
  said({"keys", "revoke", path("ada.key")});
  bool shut_out = false;
  for (int attempt = 0; attempt < 100 && !shut_out; ++attempt) shut_out = lfarm(far).wait() == 4;
  EXPECT_TRUE(shut_out);
  std::string log = common::read_file(state() + "/logs/coordinator.log").value();
  EXPECT_NE(log.find("denied: not on the allow-list"), std::string::npos) << log;
}

TEST_F(CliKeys, FailedHandshakesSayWhatIsWrong) {
  Farm farm = open_farm();
  std::string other = said({"keys", "new", path("other.key")});
  std::string local = "tcp://127.0.0.1" + farm.endpoint.substr(farm.endpoint.rfind(':'));
  std::string keys = state() + "/client_keys";
  std::vector<std::string> base = {"status", "--state", path("elsewhere"), "--keys", keys};
  auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = base;
    all.insert(all.end(), more.begin(), more.end());
    return lfarm(all);
  };
  Invocation no_keys = with({"--farm", local});
  expect_refusal(no_keys, 4, "takes only who has keys; ");
  Invocation wrong_key = with({"--farm", local, "--farm-key", other});
  expect_refusal(wrong_key, 4, "the farm's public key (--farm-key) is wrong");
  WebServer web;
  Invocation no_farm = with({"--farm", web.endpoint()});
  expect_refusal(no_farm, 4, "it is no farm");
  Invocation no_farm_either = with({"--farm", web.endpoint(), "--farm-key", other});
  expect_refusal(no_farm_either, 4, "it is no farm");
  ::chmod(keys.c_str(), 0644);
  Invocation open = with({"--farm", local, "--farm-key", farm.key});
  expect_refusal(open, 2, "chmod 600 " + keys);
}

TEST_F(CliKeys, AFarmIsKnownByTheKeyOfTheFirstMeeting) {
  ASSERT_EQ(lfarm({"submit", model("mlp"), "--budget", "4"}).wait(), 0);
  Invocation up = start({"up", "--workers", "1"});
  ASSERT_TRUE(up.until_out("farm at ")) << up.err();
  std::string endpoint = up.out();
  endpoint = endpoint.substr(8, endpoint.find('\n') - 8);
  std::string elsewhere = path("elsewhere");
  std::vector<std::string> far = {"submit", model("mlp"), "--farm", endpoint, "--state", elsewhere};
  EXPECT_EQ(lfarm(far).wait(), 0);
  std::string known = common::read_file(elsewhere + "/known_farms").value();
  std::string key = known.substr(known.find(' ') + 1, 64);
  EXPECT_EQ(known, endpoint + " " + key + "\n");
  EXPECT_EQ(lfarm(far).wait(), 0);
  EXPECT_NE(said({"keys", "ls"}).find(key), std::string::npos);

  // Another farm in its place.
  std::string changed = key;
  changed[0] = changed[0] == '0' ? '1' : '0';
  write("elsewhere/known_farms", endpoint + " " + changed + "\n");
  Invocation refused = lfarm(far);
  expect_refusal(refused, 5, "remove line 1 of " + elsewhere + "/known_farms");
  // A pinned key counts more than what is remembered.
  far.insert(far.end(), {"--trust", key});
  EXPECT_EQ(lfarm(far).wait(), 0);
  far.back() = changed;
  Invocation pinned = lfarm(far);
  expect_refusal(pinned, 5, "signed by another farm");
  far.back() = "abc";
  Invocation malformed = lfarm(far);
  expect_refusal(malformed, 2, "--trust");
}

TEST_F(CliKeys, ARevokedPlanIsRefusedFarAndNear) {
  Invocation first = lfarm({"submit", model("mlp"), "--budget", "4", "--json"});
  ASSERT_EQ(first.wait(), 0) << first.err();
  ASSERT_EQ(lfarm({"submit", model("kv_step"), "--budget", "4"}).wait(), 0);
  std::string plan = field(first.out(), "plan");
  // Somebody's copy of the cache, from before.
  std::string copy = path("copy");
  std::filesystem::remove(state() + "/farm.socket");  // which is nothing to copy
  std::filesystem::copy(state(), copy, std::filesystem::copy_options::recursive);
  EXPECT_EQ(said({"cache", "revoke", plan.substr(0, 10), "--reason", "it is slow"}),
            "plan " + plan + " is revoked");
  Invocation gone = lfarm({"plan", "show", plan});
  EXPECT_EQ(gone.wait(), 2) << gone.out();

  // The copy learns of it with the next pull of anything, and then needs no farm to refuse it.
  EXPECT_EQ(field(said({"submit", model("mlp"), "--state", copy, "--json"}), "cache"), "hit");
  Invocation up = start({"up", "--workers", "1"});
  ASSERT_TRUE(up.until_out("farm at ")) << up.err();
  std::string endpoint = up.out();
  endpoint = endpoint.substr(8, endpoint.find('\n') - 8);
  Invocation pull = lfarm({"submit", model("kv_step"), "--state", copy, "--farm", endpoint});
  EXPECT_EQ(pull.wait(), 0) << pull.err();
  Invocation refused = lfarm({"submit", model("mlp"), "--state", copy});
  expect_refusal(refused, 5, "was revoked by the farm that signed it");
  // As it says.
  said({"cache", "revoke", plan.substr(0, 12), "--state", copy});
  Invocation anew = lfarm({"submit", model("mlp"), "--budget", "4", "--state", copy, "--json"});
  EXPECT_EQ(anew.wait(), 0) << anew.err();
  EXPECT_NE(field(anew.out(), "cache"), "hit");

  // On a farm that runs, by plan key; whoever asks again gets another plan.
  Invocation second = lfarm({"submit", model("mlp"), "--budget", "4", "--json"});
  ASSERT_EQ(second.wait(), 0) << second.err();
  std::string other = field(second.out(), "plan");
  EXPECT_NE(other, plan);
  std::string show = said({"plan", "show", other});
  EXPECT_EQ(said({"cache", "revoke", key_in(show)}), "plan " + other + " is revoked");
  Invocation third = lfarm({"submit", model("mlp"), "--budget", "4", "--json"});
  ASSERT_EQ(third.wait(), 0) << third.err();
  EXPECT_NE(field(third.out(), "plan"), other);
}

// After a theft the farm is stopped first and asked later: what is withdrawn then holds for
// everyone.
TEST_F(CliKeys, WithoutAFarmAPlanKeyWithdrawsAllTenantsPlans) {
  Farm farm = open_farm();
  const std::string tenants[] = {"team-a", "team-b"};
  auto submit = [&](const std::string& tenant) {
    return lfarm({"submit", model("mlp"), "--farm", farm.endpoint, "--farm-key", farm.key, "--keys",
                  path(tenant + ".key"), "--state", path(tenant), "--budget", "2", "--json"});
  };
  std::map<std::string, std::string> plans;
  for (const std::string& tenant : tenants) {
    said({"keys", "new", path(tenant + ".key")});
    said({"keys", "grant", path(tenant + ".key"), tenant, "submit,read"});
    // The farm looks at its list now and then.
    for (int attempt = 0; attempt < 100 && plans[tenant].empty(); ++attempt) {
      Invocation run = submit(tenant);
      if (run.wait() == 0) plans[tenant] = field(run.out(), "plan");
    }
  }
  ASSERT_EQ(plans["team-a"].size(), 64u);
  ASSERT_EQ(plans["team-b"].size(), 64u);
  EXPECT_NE(plans["team-a"], plans["team-b"]);
  farm.process.signal(SIGTERM);
  ASSERT_EQ(farm.process.wait(), 0) << farm.process.err();

  // A plan of one's own is under the same key, and may be looked at.
  plans["local"] = field(said({"submit", model("mlp"), "--budget", "2", "--json"}), "plan");
  std::string shown = said({"plan", "show", plans["local"]});
  ASSERT_EQ(shown.rfind("plan " + plans["local"] + "\n", 0), 0u) << shown;
  std::string revoked = said({"cache", "revoke", key_in(shown)});
  for (const auto& [tenant, plan] : plans) {
    EXPECT_NE(revoked.find("plan " + plan + " is revoked"), std::string::npos) << revoked;
  }
  EXPECT_NE(lfarm({"plan", "show", plans["local"]}).wait(), 0);
  // And the farm that runs next says so to who pulls.
  farm = open_farm();
  for (const std::string& tenant : tenants) {
    Invocation again = submit(tenant);
    EXPECT_EQ(again.wait(), 0) << again.err();
    EXPECT_NE(field(again.out(), "plan"), plans[tenant]);
  }
}

}  // namespace
