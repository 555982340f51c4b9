// Which files a confined process may open, by the kernel's Landlock: it asks for no rights and no
// namespaces. Who is under such rules also looks into no process outside of them (ptrace,
// /proc/*/mem), and, as far as the kernel knows these rules, connects to no port and signals nobody
// else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/process/subprocess.h"

namespace common {

enum class FileAccess : uint8_t {
  kRead,     // files and directories
  kRun,      // also programs and libraries that it starts
  kWrite,    // all but running what lies there
  kDevices,  // reads, writes and controls devices; makes nothing
};

// Movable, not copyable: holds an open descriptor for each path. `enforce` may be called by many
// children at a time.
class FileRules {
 public:
  // The version of the kernel's interface, from 1; 0 where there is none.
  static int version();

  FileRules() = default;
  FileRules(FileRules&& other) noexcept : rules_(std::move(other.rules_)) { other.rules_.clear(); }
  FileRules& operator=(FileRules&&) = delete;
  ~FileRules();

  // Everything beneath a directory, or one file. A path that is not there is left out.
  void allow(const std::string& path, FileAccess access);
  // What a program needs to start: itself, looked up in PATH, and what lies beside its folder where
  // that is a toolchain's bin (../lib, ../lib64, ../libexec, ../include).
  void allow_program(const std::string& program);

  // Puts these rules and those of `more` in force for the calling thread and what it starts, for
  // ever; with `directory`, where that is not null, to write to. PR_SET_NO_NEW_PRIVS has to be set.
  // Async-signal-safe once version() was asked.
  SetupFailure enforce(const FileRules& more, const char* directory) const;

 private:
  struct Rule {
    int fd;
    uint64_t access;
  };
  SetupFailure add_to(int ruleset, uint64_t handled) const;
  std::vector<Rule> rules_;
};

// Programs, libraries and what describes the machine: what any program reads. Libraries are those
// of the system's directories, of LD_LIBRARY_PATH, and where this process has its own from.
FileRules rules_for_programs();
// Beside these, the directories of $LFARM_CC_WRITES, divided by colons: what a compiler that
// $LFARM_CC names keeps between its runs, such as ccache's cache.
FileRules rules_for_compilers();
// Beside the first, what a GPU's driver uses.
FileRules rules_for_drivers();

}  // namespace common
