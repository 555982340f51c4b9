#include "coordinator/service/inspect/state_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <utility>

#include "common/base/files.h"
#include "common/base/log.h"

namespace coordinator::service {

using common::Code;

namespace {

int exit_code(Code code) {
  switch (code) {
    case Code::kInvalidInput:
      return 2;
    case Code::kUnsupported:
      return 3;
    case Code::kUnavailable:
      return 4;
    case Code::kVerification:
      return 5;
    default:
      return 1;
  }
}

}  // namespace

int fail(const common::Error& error) {
  std::fprintf(stderr, "lfarm-coordinator: %s\n", error.message.c_str());
  return exit_code(error.code);
}

OpenedState open_state(CLI::App& app, int argc, const char* const* argv) {
  std::string state = common::default_state_directory();
  app.add_option("--state", state, "the coordinator's state directory");
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::ParseError& error) {
    return {app.exit(error) == 0 ? 0 : 2, nullptr};
  }
  common::log_init("lfarm-coordinator", common::LogLevel::kWarning);
  cache::StoreOptions options;
  options.read_only = true;
  auto store = cache::Store::open(state, options);
  if (!store.ok()) return {fail(store.error()), nullptr};
  return {0, std::move(store).value()};
}

}  // namespace coordinator::service
