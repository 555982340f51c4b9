// The whole way with the real binaries: submit, cache hit, run, check, and farms that stop.
#include <sstream>

#include "clients/cli/models/case.h"
#include "clients/cli/models/npy.h"
#include "tests/farm/cli/cli_testing.h"

namespace {

using cli_testing::CliTest;
using cli_testing::Invocation;

class CliFarm : public CliTest {
 protected:
  // Of a farm's coordinator; empty when none was ever started.
  std::string coordinator_log() {
    auto text = common::read_file(state() + "/logs/coordinator.log");
    return text.ok() ? *text : "";
  }

  // A farm that runs until it is told to stop.
  Invocation up(std::vector<std::string> arguments = {}) {
    arguments.insert(arguments.begin(), "up");
    Invocation run = start(std::move(arguments));
    EXPECT_TRUE(run.until_out("farm at tcp://127.0.0.1:")) << run.err();
    return run;
  }
  // Whether a line of the text has both.
  static bool has_line(const std::string& text, const std::string& one, const std::string& other) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      line += ' ';
      if (line.find(one) != std::string::npos && line.find(other) != std::string::npos) return true;
    }
    return false;
  }
  // The value of a field in the first line with `message`, with its name.
  static std::string logged(const std::string& text, const std::string& message,
                            const std::string& name) {
    size_t at = text.find(" " + name + "=", text.find(message));
    return at == std::string::npos ? "" : text.substr(at, text.find_first_of(" \n", at + 1) - at);
  }
  // How many the cache of the test's state directory holds.
  int64_t measurements() {
    Invocation stats = lfarm({"cache", "stats", "--json"});
    EXPECT_EQ(stats.wait(), 0) << stats.err();
    static const std::string kBefore = "\"measurements\":{\"count\":";
    std::string out = stats.out();
    size_t at = out.find(kBefore);
    EXPECT_NE(at, std::string::npos) << out;
    return at == std::string::npos ? 0 : std::stoll(out.substr(at + kBefore.size()));
  }
  static std::string endpoint_of(const Invocation& up) {
    std::string text = up.out();
    size_t at = text.find("tcp://");
    return text.substr(at, text.find('\n', at) - at);
  }
};

// One request can be followed by its number and its job's: client, coordinator, worker.
TEST_F(CliFarm, LogsNameTheRequestAndItsJobAllTheWay) {
  ::setenv("LFARM_LOG", "debug", 1);
  Invocation submit = lfarm({"submit", model("mlp"), "--budget", "2", "--json"});
  ASSERT_EQ(submit.wait(), 0) << submit.err();
  std::string request = logged(submit.err(), "a plan is asked for", "request_id");
  std::string job = logged(submit.err(), "a job searches for it", "job");
  ASSERT_GT(request.size(), std::string(" request_id=").size()) << submit.err();
  ASSERT_GT(job.size(), std::string(" job=").size()) << submit.err();
  EXPECT_TRUE(has_line(submit.err(), "a job searches for it", request + job + " "));
  EXPECT_TRUE(has_line(submit.err(), "a plan came", request + job + " "));

  std::string coordinator = coordinator_log();
  EXPECT_TRUE(has_line(coordinator, " audit", " request=Submit" + request + " ")) << coordinator;
  EXPECT_TRUE(has_line(coordinator, "a request waits", request + job + " ")) << coordinator;
  EXPECT_TRUE(has_line(coordinator, "a job is done", job + " ")) << coordinator;
  std::string workers;
  for (const auto& file : std::filesystem::directory_iterator(state() + "/logs")) {
    bool is_worker = file.path().filename().string().starts_with("worker");
    if (is_worker) workers += common::read_file(file.path()).value();
  }
  EXPECT_TRUE(has_line(workers, "a task came", job + " ")) << workers;
  EXPECT_TRUE(has_line(workers, "a task ended: ok", job + " ")) << workers;

  // Another client's number is another one, though it is its first, too.
  Invocation other = lfarm({"submit", model("mlp"), "--budget", "3", "--json"});
  ASSERT_EQ(other.wait(), 0) << other.err();
  std::string its = logged(other.err(), "a plan is asked for", "request_id");
  EXPECT_NE(its, "");
  EXPECT_NE(its, request);
}

