#include "coordinator/service/command/signer_command.h"

#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "common/base/signing.h"
#include "common/sandbox/sandbox.h"
#include "common/wire/codec.h"
#include "coordinator/service/command/roles.h"
#include "coordinator/service/inspect/state_command.h"
#include "coordinator/service/signing/key_signer.h"
#include "coordinator/service/signing/signer_server.h"

namespace coordinator::service {

using common::cat;

namespace {

struct Arguments {
  std::string role;
  std::string socket, key_file, delegation_file;
  std::string log = "info", log_format;
};

void declare(CLI::App& app, Arguments& arguments) {
  app.add_option(std::string(kRoleOption), arguments.role, "sign: this process signs");
  app.add_option("--socket", arguments.socket,
                 "Unix socket on which coordinators of this machine ask (their --signer): for this "
                 "process's user and group alone")
      ->required();
  app.add_option("--key", arguments.key_file, "file with the signing key; created when missing")
      ->required();
  app.add_option("--delegation", arguments.delegation_file,
                 "file that `lfarm keys delegate` wrote for this key: clients trust the root key "
                 "that signed it; taken up anew when it is replaced")
      ->check(CLI::ExistingFile);
  app.add_option("--log", arguments.log, "debug, info, warning, error or off")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}));
  app.add_option("--log-format", arguments.log_format, "text or json")
      ->check(CLI::IsMember({"text", "json"}));
}

// Blocked in this thread, and so in those that it starts.
sigset_t block_ends() {
  sigset_t set;
  ::sigemptyset(&set);
  for (int signal : {SIGTERM, SIGINT}) ::sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return set;
}

}  // namespace

bool asks_for_signer(int argc, const char* const* argv) {
  return asks_for_role(argc, argv, "sign");
}

int run_signer_command(int argc, const char* const* argv) {
  Arguments arguments;
  CLI::App app(
      "The signer of an lfarm: alone has the key that the farm's plans are signed with, and signs "
      "what coordinators of this machine ask for, if it is a plan or another thing that farms "
      "sign.");
  app.set_version_flag("--version", std::string(common::build_name()));
  declare(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  common::log_init("lfarm-signer",
                   common::parse_log_level(arguments.log).value_or(common::LogLevel::kInfo),
                   common::parse_log_format(arguments.log_format));
  // Before it reads the key: other processes of its user look into its memory no more.
  common::hide_memory();
  sigset_t ends = block_ends();
  auto signer = KeySigner::load(arguments.key_file, arguments.delegation_file);
  if (!signer.ok()) return fail(signer.error());
  auto server = SignerServer::start(arguments.socket, **signer);
  if (!server.ok()) return fail(server.error());
  std::printf("signs on %s\nsigning key %s\n", arguments.socket.c_str(),
              common::to_hex((*signer)->authority()).c_str());
  std::fflush(stdout);
  int signal = 0;
  ::sigwait(&ends, &signal);
  common::log_info(cat("stopping after ", (*server)->signed_count(), " signatures, ",
                       (*server)->refused_count(), " requests refused"));
  return 0;
}

}  // namespace coordinator::service
