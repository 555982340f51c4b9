// Confines child processes that run or compile code that nobody has looked at: what the kernel can
// take from them, each measure as far as this machine permits it, and a word on what it does not.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/process/subprocess.h"
#include "common/sandbox/file_rules.h"
#include "common/sandbox/system_call_filter.h"

namespace common {

// Who is to be confined.
enum class SandboxProfile : uint8_t {
  kComputing,  // runs machine code of candidates on the processor
  kDevice,     // runs candidates on a GPU: its driver needs the files, sockets and calls it knows
  kCompiling,  // a compiler: starts programs; leaves what it made in its temporary directory
};

// Which files children need beside programs, libraries, what describes the machine, and their own
// directories.
struct SandboxFiles {
  bool by_rules = true;  // false: file rules are left out of the measures
  std::vector<std::string> readable = {};
  std::vector<std::string> writable = {};
};

struct SandboxMeasure {
  std::string name;  // "network namespace"
  bool on = false;
  std::string what;  // what it does, or why it is not here
};

// What is tried, and later done to every child. Immutable, so that threads may share it.
class Sandbox {
 public:
  // Tries all measures in a child, some 5 ms, and where that fails each in a child of its own. What
  // the kernel refuses then is left out of all children; what fails later although it worked then,
  // fails the child's start.
  static std::shared_ptr<const Sandbox> find(SandboxProfile profile,
                                             const SandboxFiles& files = SandboxFiles());

  const std::vector<SandboxMeasure>& measures() const { return measures_; }
  // Whether children cannot change this user's files.
  bool protects_files() const { return on_[kReadOnlyFiles] || on_[kFileRules]; }
  // One line: "on: user namespace, ...; not here: network namespace (unshare: Operation ...)".
  std::string describe() const;

  // The measures for one child, to be its SpawnOptions::setup. The sandbox outlives it. Where
  // mounting works, `directory` becomes an empty file system that only the child sees and that ends
  // with it; else it is as it is. It must exist and be writable. `program` is what the child will
  // be.
  class Entrance final : public ChildSetup {
   public:
    SetupFailure enter() const override;

   private:
    friend class Sandbox;
    Entrance(const Sandbox& sandbox, std::string directory, const std::string& program);
    const Sandbox& sandbox_;
    std::string directory_;
    FileRules own_files_;
    std::string user_map_, group_map_;
  };
  Entrance entrance(std::string directory, const std::string& program) const {
    return {*this, std::move(directory), program};
  }

 private:
  // In the order in which they are taken.
  enum Step : uint8_t {
    kMemoryVictim,
    kUserNamespace,
    kNetworkNamespace,
    kPrivateTemporary,
    kReadOnlyFiles,
    kFewProcesses,
    kNoCapabilities,
    kFileRules,
    kFilter,
    kSteps,
  };
  Sandbox(SandboxProfile profile, const SandboxFiles& files);
  bool wants(Step step) const;
  // Why there is no use in trying it beside those that are on; empty when there is.
  std::string known_obstacle(Step step) const;
  // Why a child cannot enter with what is on; empty when it can.
  std::string attempt() const;

  SandboxProfile profile_;
  bool by_rules_;
  FileRules files_;
  bool on_[kSteps] = {};
  std::vector<sock_filter> filter_;
  std::vector<SandboxMeasure> measures_;
};

// Starts a child that has `temporary` as its TMPDIR, in `sandbox` where that is not null.
Result<Subprocess> start_confined(SpawnOptions options, const Sandbox* sandbox,
                                  const std::string& temporary);
// Starts a child like start_confined(), and waits for its end as run_command() does.
Result<CommandOutput> run_confined(SpawnOptions options, const Sandbox* sandbox,
                                   const std::string& temporary, int timeout_ms);

// For a process that entered a sandbox and has started: from here on it computes, and asks the
// kernel for nothing that this does not take (lone_process_filter()): no other program or process,
// no signal to one, no ioctl, no socket pair. An error where the kernel has no filters.
Status become_lone_process();

// Keeps other processes of this user from this one's memory, descriptors and environment (ptrace,
// /proc/PID/mem); it leaves no core files any more. For processes that hold keys and start children
// that run foreign code. Does nothing in builds with a sanitizer, which looks for leaks like that.
void hide_memory();

}  // namespace common