TEST_F(CliFarm, SecondSubmitIsAHitOfTheFirst) {
  Invocation first = lfarm({"submit", model("mlp"), "--budget", "6", "--json"});
  ASSERT_EQ(first.wait(), 0) << first.err();
  EXPECT_NE(field(first.out(), "cache"), "hit") << first.out();
  EXPECT_EQ(field(first.out(), "graph_hash").size(), 64u);
  EXPECT_EQ(field(first.out(), "plan").size(), 64u);
  EXPECT_GT(std::stoll(field(first.out(), "best_ns")), 0);
  EXPECT_GT(std::stoll(field(first.out(), "baseline_ns")), 0);
  EXPECT_GT(std::stoll(field(first.out(), "candidates")), 0);
  EXPECT_GT(std::stod(field(first.out(), "seconds")), 0);
  EXPECT_NE(first.out().find("\"breakdown\":{\"translate\":"), std::string::npos) << first.out();

  // The same graph under another name; nothing may be started for it.
  std::filesystem::copy(model("mlp"), path("renamed.pt2"));
  std::string log = coordinator_log();
  ASSERT_NE(log, "");
  Invocation second = lfarm({"submit", path("renamed.pt2"), "--json"});
  ASSERT_EQ(second.wait(), 0) << second.err();
  EXPECT_EQ(field(second.out(), "cache"), "hit");
  EXPECT_EQ(field(second.out(), "plan"), field(first.out(), "plan"));
  EXPECT_EQ(field(second.out(), "best_ns"), field(first.out(), "best_ns"));
  EXPECT_EQ(coordinator_log(), log);
  EXPECT_EQ(second.err(), "");

  Invocation replay = lfarm({"replay", "1", "--json"});
  EXPECT_EQ(replay.wait(), 0) << replay.err();
  EXPECT_NE(replay.out().find("\"equal\":true"), std::string::npos) << replay.out();
  EXPECT_EQ(field(replay.out().substr(replay.out().rfind("{\"job\"")), "plan"),
            field(first.out(), "plan"));
  Invocation told = lfarm({"replay", "1"});
  EXPECT_NE(told.out().find("plan " + field(first.out(), "plan") + ", as the job had it\n"),
            std::string::npos)
      << told.out();
  Invocation no_such = lfarm({"replay", "99"});
  EXPECT_EQ(no_such.wait(), 2);

  Invocation show = lfarm({"plan", "show", field(first.out(), "plan").substr(0, 10)});
  EXPECT_EQ(show.wait(), 0) << show.err();
  EXPECT_NE(show.out().find(field(first.out(), "graph_hash").substr(0, 12)), std::string::npos);
  EXPECT_EQ(show.out().rfind("plan " + field(first.out(), "plan") + "\n  key       " +
                                 field(first.out(), "key") + "\n",
                             0),
            0u)
      << show.out();
  Invocation of_key =
      lfarm({"plan", "show", field(first.out(), "key").substr(0, 12), "--predicted"});
  EXPECT_EQ(of_key.out().rfind("plan " + field(first.out(), "plan") + "\n", 0), 0u)
      << of_key.out() << of_key.err();
  Invocation explain =
      lfarm({"plan", "explain", model("kv_step"), field(first.out(), "key").substr(0, 12)});
  EXPECT_NE(explain.out().find("second: plan " + field(first.out(), "plan").substr(0, 12)),
            std::string::npos)
      << explain.out() << explain.err();
  // With the model at hand the same, and the modules whose weights kernels read.
  Invocation of_model = lfarm({"plan", "show", model("mlp")});
  EXPECT_EQ(of_model.out().rfind(show.out(), 0), 0u) << of_model.out() << show.out();
  EXPECT_NE(of_model.out().find("reads weights of a at make_models.py:92\n"), std::string::npos)
      << of_model.out();
  Invocation stats = lfarm({"cache", "stats", "--json"});
  EXPECT_EQ(stats.out().rfind("{\"plans\":{\"count\":1,", 0), 0u) << stats.out();
}

TEST_F(CliFarm, RefusesAPlanThatAnotherKeySigned) {
  ASSERT_EQ(lfarm({"submit", model("mlp"), "--budget", "4"}).wait(), 0);
  std::filesystem::remove(state() + "/signing.key");
  Invocation without = lfarm({"submit", model("mlp")});
  EXPECT_EQ(without.wait(), 5) << without.err();
  // Another farm's key in its place.
  std::string other = path("other");
  ASSERT_EQ(lfarm({"submit", model("kv_step"), "--budget", "4", "--state", other}).wait(), 0);
  std::filesystem::copy(other + "/signing.key", state() + "/signing.key");
  Invocation forged = lfarm({"submit", model("mlp")});
  EXPECT_EQ(forged.wait(), 5) << forged.err();
  EXPECT_EQ(forged.err().rfind("lfarm: ", 0), 0u);
}

