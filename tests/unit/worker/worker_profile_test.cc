// The executor child under candidates that misbehave in every way, and the outcomes that the
// worker makes of it. This binary is its own executor child.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/base/files.h"
#include "common/runtime/device/cpu_device.h"
#include "common/wire/ir_codec.h"
#include "tests/unit/runtime/late_device.h"
#include "tests/unit/runtime/runtime_testing.h"
#include "tests/unit/worker/profile_testing.h"
#include "worker/profile/device_lock.h"

namespace worker {
namespace {

using common::Expr;
using common::InputKind;
using common::TaskOutcome;

// Each computes out = x + w over s[0] elements, or fails to. b[0] = x, b[1] = w, b[2] = out.
constexpr const char* kKernels = R"(
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#define F(k) ((float*)b[k])
#define SUM(count) for (int64_t i = 0; i < (count); ++i) F(2)[i] = F(0)[i] + F(1)[i];
KERNEL(good) { SUM(s[0]) }
KERNEL(wrong) { SUM(s[0]) F(2)[s[0] - 1] += 0.01f * F(2)[s[0] - 1] + 0.01f; }
KERNEL(half_written) { SUM(s[0] / 2) }
KERNEL(unwritten) { }
KERNEL(past_end) { SUM(s[0]) F(2)[s[0] + 3] = 1; }
KERNEL(writes_input) { SUM(s[0]) F(0)[0] += 1; }
KERNEL(segfaults) { SUM(s[0]) *(volatile int*)8 = 1; }
KERNEL(aborts) { abort(); }
KERNEL(exits) { _exit(0); }
KERNEL(spins) { SUM(s[0]) for (volatile int k = 0;; ++k) {} }
KERNEL(smashes_heap) { SUM(s[0]) volatile char* p = malloc(64); for (int k = -64; k < 4096; ++k) p[k] = 0x41;
  free((void*)p); }
/* right in the first call of a process, stale afterwards */
KERNEL(cheats) { static int calls; if (calls++ == 0) { SUM(s[0]) } }
/* right for the inputs that it saw first */
KERNEL(knows_one) { static float first; if (first == 0) first = F(0)[0]; SUM(s[0])
  if (F(0)[0] != first) F(2)[0] += 1; }
KERNEL(fears_zeros) { SUM(s[0]) if (F(0)[0] == 0) F(2)[0] += 1; }
KERNEL(fears_one) { SUM(s[0]) if (s[0] == 1) F(2)[0] += 1; }
/* slow at large sizes */
KERNEL(slow_at_large) { SUM(s[0]) if (s[0] > 1000) usleep(20000); }
KERNEL(fears_second_block) { SUM(s[0]) if (s[0] > 512) F(2)[512] += 1; }
KERNEL(fears_ragged_end) { SUM(s[0]) if (s[0] > 1024 && s[0] % 4 != 0) F(2)[s[0] - 1] += 1; }
KERNEL(slow) { SUM(s[0]) usleep(20000); }
KERNEL(stops) { SUM(s[0]) raise(SIGSTOP); }
/* until there is no more: what malloc then gives is written to */
KERNEL(leaks) { SUM(s[0]) for (;;) memset(malloc(16 << 20), 1, 16 << 20); }
static int deeper(int k) { volatile char big[1 << 16]; big[0] = (char)k; return deeper(k + 1) + big[0]; }
KERNEL(overflows_stack) { SUM(s[0]) F(2)[0] += (float)deeper(0); }
/* right only where what the kernel's name says is refused */
#define RIGHT_IF(refused) { SUM(s[0]) if (!(refused)) F(2)[0] += 1; }
KERNEL(connects) RIGHT_IF(socket(AF_INET, SOCK_STREAM, 0) < 0)
KERNEL(forks) RIGHT_IF(fork() < 0)
KERNEL(signals_its_worker) RIGHT_IF(kill(getppid(), 0) < 0)
KERNEL(starts_programs) RIGHT_IF((execl("/bin/true", "true", (char*)0), 1))
/* right only where this works */
static void* nothing(void* p) { return p; }
KERNEL(starts_threads) { pthread_t t; SUM(s[0]) if (pthread_create(&t, 0, nothing, 0)) F(2)[0] += 1;
  else pthread_join(t, 0); }
KERNEL(writes_files) { SUM(s[0]) char name[4096];
  snprintf(name, sizeof name, "%s/left-behind", getenv("TMPDIR"));
  int fd = open(name, O_WRONLY | O_CREAT, 0600); if (fd < 0) F(2)[0] += 1; close(fd); }
)";

// Of an executor: what a candidate that leaks fills in a moment.
constexpr uint64_t kMemoryBytesMax = uint64_t{1} << 30;

class ProfileTest : public ProfileFixture {
 protected:
  static void SetUpTestSuite() {
    shared_object = new common::Bytes(common::compile_object(kKernels));
  }
  static void TearDownTestSuite() { delete shared_object; }

