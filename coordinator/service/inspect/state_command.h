// What the commands share that look into a coordinator's state directory, and how they fail.
#pragma once

#include <memory>

#include "cache/store/store.h"
#include "common/base/result.h"

namespace CLI {  // NOLINT(readability-identifier-naming): as the library calls itself
class App;
}  // namespace CLI

namespace coordinator::service {

// Prints the error's line on standard error; the exit code that it stands for.
int fail(const common::Error& error);

struct OpenedState {
  int exit_code = 0;
  std::unique_ptr<cache::Store> store;  // null: the command ends with `exit_code`
};

// Reads the arguments behind the command's name with those that `app` has and --state, and opens
// the directory's store to read only, beside the coordinator that may write to it. Without a store
// help or an error has been printed.
OpenedState open_state(CLI::App& app, int argc, const char* const* argv);

}  // namespace coordinator::service
