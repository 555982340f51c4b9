// lfarm keys new: makes a key pair.
#include <cstdio>
#include <memory>

#include "clients/cli/access/farm_options.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "common/wire/security.h"

namespace clients {
namespace {

struct NewOptions {
  FarmOptions farm;
  std::string file;
};

common::Status make_keys(const NewOptions& options) {
  common::KeyPair keys = common::make_key_pair();
  LFARM_RETURN_IF_ERROR(common::save_key_pair(options.file, keys));
  std::printf("%s\n", keys.public_key.c_str());
  return {};
}

}  // namespace

void declare_keys_new(CommandLine* line) {
  auto options = std::make_shared<NewOptions>();
  Command command = line->add(
      "keys new",
      "Makes a key pair for a client or a worker, keeps it in a file that only you can read, and\n"
      "prints its public key, which is what a farm's administrator needs.",
      [options] { return exit_code_of(make_keys(*options)); });
  command.value("file", &options->file, "FILE", "Where to keep the pair; for --keys or --key")
      .required();
  add_state_option(&command, &options->farm);
}

}  // namespace clients