  ProfileTest() : ProfileFixture(1, common::SandboxProfile::kComputing) {}

  ProfileRequest request(const char* entry) {
    common::PlanMaker m;
    m.plan.symbols = {{1, 4096}};
    Expr n = Expr::symbol(0);
    int x = m.input({n}), w = m.input({n}, InputKind::kWeight), out = m.output({n});
    m.call(m.kernel(entry), {x, w}, {out}, {n});
    ProfileRequest result =
        request_for(m.finish(*shared_object), *shared_object, common::host_cpu_target());
    result.measure.time_max_ms = 50;
    result.measure.threads = 1;
    return result;
  }
  using ProfileFixture::run;
  ProfileReply run(const char* entry) { return run(request(entry)); }
  const common::Sandbox& client_sandbox() { return *sandbox(common::SandboxProfile::kComputing); }
  bool measure_is_on(const std::string& name) {
    for (const common::SandboxMeasure& m : client_sandbox().measures()) {
      if (m.name == name) return m.on;
    }
    ADD_FAILURE() << "no measure is called " << name;
    return false;
  }
  std::string child_environment(const std::string& name) const {
    std::string all =
        common::read_file(common::cat("/proc/", client_.child_pid(), "/environ")).value();
    size_t at = all.find(name + "=");
    return at == std::string::npos ? "" : std::string(all.c_str() + at + name.size() + 1);
  }
  void expect_healthy() {
    ProfileReply reply = run("good");
    EXPECT_EQ(reply.outcome, TaskOutcome::kOk) << reply.message;
  }