TEST_F(CliFarm, RunGivesWhatPyTorchGave) {
  Invocation run = lfarm({"run", model("llama"), "--inputs", fixture("llama") + "/inputs",
                          "--outputs", path("out"), "--budget", "6"});
  ASSERT_EQ(run.wait(), 0) << run.err();
  auto actual = clients::read_npy(path("out/0.npy"), common::DType::kFloat32, false);
  auto expected =
      clients::read_npy(fixture("llama") + "/outputs/0.npy", common::DType::kFloat32, false);
  ASSERT_TRUE(actual.ok()) << actual.error().message;
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  auto what = clients::difference(*actual, *expected, {1e-3, 1e-4});
  EXPECT_FALSE(what.has_value()) << *what;
  // Rotary tables and masks of fixed sizes are computed when weights are bound.
  Invocation show = lfarm({"plan", "show", model("llama")});
  ASSERT_EQ(show.wait(), 0) << show.err();
  EXPECT_NE(show.out().find(" at-load\n"), std::string::npos) << show.out();
}

TEST_F(CliFarm, AnIndexThatPyTorchRefusesIsReported) {
  std::filesystem::copy(fixture("llama"), path("case"), std::filesystem::copy_options::recursive);
  auto ids = clients::read_npy(path("case/inputs/0.npy"), common::DType::kInt64, false);
  ASSERT_TRUE(ids.ok()) << ids.error().message;
  common::HostTensor wrong = ids->clone().value();
  wrong.set_int(7, 99999);
  wrong.set_int(9, -1);
  ASSERT_TRUE(clients::write_npy(path("case/inputs/0.npy"), wrong, false).ok());
  std::string line = "index 99999 at position 7 is outside of [0, 256)";
  Invocation run = lfarm({"run", model("llama"), "--inputs", path("case/inputs"), "--outputs",
                          path("wrong"), "--budget", "3"});
  EXPECT_EQ(run.wait(), 1) << run.err();
  EXPECT_NE(run.err().find("\nlfarm: input 0 ('"), std::string::npos) << run.err();
  EXPECT_NE(run.err().find(line), std::string::npos) << run.err();
  EXPECT_FALSE(std::filesystem::exists(path("wrong/0.npy")));
  Invocation check = lfarm({"check", path("case"), "--budget", "3"});
  EXPECT_EQ(check.wait(), 1) << check.err();
  EXPECT_NE((check.out() + check.err()).find(line), std::string::npos) << check.out();
}

// From the clients' own disk; who submits wants to know what the farm has now.
TEST_F(CliFarm, RunNeedsNoFarmForAPlanThatItGaveBefore) {
  cli_testing::Invocation farm = start({"up", "--workers", "1"});
  ASSERT_TRUE(farm.until_out("farm at tcp://127.0.0.1:")) << farm.err();
  std::string text = farm.out();
  size_t at = text.find("tcp://");
  std::string endpoint = text.substr(at, text.find('\n', at) - at);
  std::vector<std::string> run_it = {
      "run",       model("mlp"),    "--inputs", fixture("mlp") + "/inputs",
      "--outputs", path("outputs"), "--budget", "3",
      "--farm",    endpoint,        "--state",  path("client")};
  Invocation first = lfarm(run_it);
  ASSERT_EQ(first.wait(), 0) << first.err();
  farm.signal(SIGTERM);
  ASSERT_EQ(farm.wait(), 0) << farm.err();
  Invocation second = lfarm(run_it);
  EXPECT_EQ(second.wait(), 0) << second.err();
  Invocation submit =
      lfarm({"submit", model("mlp"), "--farm", endpoint, "--state", path("client")});
  EXPECT_EQ(submit.wait(), 4) << submit.err();
}

