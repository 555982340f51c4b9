// What users see when something is wrong: one line that says what, where and what to do, and the
// documented exit code. Nothing here needs a farm.
#include <cstdlib>

#include "clients/pt2/archive/zip_archive.h"
#include "tests/farm/cli/cli_testing.h"
#include "tests/unit/pt2/pt2_zip_test_util.h"

namespace {

using cli_testing::CliTest;
using cli_testing::Invocation;
using cli_testing::TakenPort;

class CliErrors : public CliTest {
 protected:
  // The error must be exactly one line that begins with the program's name and holds `words`.
  static void expect_error(Invocation& run, int code, const std::string& words) {
    EXPECT_EQ(run.wait(), code) << run.err();
    std::string text = run.err();
    EXPECT_EQ(text.rfind("lfarm: ", 0), 0u) << text;
    ASSERT_FALSE(text.empty());
    EXPECT_EQ(text.find('\n'), text.size() - 1) << text;
    EXPECT_NE(text.find(words), std::string::npos) << text;
    EXPECT_EQ(run.out(), "");
  }

  // The archive of a fixture with one more entry, or with another text in its graph.
  static std::string rebuilt(const std::string& model, const std::string& from,
                             const std::string& to, const std::string& extra = "") {
    auto file = common::MappedFile::open(model).value();
    auto archive = clients::ZipArchive::open({file->bytes(), file}, "fixture").value();
    std::vector<pt2_test::ZipPart> parts;
    for (const clients::ZipEntry& entry : archive->entries()) {
      std::string content = archive->read(entry, 1 << 24).value();
      if (entry.name.ends_with("model.json") && !from.empty()) {
        for (size_t at = 0; (at = content.find(from, at)) != std::string::npos; at += to.size()) {
          content.replace(at, from.size(), to);
        }
      }
      parts.push_back({entry.name, content});
    }
    if (!extra.empty()) parts.push_back({extra, "x"});
    return pt2_test::make_zip(parts);
  }
};

TEST_F(CliErrors, WrongUsage) {
  Invocation unknown = lfarm({"frobnicate"});
  expect_error(unknown, 2, "'lfarm' has no command 'frobnicate'; see 'lfarm --help'");
  Invocation group = lfarm({"cache"});
  expect_error(group, 2, "needs one of its commands: stats, ls");
  Invocation missing = lfarm({"submit"});
  expect_error(missing, 2, "'lfarm submit --help'");
  Invocation value = lfarm({"submit", model("mlp"), "--budget", "many"});
  expect_error(value, 2, "--budget: 'many' is no whole number from 1 to ");
  Invocation seconds = lfarm({"submit", model("mlp"), "--time", "-1"});
  expect_error(seconds, 2, "--time: '-1' is no number from ");
  Invocation keys = lfarm({"keys", "new", path("nowhere/ada.key")});
  expect_error(keys, 2, "cannot create " + path("nowhere/ada.key") + ": ");
  Invocation stage = lfarm({"print", model("mlp"), "--stage", "assembly"});
  expect_error(stage, 2, "--stage");
  Invocation numerics = lfarm({"submit", model("mlp"), "--numerics", "sloppy"});
  expect_error(numerics, 2, "--numerics");
  Invocation in_flight = lfarm({"submit", model("mlp"), "--in-flight", "65"});
  expect_error(in_flight, 2, "--in-flight");
  Invocation job = lfarm({"replay", "one"});
  expect_error(job, 2, "job");
}

TEST_F(CliErrors, MistypedWordsAreToldTheNearest) {
  Invocation command = lfarm({"submt", model("mlp")});
  expect_error(command, 2, "'lfarm' has no command 'submt'; the nearest is 'submit'");
  Invocation below = lfarm({"cache", "stat"});
  expect_error(below, 2, "'lfarm cache' has no command 'stat'; the nearest is 'stats'");
  Invocation option = lfarm({"submit", model("mlp"), "--budgt", "3"});
  expect_error(option, 2, "'lfarm submit' has no option --budgt; the nearest is '--budget'");
  Invocation assigned = lfarm({"submit", model("mlp"), "--numeric=strict"});
  expect_error(assigned, 2, "has no option --numeric; the nearest is '--numerics'");
}

TEST_F(CliErrors, UnknownTargetsAreRefusedBeforeAFarmIsAsked) {
  for (const char* name : {"banana", "cuda-sm_", "cuda-sm_9000", "cpu-x86"}) {
    Invocation submit = lfarm({"submit", model("mlp"), "--target", name});
    expect_error(submit, 2, std::string(name) + " is no target; there are cpu, cpu-x86_64, ");
  }
  EXPECT_FALSE(std::filesystem::exists(state())) << "a farm was started";
}

TEST_F(CliErrors, AFolderStandsForTheModelWithin) {
  Invocation folder = lfarm({"print", "--stage", "hlir", fixture("mlp")});
  EXPECT_EQ(folder.wait(), 0) << folder.err();
  std::filesystem::create_directories(path("hollow"));
  Invocation hollow = lfarm({"submit", path("hollow")});
  expect_error(hollow, 2, path("hollow") + " has no model.pt2");
}

TEST_F(CliErrors, AStateDirectoryThatCannotBeMadeNamesTheOption) {
  write("file", "");
  Invocation submit = lfarm({"submit", model("mlp"), "--state", path("file") + "/state"});
  EXPECT_EQ(submit.wait(), 2);
  EXPECT_NE(submit.err().find("cannot create directory " + path("file") + "/state"),
            std::string::npos)
      << submit.err();
  EXPECT_NE(submit.err().find("--state or $LFARM_STATE"), std::string::npos) << submit.err();
}

TEST_F(CliErrors, AClientWithoutAFarmsProgramsSaysWhatToInstall) {
  std::filesystem::copy_file(paths::binaries("/lfarm"), path("lfarm"));
  Invocation alone(path(""), 1'000, {"up"}, path("lfarm"));
  expect_error(alone, 2, "no " + path("lfarm-coordinator") + "; install the package lfarm-farm");
}

TEST_F(CliErrors, HelpIsNoError) {
  Invocation alone = lfarm({});
  EXPECT_EQ(alone.wait(), 0);
  EXPECT_NE(alone.out().find("  submit"), std::string::npos) << alone.out();
  EXPECT_EQ(alone.err(), "");
  for (const char* command : {"up", "submit", "run", "check", "print", "plan", "cache", "status",
                              "workers", "jobs", "cancel", "replay", "doctor"}) {
    Invocation help = lfarm({command, "--help"});
    EXPECT_EQ(help.wait(), 0) << command;
    EXPECT_NE(help.out().find("Usage: lfarm " + std::string(command)), std::string::npos)
        << help.out();
  }
  Invocation version = lfarm({"--version"});
  EXPECT_EQ(version.wait(), 0);
  EXPECT_EQ(version.out().rfind("lfarm ", 0), 0u);
  for (const char* program : {"/lfarm-coordinator", "/lfarm-worker"}) {
    auto run = common::run_command({paths::binaries(program), "--version"}, 600'000);
    ASSERT_TRUE(run.ok()) << run.error().message;
    EXPECT_EQ(run->status.code, 0) << program;
    EXPECT_EQ(run->output, version.out()) << program;
  }
}

TEST_F(CliErrors, DamagedArchives) {
  std::string whole = common::read_file(model("mlp")).value();
  for (size_t length : {size_t{0}, size_t{10}, whole.size() / 2, whole.size() - 1}) {
    write("truncated.pt2", whole.substr(0, length));
    Invocation run = lfarm({"submit", path("truncated.pt2")});
    expect_error(run, 2, path("truncated.pt2"));
  }
  Invocation absent = lfarm({"submit", path("absent.pt2")});
  expect_error(absent, 2, path("absent.pt2"));
}

TEST_F(CliErrors, ArchivePathThatClimbsOut) {
  for (const char* name : {"model/../../../etc/passwd", "/etc/passwd", "../model.json"}) {
    write("climbing.pt2", rebuilt(model("mlp"), "", "", name));
    Invocation run = lfarm({"submit", path("climbing.pt2")});
    expect_error(run, 2, path("climbing.pt2"));
  }
}

TEST_F(CliErrors, UnsupportedOperator) {
  write("strange.pt2", rebuilt(model("mlp"), "aten.gelu.default", "aten.frobnicate.default"));
  Invocation run = lfarm({"submit", path("strange.pt2")});
  expect_error(run, 3, "aten.frobnicate.default");
  std::filesystem::create_directories(path("strange"));
  std::filesystem::copy(fixture("mlp"), path("strange"), std::filesystem::copy_options::recursive);
  std::filesystem::rename(path("strange.pt2"), path("strange/model.pt2"));
  Invocation check = lfarm({"check", "--reference", path("strange"), fixture("mlp")});
  EXPECT_EQ(check.wait(), 1);
  EXPECT_EQ(check.out(),
            "UNSUPPORTED strange: aten.frobnicate.default\nPASS mlp\n"
            "1 passed, 0 failed, 1 unsupported\n");
}

TEST_F(CliErrors, InputsThatDoNotFit) {
  Invocation shape = lfarm(
      {"run", model("mlp"), "--inputs", fixture("kv_step") + "/inputs", "--outputs", path("out")});
  expect_error(shape, 2, "input 0 is f32[1, 1, 32], but the model takes f32[3, 16]");
  Invocation absent =
      lfarm({"run", model("mlp"), "--inputs", path("nothing"), "--outputs", path("out")});
  expect_error(absent, 2, path("nothing/0.npy"));
  Invocation range = lfarm({"run", model("mlp_dynamic"), "--inputs", fixture("llama") + "/inputs",
                            "--outputs", path("out")});
  expect_error(range, 2, "0.npy");
  EXPECT_FALSE(std::filesystem::exists(path("out")));
}

TEST_F(CliErrors, NoFarm) {
  TakenPort silent(false);
  Invocation unreachable = lfarm({"status", "--farm", silent.endpoint()});
  expect_error(unreachable, 4, silent.endpoint());
  Invocation submit = lfarm({"submit", model("mlp"), "--farm", silent.endpoint()});
  expect_error(submit, 4, silent.endpoint());
  Invocation check = lfarm({"check", fixture("mlp"), "--farm", silent.endpoint()});
  expect_error(check, 4, silent.endpoint());
  Invocation none = lfarm({"jobs"});
  expect_error(none, 4, "lfarm up");
  Invocation far = lfarm({"status", "--farm", "tcp://192.0.2.1:7000"});
  expect_error(far, 2, "--farm-key");
  Invocation malformed = lfarm({"status", "--farm", "nowhere"});
  expect_error(malformed, 2, "nowhere");
  Invocation bare = lfarm({"status", "--farm", "127.0.0.1:1"});
  expect_error(bare, 2, "write tcp://127.0.0.1:1");
}

TEST_F(CliErrors, BusyPort) {
  TakenPort busy(true);
  Invocation up = lfarm({"up", "--listen", busy.endpoint()});
  expect_error(up, 2, busy.endpoint() + ": address in use");
}

TEST_F(CliErrors, DeviceThatIsNotThere) {
  Invocation unknown = lfarm({"up", "--device", "abacus"});
  expect_error(unknown, 2, "--device");
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);  // where there is a GPU
  Invocation up = lfarm({"up", "--device", "cuda"});
  expect_error(up, 2, "--device cuda: ");
  Invocation submit = lfarm({"submit", model("mlp"), "--device", "cuda"});
  expect_error(submit, 2, "--device cuda: ");
  Invocation check = lfarm({"check", fixture("mlp"), "--device", "cuda"});
  expect_error(check, 2, "--device cuda: ");
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_F(CliErrors, EmptyCache) {
  Invocation stats = lfarm({"cache", "stats", "--json"});
  EXPECT_EQ(stats.wait(), 0) << stats.err();
  EXPECT_EQ(stats.out().rfind("{\"plans\":{\"count\":0", 0), 0u) << stats.out();
  Invocation list = lfarm({"cache", "ls"});
  EXPECT_EQ(list.wait(), 0) << list.err();
  EXPECT_FALSE(std::filesystem::exists(state())) << "looking must not make a cache";
  Invocation show = lfarm({"plan", "show", "0123456789ab"});
  EXPECT_NE(show.wait(), 0);
}

TEST_F(CliErrors, CasesThatAreNone) {
  std::filesystem::create_directories(path("hollow"));
  Invocation check =
      lfarm({"check", "--reference", path("hollow"), path("absent"), fixture("mlp")});
  EXPECT_EQ(check.wait(), 1);
  std::string out = check.out();
  EXPECT_EQ(out.rfind("FAIL hollow: ", 0), 0u) << out;
  EXPECT_NE(out.find("\nFAIL absent: "), std::string::npos) << out;
  EXPECT_NE(out.find("\nPASS mlp\n1 passed, 2 failed, 0 unsupported\n"), std::string::npos) << out;
}

// A pipe in the place of an input makes a case hang; a signal to its process makes it crash.
TEST_F(CliErrors, CasesThatHangOrCrash) {
  for (const char* name : {"hanging", "stuck", "crashing"}) {
    std::filesystem::copy(fixture("mlp"), path(name), std::filesystem::copy_options::recursive);
    std::filesystem::remove(path(name) + std::string("/inputs/0.npy"));
    ASSERT_EQ(::mkfifo((path(name) + "/inputs/0.npy").c_str(), 0600), 0);
  }
  Invocation hang =
      lfarm({"check", "--reference", "--timeout", "1", path("hanging"), path("stuck")});
  EXPECT_EQ(hang.wait(), 1);
  EXPECT_EQ(hang.out(),
            "FAIL hanging: no result after 1 s\nFAIL stuck: no result after 1 s\n"
            "0 passed, 2 failed, 0 unsupported\n");

  Invocation crash = start({"check", "--reference", path("crashing"), fixture("mlp")});
  std::vector<pid_t> found;
  ASSERT_TRUE(crash.until([&] {
    found = cli_testing::children(crash.pid(), "lfarm");
    return !found.empty();
  }));
  ::kill(found[0], SIGSEGV);
  EXPECT_EQ(crash.wait(), 1);
  EXPECT_EQ(crash.out().rfind("FAIL crashing: the process died of Segmentation fault", 0), 0u)
      << crash.out();
  EXPECT_NE(crash.out().find("\nPASS mlp\n"), std::string::npos) << crash.out();
}

}  // namespace
