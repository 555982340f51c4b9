// Plans carried between machines with the real binaries: what the two sides type, and what they are
// told of files that are not what they should be.
#include <clients/runtime/include/lfarm.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/farm/cli/cli_testing.h"

namespace {

using cli_testing::CliTest;
using cli_testing::Invocation;

class CliPlans : public CliTest {
 protected:
  // A state directory of another machine.
  std::vector<std::string> at(const std::string& machine, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--state", path(machine)});
    return arguments;
  }
  std::string said(std::vector<std::string> arguments) {
    Invocation run = lfarm(std::move(arguments));
    EXPECT_EQ(run.wait(), 0) << run.err();
    return run.out();
  }
  // Exit code and the one line.
  void expect_refusal(std::vector<std::string> arguments, int code, const std::string& words) {
    Invocation run = lfarm(std::move(arguments));
    EXPECT_EQ(run.wait(), code) << run.err() << run.out();
    std::string text = run.err();
    EXPECT_EQ(text.rfind("lfarm: ", 0), 0u) << text;
    EXPECT_EQ(text.find('\n'), text.size() - 1) << text;
    EXPECT_NE(text.find(words), std::string::npos) << text;
  }
  // A file with the model's plan, made on the machine "home".
  std::string exported(const std::string& name) {
    std::string file = path(name + ".plans");
    said(at("home", {"submit", model(name), "--budget", "2", "--workers", "1", "--device", "cpu"}));
    said(at("home", {"plan", "export", model(name), "--device", "cpu", "-o", file}));
    return file;
  }
  std::string changed(const std::string& file, size_t at_byte) {
    std::string bytes = common::read_file(file).value();
    bytes[at_byte] = static_cast<char>(bytes[at_byte] ^ 4);
    write("changed", bytes);
    return path("changed");
  }
};

// Digits that name several plans are answered with the ids of all.
TEST_F(CliPlans, AmbiguousIdsAreListed) {
  std::string graph, ids[2];
  for (const char* numerics : {"strict", "relaxed"}) {
    auto submitted = nlohmann::json::parse(
        said(at("home", {"submit", model("mlp"), "--budget", "1", "--workers", "1", "--device",
                         "cpu", "--numerics", numerics, "--json"})));
    graph = submitted["graph_hash"].get<std::string>().substr(0, 10);
    ids[numerics[0] == 's' ? 0 : 1] = submitted["plan"].get<std::string>().substr(0, 12);
  }
  for (const std::string& id : ids) {
    expect_refusal(at("home", {"plan", "show", graph}), 2, id);
    expect_refusal(at("home", {"plan", "export", graph, "-o", path("plans")}), 2, id);
    expect_refusal(at("home", {"cache", "revoke", graph}), 2, id);
  }
  expect_refusal(at("home", {"plan", "show", graph}), 2, "2 plans go by '" + graph + "'");
  expect_refusal(at("home", {"plan", "show", "0123456789ab"}), 2, "no plan for 0123456789ab");
}

TEST_F(CliPlans, KernelsAreCountedInOneWay) {
  auto submitted = nlohmann::json::parse(
      said(at("home", {"submit", model("kv_step"), "--budget", "2", "--device", "cpu", "--json"})));
  auto kernels = submitted["kernels"].get<size_t>();
  EXPECT_GT(kernels, 1u);
  EXPECT_EQ(submitted["reuse"]["kernels"], kernels);
  std::string text =
      said(at("home", {"plan", "show", submitted["plan"].get<std::string>().substr(0, 16)}));
  size_t lines = 0;
  for (size_t found = 0; (found = text.find("\nkernel ", found)) != std::string::npos; ++found) {
    ++lines;
  }
  EXPECT_EQ(lines, kernels) << text;
  auto card = nlohmann::json::parse(
      said(at("home", {"plan", "score", model("kv_step"), "--device", "cpu", "--json"})));
  EXPECT_EQ(card["kernels"].size(), kernels) << text;
}

TEST_F(CliPlans, AFilesPlanRunsWhereNoFarmIs) {
  std::string file = exported("kv_step");
  std::string found =
      said(at("far", {"plan", "verify", file, model("kv_step"), "--device", "cpu"}));
  EXPECT_EQ(found.find("FAILED"), std::string::npos) << found;
  EXPECT_NE(found.find("outputs against the reference: "), std::string::npos) << found;
  EXPECT_FALSE(common::file_exists(path("far/known_farms")));
  said(at("far", {"plan", "import", file, "--client", "--device", "cpu"}));

  std::string state = path("far");
  lfarm_options options;
  lfarm_options_init(&options);
  options.state = state.c_str();
  options.device = "cpu";
  lfarm_session* session = nullptr;
  lfarm_error* error = nullptr;
  ASSERT_EQ(lfarm_session_open(&options, &session, &error), LFARM_OK);
  lfarm_model* loaded = nullptr;
  ASSERT_EQ(lfarm_model_load(session, model("kv_step").c_str(), &loaded, &error), LFARM_OK);
  lfarm_instance* instance = nullptr;
  ASSERT_EQ(lfarm_instance_create(loaded, &instance, &error), LFARM_OK);
  lfarm_plan plan{};
  plan.size = sizeof plan;
  EXPECT_EQ(lfarm_instance_plan(instance, &plan), 1);
  lfarm_instance_free(instance);
  lfarm_model_free(loaded);
  lfarm_session_free(session);
}

TEST_F(CliPlans, AFarmVouchesForWhatItTakesIn) {
  std::string file = exported("kv_step");
  said(at("away", {"plan", "import", file, "--device", "cpu"}));
  std::string shown = said(at("away", {"plan", "show", model("kv_step"), "--device", "cpu"}));
  EXPECT_NE(shown.find("imported  by lfarm"), std::string::npos) << shown;
  EXPECT_NE(shown.find("from plan "), std::string::npos) << shown;
  EXPECT_NE(shown.find("toolchain "), std::string::npos) << shown;
  EXPECT_NE(shown.find("tenant    local"), std::string::npos) << shown;
  std::string hit = said(at("away", {"submit", model("kv_step"), "--device", "cpu", "--json"}));
  EXPECT_EQ(field(hit, "cache"), "hit") << hit;
  said(at("away", {"plan", "verify", model("kv_step"), "--device", "cpu"}));

  // What home revokes goes along with the next file, and holds for what is there already.
  std::string listed = said(at("home", {"cache", "ls", "--json"}));
  said(at("home", {"cache", "revoke", field(listed, "plan").substr(0, 12)}));
  said(at("home", {"submit", model("kv_step"), "--budget", "3", "--seed", "9", "--workers", "1",
                   "--device", "cpu"}));
  std::string newer = path("newer.plans");
  said(at("home", {"plan", "export", "--all", "-o", newer}));
  said(at("away", {"plan", "import", newer, "--device", "cpu"}));
  expect_refusal(at("away", {"plan", "import", file, "--device", "cpu"}), 5, "was revoked");
}

TEST_F(CliPlans, FilesThatAreNotWhatTheyShouldBeAreNamed) {
  std::string file = exported("kv_step");
  std::string bytes = common::read_file(file).value();
  std::vector<std::string> import = {"--client", "--device", "cpu"};
  auto refused = [&](const std::string& which, int code, const std::string& words,
                     std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"plan", "import", which};
    arguments.insert(arguments.end(), import.begin(), import.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_refusal(at("far", arguments), code, words);
    EXPECT_FALSE(common::file_exists(path("far/plans"))) << which;
  };
  write("cut", bytes.substr(0, bytes.size() / 2));
  int damaged = lfarm(at("far", {"plan", "import", path("cut"), "--client"})).wait();
  EXPECT_NE(damaged, 0);
  refused(path("cut"), damaged, "is cut off");
  refused(changed(file, bytes.size() / 3), damaged, "is damaged");
  refused(changed(file, 8), 3, "is of version");
  refused(model("kv_step"), 2, "is no file of plans");
  refused(file, 5, "not with the key of --trust", {"--trust", std::string(64, 'a')});
  Invocation verified = lfarm(at("far", {"plan", "verify", changed(file, bytes.size() / 3)}));
  EXPECT_EQ(verified.wait(), 5) << verified.out();
  EXPECT_NE(verified.out().find("FAILED"), std::string::npos);
  expect_refusal(at("home", {"plan", "export", "-o", path("none")}), 2, "nothing to export");
}

// The plain programs need no farm; two models are compared at each of the sizes.
TEST_F(CliPlans, IoSaysWhatACallMovesAndWhetherAnotherModelPays) {
  std::string plain = said({"plan", "io", model("mlp_dynamic"), "--plain", "--device", "cpu"});
  EXPECT_NE(plain.find("traffic"), std::string::npos) << plain;
  std::string both = said({"plan", "io", model("mlp_dynamic"), model("mlp_dynamic"), "--plain",
                           "--device", "cpu", "--sizes", "s0=2;s0=64", "--json"});
  std::istringstream lines(both);
  int64_t last = 0, count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    auto json = nlohmann::json::parse(line);
    EXPECT_GT(json["first"]["plain"]["launches"].get<int64_t>(), 0);
    auto bytes = json["first"]["plain"]["host_bytes"].get<int64_t>();
    EXPECT_GT(bytes, last) << line;
    last = bytes;
    EXPECT_EQ(json["first"]["plain"], json["second"]["plain"]);
    EXPECT_EQ(json["gate"]["cuda"]["saved_ns"], 0.0);
    EXPECT_FALSE(json["gate"]["cpu"]["passes"].get<bool>());
  }
  EXPECT_EQ(count, 2);
  std::string best = said({"plan", "io", model("mlp_dynamic"), "--device", "cpu", "--budget", "2"});
  EXPECT_NE(best.find("best"), std::string::npos) << best;
  expect_refusal({"plan", "io", model("mlp_dynamic"), "--plain", "--sizes", "s5=2"}, 2,
                 "has no size s5");
}

}  // namespace