TEST_F(CliFarm, CheckRunsStepsAndSizesAndSeesWrongOutputs) {
  std::filesystem::copy(fixture("mlp"), path("wrong"), std::filesystem::copy_options::recursive);
  std::filesystem::copy(fixture("mlp_dynamic"), path("late"),
                        std::filesystem::copy_options::recursive);
  std::filesystem::copy(fixture("mlp_dynamic") + "/sizes/1/outputs/0.npy",
                        path("late/sizes/2/outputs/0.npy"),
                        std::filesystem::copy_options::overwrite_existing);
  auto expected =
      clients::read_npy(path("wrong/outputs/0.npy"), common::DType::kFloat32, false).value();
  expected.set(5, 100);
  ASSERT_TRUE(clients::write_npy(path("wrong/outputs/0.npy"), expected, false).ok());
  Invocation check =
      lfarm({"check", fixture("mlp"), path("wrong"), fixture("mlp_dynamic"), path("late"),
             fixture("kv_step"), "--budget", "4", "--json", path("result.json")});
  EXPECT_EQ(check.wait(), 1) << check.err();
  std::string out = check.out();
  EXPECT_EQ(out.rfind("PASS mlp\nFAIL wrong: output 0: 1 of 12 elements differ, most at [1, 1]", 0),
            0u)
      << out;
  EXPECT_NE(out.find("\nPASS mlp_dynamic\nFAIL late: size 2: output 0: is f32[7, 4], expected "
                     "f32[1, 4]\nPASS kv_step\n3 passed, 2 failed, 0 unsupported\n"),
            std::string::npos)
      << out;
  std::string json = common::read_file(path("result.json")).value();
  EXPECT_NE(json.find("\"passed\": 3"), std::string::npos) << json;
}

TEST_F(CliFarm, TwoSubmitsShareAStateDirectory) {
  Invocation one = start({"submit", model("mlp"), "--budget", "6", "--json"});
  Invocation two = start({"submit", model("mlp"), "--budget", "6", "--json"});
  Invocation other = start({"submit", model("kv_step"), "--budget", "6", "--json"});
  EXPECT_EQ(one.wait(), 0) << one.err();
  EXPECT_EQ(two.wait(), 0) << two.err();
  EXPECT_EQ(other.wait(), 0) << other.err();
  EXPECT_EQ(field(one.out(), "plan"), field(two.out(), "plan"));
  int hits =
      (field(one.out(), "cache") == "hit" ? 1 : 0) + (field(two.out(), "cache") == "hit" ? 1 : 0);
  EXPECT_EQ(hits, 1) << one.out() << two.out();
}

TEST_F(CliFarm, InterruptedSubmitStopsItsFarm) {
  Invocation submit = start({"submit", model("llama"), "--time", "1000"});
  ASSERT_TRUE(submit.until_err("search")) << submit.err();
  std::vector<pid_t> coordinator = cli_testing::children(submit.pid(), "lfarm-coordinator");
  ASSERT_EQ(coordinator.size(), 1u);
  submit.signal(SIGINT);
  EXPECT_EQ(submit.wait(), 1) << submit.err();
  EXPECT_NE(submit.err().find("lfarm: stopped by Ctrl-C"), std::string::npos) << submit.err();
  EXPECT_NE(::kill(coordinator[0], 0), 0) << "the coordinator outlived its client";
  EXPECT_EQ(lfarm({"cache", "stats"}).wait(), 0);
}

// Digits that name several plans are answered with the ids of all, here and at a farm alike.
TEST_F(CliFarm, AmbiguousIdsAreListed) {
  Invocation farm = up();
  std::string graph, ids[2];
  for (const char* numerics : {"strict", "relaxed"}) {
    Invocation submit =
        lfarm({"submit", model("mlp"), "--budget", "1", "--numerics", numerics, "--json"});
    ASSERT_EQ(submit.wait(), 0) << submit.err();
    graph = field(submit.out(), "graph_hash");
    ids[numerics[0] == 's' ? 0 : 1] = field(submit.out(), "plan").substr(0, 12);
  }
  ASSERT_EQ(graph.size(), 64u);
  for (bool at_farm : {false, true}) {
    for (const char* command : {"show", "export"}) {
      std::vector<std::string> line{"plan", command, graph.substr(0, 10)};
      if (command[0] == 'e') line.insert(line.end(), {"-o", path("plans")});
      if (at_farm) line.insert(line.end(), {"--farm", endpoint_of(farm)});
      Invocation asked = lfarm(line);
      EXPECT_EQ(asked.wait(), 2) << asked.out();
      EXPECT_NE(asked.err().find("2 plans go by '" + graph.substr(0, 10) + "'"), std::string::npos)
          << asked.err();
      for (const std::string& id : ids) {
        EXPECT_NE(asked.err().find(id), std::string::npos) << asked.err();
      }
    }
  }
  Invocation none = lfarm({"plan", "show", "0123456789ab", "--farm", endpoint_of(farm)});
  EXPECT_EQ(none.wait(), 2);
  EXPECT_NE(none.err().find("no plan for 0123456789ab"), std::string::npos) << none.err();
  farm.signal(SIGTERM);
  EXPECT_EQ(farm.wait(), 0) << farm.err();
}