  static common::Bytes* shared_object;
};
common::Bytes* ProfileTest::shared_object = nullptr;

TEST_F(ProfileTest, GoodCandidatesAreMeasured) { expect_measured(request("good"), 1); }

TEST_F(ProfileTest, PerKernelTimesOnlyWhenAskedFor) {
  ProfileRequest r = request("good");
  r.measure.per_kernel = false;
  EXPECT_TRUE(run(r).measured.call_ns.empty());
}

TEST_F(ProfileTest, RivalsAreMeasuredInTurns) {
  ProfileRequest r = request("slow");
  r.rivals = {request("good").plan, request("slow").plan};
  r.measure.time_max_ms = 1'500;
  r.measure.repetitions = 15;
  ProfileReply reply = run(r);
  ASSERT_EQ(reply.outcome, TaskOutcome::kOk) << reply.message;
  ASSERT_EQ(reply.rivals.size(), 2u);
  EXPECT_GT(reply.measured.total_ns, 15'000'000u);
  EXPECT_GT(reply.rivals[0].speedup_low, 10);
  EXPECT_LT(reply.rivals[1].speedup, 2);
  EXPECT_GT(reply.rivals[1].speedup, 0.5);
}

TEST_F(ProfileTest, ARivalThatIsWrongHereEndsTheComparison) {
  ProfileRequest r = request("good");
  r.rivals = {request("wrong").plan};
  EXPECT_EQ(run(r).outcome, TaskOutcome::kWrong);
  expect_healthy();
}

TEST_F(ProfileTest, SlowCandidatesAreGivenUp) {
  ProfileRequest r = request("slow");
  r.measure.give_up_ns = 1'000'000;
  r.measure.time_max_ms = 60'000;
  r.measure.repetitions = 50;
  ProfileReply reply = run(r);
  EXPECT_EQ(reply.outcome, TaskOutcome::kOk) << reply.message;
  EXPECT_LE(reply.measured.runs, 2u);
}

// The first run of a microsecond's program takes ten times as long as the others.
TEST_F(ProfileTest, ShortCandidatesAreMeasuredBeforeTheyAreGivenUp) {
  ProfileRequest r = request("good");
  r.measure.give_up_ns = 1;
  ProfileReply reply = run(r);
  EXPECT_EQ(reply.outcome, TaskOutcome::kOk) << reply.message;
  EXPECT_GE(reply.measured.runs, 3u);
}

TEST_F(ProfileTest, WrongOutputsAreFound) {
  ASSERT_EQ(run("good").outcome, TaskOutcome::kOk);
  pid_t child = client_.child_pid();
  for (const char* entry : {"wrong", "half_written", "unwritten", "cheats"}) {
    ProfileReply reply = run(entry);
    EXPECT_EQ(reply.outcome, TaskOutcome::kWrong) << entry << ": " << reply.message;
    EXPECT_FALSE(reply.message.empty());
    EXPECT_FALSE(reply.damaged) << entry << ": " << reply.message;
  }
  EXPECT_EQ(client_.child_pid(), child) << "wrong outputs cost a child";
}

// Sizes count by their weights: what is slow at the large size alone takes as much of it.
TEST_F(ProfileTest, SeveralSizesAreMeasuredByTheirWeights) {
  ProfileRequest r = request("slow_at_large");
  r.measure.time_max_ms = 1'000;
  r.measure.sizes = {{{37}, 0.75}, {{2048}, 0.25}};
  ProfileReply reply = run(r);
  ASSERT_EQ(reply.outcome, TaskOutcome::kOk) << reply.message;
  EXPECT_GT(reply.measured.total_ns, 4'500'000u) << "a quarter of 20 ms";
  EXPECT_LT(reply.measured.total_ns, 15'000'000u);
  ASSERT_EQ(reply.measured.call_ns.size(), 1u);
  EXPECT_GT(reply.measured.call_ns[0], 4'500'000u);
  EXPECT_GE(reply.measured.runs, 4u) << "of both sizes";
  // A run of 20 ms is not too slow where it counts for 5.
  r.measure.give_up_ns = 10'000'000;
  EXPECT_EQ(run(r).measured.call_ns.size(), 1u);
  r.measure.give_up_ns = 2'000'000;
  EXPECT_TRUE(run(r).measured.call_ns.empty());
}

TEST_F(ProfileTest, RivalsAreComparedAtAllSizes) {
  ProfileRequest r = request("slow_at_large");
  r.rivals = {request("good").plan, request("slow_at_large").plan};
  r.measure.time_max_ms = 1'500;
  r.measure.repetitions = 15;
  r.measure.sizes = {{{37}, 0.75}, {{2048}, 0.25}};
  ProfileReply reply = run(r);
  ASSERT_EQ(reply.outcome, TaskOutcome::kOk) << reply.message;
  ASSERT_EQ(reply.rivals.size(), 2u);
  EXPECT_GT(reply.rivals[0].speedup_low, 10);
  EXPECT_LT(reply.rivals[1].speedup, 2);
  EXPECT_GT(reply.rivals[1].speedup, 0.5);
}

// Time that is short costs seeds and patterns, never a size that must be verified.
TEST_F(ProfileTest, FaultsBeyondTheFirstBlockAreFoundWhateverTheTime) {
  for (const char* entry : {"fears_second_block", "fears_ragged_end"}) {
    ProfileRequest r = request(entry);
    r.verify.references_ms = 1;
    r.verify.sizes = {{32}, {2039}, {197}, {1}};
    r.verify.always = 2;
    ProfileReply reply = run(r);
    EXPECT_EQ(reply.outcome, TaskOutcome::kWrong) << entry;
    EXPECT_NE(reply.message.find("s0=2039"), std::string::npos) << reply.message;
    r.verify.sizes = {{32}, {197}, {19}, {1}};
    EXPECT_EQ(run(r).outcome, TaskOutcome::kOk) << entry << ": smaller sizes cannot tell";
  }
}

// Each is wrong on one kind of inputs only.
TEST_F(ProfileTest, EverySeedSizeAndPatternIsTried) {
  ProfileRequest r = request("knows_one");
  r.verify.sizes = {{37}};
  r.verify.adversarial = false;
  r.verify.seeds = {1};
  EXPECT_EQ(run(r).outcome, TaskOutcome::kOk);
  r.verify.seeds = {1, 2};
  EXPECT_EQ(run(r).outcome, TaskOutcome::kWrong);

  r = request("fears_one");
  r.verify.adversarial = false;
  r.verify.sizes = {{37}};
  EXPECT_EQ(run(r).outcome, TaskOutcome::kOk);
  r.verify.sizes = {{37}, {1}};
  EXPECT_EQ(run(r).outcome, TaskOutcome::kWrong);

  r = request("fears_zeros");
  r.verify.adversarial = false;
  EXPECT_EQ(run(r).outcome, TaskOutcome::kOk);
  r.verify.adversarial = true;
  EXPECT_EQ(run(r).outcome, TaskOutcome::kWrong);
}

TEST_F(ProfileTest, StrayWritesAreFoundAndCostTheChild) {
  for (const char* entry : {"past_end", "writes_input"}) {
    expect_healthy();
    pid_t child = client_.child_pid();
    ProfileReply reply = run(entry);
    EXPECT_EQ(reply.outcome, TaskOutcome::kWrong) << entry << ": " << reply.message;
    EXPECT_NE(client_.child_pid(), child) << "a child with damaged memory lived on";
  }
}

TEST_F(ProfileTest, CrashesKillTheChildAndNotTheWorker) {
  std::vector<const char*> entries = {"segfaults", "aborts", "exits", "overflows_stack"};
#ifndef __SANITIZE_THREAD__  // its allocator does not look at what was smashed
  entries.push_back("smashes_heap");
#endif
  for (const char* entry : entries) {
    ProfileReply reply = run(entry);
    EXPECT_EQ(reply.outcome, TaskOutcome::kCrash) << entry << ": " << reply.message;
    expect_healthy();
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // no limits of memory there
TEST_F(ProfileTest, ExhaustedMemoryIsACrashOfTheCandidate) {
  ProfileReply reply = run("leaks");
  EXPECT_EQ(reply.outcome, TaskOutcome::kCrash) << reply.message;
  expect_healthy();
}
#endif

// Each candidate finds out whether it can; what it says becomes its outcome.
TEST_F(ProfileTest, CandidatesAreAloneInTheirProcess) {
  if (!measure_is_on("system call filter")) GTEST_SKIP() << client_sandbox().describe();
  expect_healthy();
  pid_t child = client_.child_pid();
  for (const char* entry :
       {"connects", "forks", "signals_its_worker", "starts_programs", "starts_threads"}) {
    ProfileReply reply = run(entry);
    EXPECT_EQ(reply.outcome, TaskOutcome::kOk) << entry << ": " << reply.message;
  }
  EXPECT_EQ(client_.child_pid(), child);
}

TEST_F(ProfileTest, TemporaryFilesAreSeenByNobodyAndEndWithTheChild) {
  ProfileReply reply = run("writes_files");
  EXPECT_EQ(reply.outcome, TaskOutcome::kOk) << reply.message;
  std::string folder = child_environment("TMPDIR");
  EXPECT_TRUE(std::filesystem::is_directory(folder)) << folder;
  if (measure_is_on("private temporary directory")) {
    EXPECT_TRUE(std::filesystem::is_empty(folder)) << "others see the files of a candidate";
  }
  ASSERT_EQ(run("segfaults").outcome, TaskOutcome::kCrash);
  EXPECT_FALSE(std::filesystem::exists(folder)) << "what a child wrote has outlived it";
}

TEST_F(ProfileTest, HangsAreKilledAtTheDeadline) {
  for (const char* entry : {"spins", "stops"}) {
    ProfileReply reply = run(request(entry), 300);
    EXPECT_EQ(reply.outcome, TaskOutcome::kHang) << entry << ": " << reply.message;
    expect_healthy();
  }
}

TEST_F(ProfileTest, TheWorkersOwnSlownessIsNotAHang) {
  ProfileRequest r = request("good");
  ProfileLimits limits;
  limits.total_ms = 0;
  ProfileReply reply = client_.run(r, graph_bytes_, limits);
  EXPECT_EQ(reply.outcome, TaskOutcome::kInfra) << reply.message;
  expect_healthy();
}

TEST_F(ProfileTest, InterruptedRunsEndSoon) {
  std::thread other([&] { client_.interrupt(); });
  ProfileReply reply = run(request("spins"), 60'000);
  other.join();
  EXPECT_EQ(reply.outcome, TaskOutcome::kInfra);
  client_.clear_interrupt();
  expect_healthy();
}

TEST_F(ProfileTest, AChildThatDiesOnItsOwnIsReplaced) {
  expect_healthy();
  pid_t child = client_.child_pid();
  ::kill(child, SIGKILL);
  ProfileReply reply = run("good");
  // Killed between two requests or noticed at the next one: never the candidate's fault.
  EXPECT_TRUE(reply.outcome == TaskOutcome::kOk || reply.outcome == TaskOutcome::kInfra);
  expect_healthy();
  EXPECT_NE(client_.child_pid(), child);
}

TEST_F(ProfileTest, UnloadablePlansAreCompileErrors) {
  EXPECT_EQ(run("no_such_entry").outcome, TaskOutcome::kCompileError);
  ProfileRequest damaged = request("good");
  damaged.objects[0].bytes.resize(100);
  EXPECT_EQ(run(damaged).outcome, TaskOutcome::kCompileError);
  ProfileRequest other = request("good");
  other.plan.inputs[1].kind = InputKind::kUser;
  EXPECT_EQ(run(other).outcome, TaskOutcome::kCompileError);
}

TEST_F(ProfileTest, TasksThatMakeNoSenseAreInfra) {
  ProfileRequest r = request("good");
  r.verify.sizes = {{37, 4}};
  EXPECT_EQ(run(r).outcome, TaskOutcome::kInfra);
  ProfileRequest unknown = request("good");
  unknown.graph = common::digest_of("another graph");
  ProfileReply reply = client_.run(unknown, {}, {});
  EXPECT_EQ(reply.outcome, TaskOutcome::kInfra) << reply.message;
  expect_healthy();
}

TEST(ExecutorClient, ProgramsThatDoNotStartAreInfra) {
  ProfileRequest request;
  for (const char* program : {"/no/such/program", "/bin/true"}) {
    ExecutorClient client({program});
    EXPECT_EQ(client.run(request, {}, {}).outcome, TaskOutcome::kInfra) << program;
  }
}

void sleep_briefly() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

// Another process that asks for the lock without waiting gets it.
bool is_free(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  bool locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  ::close(fd);
  return locked;
}

std::string lock_path(std::string_view device) {
  return common::cat(worker::DeviceLock::kDirectory, "/", device, ".lock");
}

// Notes down how its device is measured: with caches emptied before, and whether nobody else can.
// Where "NOTES.wait" lies, the measurement goes on when it is gone.
constexpr const char* kWatchedFlag = "--watched-executor";
int run_watched_executor(const std::string& notes) {
  std::string name = common::cat("watched-", ::getppid());
  ExecutorDevice device{name, [&](int) -> common::Result<std::unique_ptr<common::Device>> {
                          auto late = std::make_unique<common::LateDevice>();
                          late->has_library = false;
                          late->on_flush = [&] {
                            std::ofstream(notes)
                                << (is_free(lock_path(name)) ? "among others" : "alone");
                            while (std::filesystem::exists(notes + ".wait")) sleep_briefly();
                          };
                          return std::unique_ptr<common::Device>(std::move(late));
                        }};
  return run_executor_child(STDIN_FILENO, device);
}

// Whether the process comes to be stopped, as /proc tells it, or to run, within a minute.
bool comes_to(pid_t pid, bool is_stopped) {
  for (int k = 0; k < 60'000; ++k) {
    auto stat = common::read_file(common::cat("/proc/", pid, "/stat"));
    size_t name_end = stat.ok() ? stat->rfind(')') : std::string::npos;
    if (name_end == std::string::npos) return false;
    if ((stat->at(name_end + 2) == 'T') == is_stopped) return true;
    sleep_briefly();
  }
  return false;
}

TEST_F(ProfileTest, StandsStillBesideMeasurementsButNotInItsOwn) {
  auto scratch = common::ScratchDirectory::create("lfarm-profile").value();
  std::string notes = scratch.path() + "/notes", wait = notes + ".wait";
  std::ofstream(wait) << "";
  auto pausable = std::make_shared<common::PausableGroups>();
  ExecutorClient client({"/proc/self/exe", kWatchedFlag, notes}, nullptr, pausable);
  ASSERT_TRUE(client.warm_up().ok());
  const pid_t child = client.child_pid();
  ProfileLimits limits;
  limits.candidate_ms = 100'000;
  ProfileReply reply;

  pausable->pause();
  std::thread runner([&] { reply = client.run(request("good"), graph_bytes_, limits); });
  EXPECT_TRUE(comes_to(child, true)) << "others measure while it verifies";
  pausable->resume();
  while (!std::filesystem::exists(notes)) sleep_briefly();
  pausable->pause();
  for (int k = 0; k < 20; ++k) {
    EXPECT_TRUE(comes_to(child, false)) << "it measures";
    sleep_briefly();
  }
  pausable->resume();
  std::filesystem::remove(wait);
  runner.join();
  EXPECT_EQ(reply.outcome, TaskOutcome::kOk) << reply.message;
}

TEST_F(ProfileTest, MeasuredAloneAndWithColdCaches) {
  auto scratch = common::ScratchDirectory::create("lfarm-profile");
  ASSERT_TRUE(scratch.ok());
  std::string notes = scratch->path() + "/notes";
  ExecutorClient client({"/proc/self/exe", kWatchedFlag, notes});
  ProfileReply reply = client.run(request("good"), graph_bytes_, {});
  EXPECT_EQ(reply.outcome, TaskOutcome::kOk) << reply.message;
  auto noted = common::read_file(notes);
  ASSERT_TRUE(noted.ok()) << "caches were not emptied";
  EXPECT_EQ(*noted, "alone");

  // Other candidates can run on a device that has no library: this one is to blame.
  ProfileRequest product = request("good");
  common::PlanMaker m;
  m.plan.symbols = {{1, 4096}};
  Expr n = Expr::symbol(0);
  int x = m.input({n}), w = m.input({n}, InputKind::kWeight);
  int sum = m.temporary({1}), out = m.output({n});
  common::PlanKernel kernel;
  kernel.library = true;
  kernel.gemm.m = kernel.gemm.n = 1;
  kernel.gemm.k = n;
  kernel.gemm.a = {0, 0, n, 1};
  kernel.gemm.b = {0, 0, 1, 1};
  kernel.gemm.out = {0, 0, 1, 1};
  int good = m.kernel("good");
  m.plan.kernels.push_back(kernel);
  m.call(good + 1, {x, w}, {sum}, {n});
  m.call(good, {x, w}, {out}, {n});
  common::Plan plan = m.finish(*shared_object);
  plan.key = product.plan.key;
  product.plan = plan;
  ProfileReply refused = client.run(product, graph_bytes_, {});
  EXPECT_EQ(refused.outcome, TaskOutcome::kCompileError) << refused.message;
  EXPECT_EQ(refused.message, "there is no library of products");
  ::unlink(lock_path(common::cat("watched-", ::getpid())).c_str());
}

TEST(DeviceLock, ExcludesOthersUntilItEnds) {
  std::string device = common::cat("test-", ::getpid());
  std::string path = lock_path(device);
  auto first = std::make_unique<DeviceLock>(device);
  ASSERT_TRUE(first->held());
  EXPECT_FALSE(is_free(path));
  std::atomic<bool> first_ends{false};
  std::thread other([&] {
    DeviceLock second(device);
    EXPECT_TRUE(first_ends);
    EXPECT_FALSE(is_free(path));
  });
  first_ends = true;
  first.reset();
  other.join();
  EXPECT_TRUE(is_free(path));
  ::unlink(path.c_str());
}

TEST(DeviceLock, OthersMayBeAmongThemselves) {
  std::string device = common::cat("test-shared-", ::getpid());
  std::string path = lock_path(device);
  {
    DeviceLock one(device, DeviceLock::Mode::kAmongOthers);
    DeviceLock two(device, DeviceLock::Mode::kAmongOthers);  // would wait for ever for one alone
    EXPECT_TRUE(one.held() && two.held());
    EXPECT_FALSE(is_free(path)) << "a measurement would not be alone";
  }
  EXPECT_TRUE(is_free(path));
  ::unlink(path.c_str());
}

TEST(Requests, RepliesSurviveTheWireAndDamageIsFound) {
  ProfileReply reply;
  reply.outcome = TaskOutcome::kOk;
  reply.message = "fine";
  reply.max_error = 0.5;
  reply.measured.call_ns = {1, 2, 3};
  common::Bytes bytes = encode(reply);
  auto back = decode_reply(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->message, "fine");
  EXPECT_EQ(back->max_error, 0.5);
  EXPECT_EQ(back->measured.call_ns, (std::vector<uint64_t>{1, 2, 3}));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_reply(common::ByteView(bytes).first(size)).ok());
  }
  common::Bytes nonsense(bytes.size(), std::byte{0xff});
  EXPECT_FALSE(decode_reply(nonsense).ok());
}

}  // namespace
}  // namespace worker

int main(int argc, char** argv) {
  if (argc > 2 && std::strcmp(argv[1], worker::kWatchedFlag) == 0) {
    return worker::run_watched_executor(argv[2]);
  }
  return worker::run_tests_or_executor(
      argc, argv,
      {"cpu",
       [](int threads) -> common::Result<std::unique_ptr<common::Device>> {
         return common::make_cpu_device({threads});
       },
       false, false, worker::kMemoryBytesMax});
}