TEST_F(CliFarm, UpServesOtherCommands) {
  Invocation farm = up();
  Invocation submit = lfarm({"submit", model("mlp"), "--budget", "6", "--json"});
  ASSERT_EQ(submit.wait(), 0) << submit.err();
  Invocation named = lfarm({"submit", model("mlp"), "--farm", endpoint_of(farm), "--json",
                            "--state", path("elsewhere")});
  ASSERT_EQ(named.wait(), 0) << named.err();
  EXPECT_EQ(field(named.out(), "cache"), "hit");
  EXPECT_EQ(field(named.out(), "plan"), field(submit.out(), "plan"));
  Invocation remote_plan =
      lfarm({"plan", "show", field(submit.out(), "plan"), "--farm", endpoint_of(farm)});
  EXPECT_EQ(remote_plan.wait(), 0) << remote_plan.err();
  EXPECT_EQ(remote_plan.out().rfind("plan " + field(submit.out(), "plan") + "\n", 0), 0u);
  std::string plan = field(submit.out(), "plan");
  Invocation by_digits = lfarm({"plan", "show", plan.substr(0, 12), "--farm", endpoint_of(farm),
                                "--state", path("elsewhere")});
  EXPECT_EQ(by_digits.wait(), 0) << by_digits.err();
  EXPECT_EQ(by_digits.out(), remote_plan.out());
  Invocation listed = lfarm({"cache", "ls", "--farm", endpoint_of(farm), "--state", path("none")});
  EXPECT_NE(listed.out().find(plan.substr(0, 12)), std::string::npos)
      << listed.out() << listed.err();
  for (const char* where : {"--farm", "--state"}) {
    std::string place = std::string(where) == "--farm" ? endpoint_of(farm) : path("state");
    Invocation all = lfarm({"cache", "ls", "--all", "--json", where, place});
    EXPECT_EQ(all.wait(), 0) << all.err();
    EXPECT_EQ(field(all.out(), "plan"), plan) << where << all.out();
    EXPECT_EQ(field(all.out(), "total"), "1") << where << all.out();
  }

  Invocation status = lfarm({"status", "--json"});
  EXPECT_EQ(field(status.out(), "workers"), "2") << status.out() << status.err();
  // Of the one counter, whoever asks and in whichever way.
  EXPECT_EQ(field(status.out(), "hits"), "1") << status.out();
  Invocation counted = lfarm({"cache", "stats", "--json"});
  for (const char* counter : {"hits", "saved_ms"}) {
    EXPECT_EQ(field(counted.out(), counter), field(status.out(), counter)) << counted.out();
  }
  Invocation workers = lfarm({"workers"});
  EXPECT_NE(workers.out().find("worker-2"), std::string::npos) << workers.out();
  Invocation jobs = lfarm({"jobs"});
  EXPECT_EQ(jobs.out(), "no job runs; 'lfarm jobs --all' lists the latest 1 that have ended\n")
      << jobs.err();
  Invocation ended = lfarm({"jobs", "--all"});
  EXPECT_NE(ended.out().find("done"), std::string::npos) << ended.out() << ended.err();
  // Of the commands above only the one that asks is left, once the farm has looked: each question
  // is a client for some seconds, too.
  EXPECT_TRUE(farm.until([&] {
    std::this_thread::sleep_for(std::chrono::seconds(8));
    return field(lfarm({"status", "--json"}).out(), "clients") == "1";
  }));
  Invocation cancel = lfarm({"cancel", "12345"});
  EXPECT_EQ(cancel.wait(), 2) << cancel.err();
  Invocation stats = lfarm({"cache", "stats", "--json", "--farm", endpoint_of(farm)});
  EXPECT_EQ(stats.out().rfind("{\"plans\":{\"count\":1,", 0), 0u) << stats.out();

  Invocation second = lfarm({"up"});
  EXPECT_EQ(second.wait(), 2);
  EXPECT_NE(second.err().find(common::cat("process ", farm.pid())), std::string::npos)
      << second.err();
  farm.signal(SIGTERM);
  EXPECT_EQ(farm.wait(), 0) << farm.err();
  Invocation afterwards = lfarm({"cache", "stats", "--json"});
  for (const char* counter : {"hits", "saved_ms"}) {
    EXPECT_EQ(field(afterwards.out(), counter), field(status.out(), counter)) << afterwards.out();
  }
}

TEST_F(CliFarm, SigtermInTheMiddleOfASearchEndsWell) {
  Invocation farm = up();
  Invocation submit = start({"submit", model("llama"), "--time", "1000"});
  ASSERT_TRUE(submit.until_err("search")) << submit.err();
  // A candidate has been measured; whether any was better is the search's luck.
  ASSERT_TRUE(submit.until([&] { return measurements() > 0; })) << submit.err();
  Invocation jobs = lfarm({"jobs", "--json"});
  EXPECT_NE(field(jobs.out(), "job"), "") << jobs.out() << jobs.err();
  farm.signal(SIGTERM);
  EXPECT_EQ(farm.wait(), 0) << farm.err();
  EXPECT_EQ(submit.wait(), 4) << submit.err();
  // The cache opens, and what was measured is in it.
  EXPECT_GT(measurements(), 0);
  EXPECT_EQ(lfarm({"cache", "gc"}).wait(), 0);
}

TEST_F(CliFarm, FarmForOtherMachinesUsesKeys) {
  Invocation farm = start({"up", "--workers", "1", "--listen", "tcp://0.0.0.0:*"});
  ASSERT_TRUE(farm.until_out("public key ")) << farm.err();
  std::string out = farm.out();
  std::string key = out.substr(out.find("public key ") + 11, 40);
  std::string endpoint = endpoint_of(farm);
  // On this machine the keys lie in the state directory.
  Invocation submit = lfarm({"submit", model("mlp"), "--budget", "4"});
  EXPECT_EQ(submit.wait(), 0) << submit.err();
  // From elsewhere the farm must know the client's key.
  std::vector<std::string> far = {"status",          "--farm",     endpoint, "--state",
                                  path("elsewhere"), "--farm-key", key};
  Invocation stranger = lfarm(far);
  EXPECT_EQ(stranger.wait(), 4) << stranger.err();
  EXPECT_NE(stranger.err().find("does not know this client's key"), std::string::npos)
      << stranger.err();
  far.insert(far.end(), {"--keys", state() + "/client_keys"});
  Invocation known = lfarm(far);
  EXPECT_EQ(known.wait(), 0) << known.err();
  EXPECT_NE(known.out().find("workers"), std::string::npos) << known.out();
}

TEST_F(CliFarm, CancelledJobsEnd) {
  Invocation farm = up({"--workers", "1"});
  Invocation submit = start({"submit", model("llama"), "--time", "1000"});
  ASSERT_TRUE(submit.until_err("search")) << submit.err();
  Invocation jobs = lfarm({"jobs", "--json"});
  Invocation cancel = lfarm({"cancel", field(jobs.out(), "job")});
  EXPECT_EQ(cancel.wait(), 0) << cancel.err();
  EXPECT_EQ(submit.wait(), 4) << submit.err();
  EXPECT_NE(submit.err().find("was cancelled"), std::string::npos) << submit.err();
  Invocation ended = lfarm({"jobs", "--all"});
  EXPECT_NE(ended.out().find("cancelled"), std::string::npos) << ended.out();
  EXPECT_EQ(ended.out().find("failed"), std::string::npos) << ended.out();

  Invocation first = start({"submit", model("llama"), "--time", "1000"});
  Invocation second = start({"submit", model("kv_step"), "--time", "1000"});
  ASSERT_TRUE(first.until_err("search")) << first.err();
  ASSERT_TRUE(second.until_err("search")) << second.err();
  EXPECT_EQ(lfarm({"cancel"}).wait(), 2);
  Invocation all = lfarm({"cancel", "--all"});
  EXPECT_EQ(all.wait(), 0) << all.err();
  EXPECT_EQ(first.wait(), 4) << first.err();
  EXPECT_EQ(second.wait(), 4) << second.err();
  EXPECT_EQ(lfarm({"cancel", "--all"}).out(), "no job runs\n");
}

TEST_F(CliFarm, DeadProcessesAreStartedAgain) {
  Invocation farm = up({"--workers", "1"});
  std::vector<pid_t> worker = cli_testing::children(farm.pid(), "lfarm-worker");
  ASSERT_EQ(worker.size(), 1u);
  ::kill(worker[0], SIGKILL);
  ASSERT_TRUE(farm.until([&] {
    auto now = cli_testing::children(farm.pid(), "lfarm-worker");
    return now.size() == 1 && now[0] != worker[0];
  }));
  std::vector<pid_t> coordinator = cli_testing::children(farm.pid(), "lfarm-coordinator");
  ASSERT_EQ(coordinator.size(), 1u);
  ::kill(coordinator[0], SIGKILL);
  ASSERT_TRUE(farm.until([&] {
    auto now = cli_testing::children(farm.pid(), "lfarm-coordinator");
    return now.size() == 1 && now[0] != coordinator[0];
  }));
  // On the same endpoint as before, with the worker that was there.
  Invocation submit = lfarm({"submit", model("mlp"), "--budget", "4", "--farm", endpoint_of(farm)});
  EXPECT_EQ(submit.wait(), 0) << submit.err();
}

TEST_F(CliFarm, SubmitOutlivesItsCoordinator) {
  Invocation farm = up({"--workers", "1"});
  Invocation submit = start({"submit", model("llama"), "--budget", "48", "--json"});
  Invocation watch = start({"submit", model("llama"), "--budget", "48"});
  ASSERT_TRUE(watch.until_err("search")) << watch.err();
  std::vector<pid_t> coordinator = cli_testing::children(farm.pid(), "lfarm-coordinator");
  ASSERT_EQ(coordinator.size(), 1u);
  ::kill(coordinator[0], SIGKILL);
  EXPECT_EQ(submit.wait(), 0) << submit.err();
  EXPECT_EQ(watch.wait(), 0) << watch.err();
  EXPECT_NE(watch.out().find(field(submit.out(), "plan")), std::string::npos) << watch.out();
}

TEST_F(CliFarm, PrintStopsAfterAStage) {
  Invocation hlir = lfarm({"print", "--stage", "hlir", model("llama")});
  ASSERT_EQ(hlir.wait(), 0) << hlir.err();
  EXPECT_NE(hlir.out().find("loop f32[] trip_count=4"), std::string::npos)
      << hlir.out().substr(0, 2000);
  Invocation egraph = lfarm({"print", "--stage", "egraph", model("mlp")});
  EXPECT_EQ(egraph.wait(), 0) << egraph.err();
  EXPECT_NE(egraph.out().find("e-classes"), std::string::npos) << egraph.out();
  Invocation candidates = lfarm({"print", "--stage", "candidates", model("mlp")});
  EXPECT_EQ(candidates.wait(), 0) << candidates.err();
  EXPECT_NE(candidates.out().find("call 0"), std::string::npos) << candidates.out();
  Invocation gpu =
      lfarm({"print", "--stage", "candidates", model("mlp"), "--target", "cuda-sm_80"});
  EXPECT_EQ(gpu.wait(), 0) << gpu.err();
  EXPECT_NE(gpu.out().find("call 0"), std::string::npos) << gpu.out();
  EXPECT_NE(gpu.out(), candidates.out()) << "a processor's candidates for a GPU";
  Invocation all = lfarm({"print", "--stages", model("mlp"), "--target", "cuda-sm_80"});
  ASSERT_EQ(all.wait(), 0) << all.err();
  size_t place = 0;
  for (const char* stage : {"hlir", "layouts", "roll", "regions", "egraph", "candidates", "program",
                            "nests", "source"}) {
    place = all.out().find(std::string("=== ") + stage + ": ", place);
    EXPECT_NE(place, std::string::npos) << stage;
  }
  EXPECT_NE(all.out().find("__global__"), std::string::npos);
  EXPECT_NE(all.out().find(gpu.out()), std::string::npos) << "one stage and all of them differ";
  EXPECT_EQ(lfarm({"print", model("mlp")}).wait(), 2);
  Invocation source = lfarm({"print", "--stage", "source", model("mlp")});
  EXPECT_EQ(source.wait(), 0) << source.err();
  EXPECT_NE(source.out().find("void lf_"), std::string::npos) << source.out();
  Invocation plan = lfarm({"print", "--stage", "plan", model("mlp"), "--budget", "4"});
  ASSERT_EQ(plan.wait(), 0) << plan.err();
  EXPECT_NE(plan.out().find("call 0"), std::string::npos) << plan.out();
}

}  // namespace
