// lfarm keys delegate: a root key, seldom used, lets a signing key sign in its name for a while.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "clients/cli/access/farm_options.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/runtime/farm/known_farms.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/signing.h"
#include "common/plan/delegation.h"

namespace clients {
namespace {

using common::cat;
using common::Result;

constexpr int64_t kDayNs = int64_t{86'400} * 1'000'000'000;

struct DelegateOptions {
  FarmOptions farm;
  std::string root, to, file;
  int64_t days = 90;
  bool voids_earlier = false;
};

// Of a signing key's file, or the key itself.
Result<common::PublicKey> key_of(const std::string& to) {
  if (!common::file_exists(to)) return parse_signing_key(to, "the signing key");
  LFARM_ASSIGN_OR_RETURN(common::SigningKey key, common::load_or_create_signing_key(to));
  return key.public_key();
}

// Numbers grow with time, so that nobody has to remember the last one. What was void stays so.
common::Status delegate(const DelegateOptions& options) {
  LFARM_ASSIGN_OR_RETURN(common::PublicKey key, key_of(options.to));
  LFARM_ASSIGN_OR_RETURN(common::SigningKey root, common::load_or_create_signing_key(options.root));
  int64_t now_ns = common::wall_clock_ns();
  common::Delegation next;
  next.key = key;
  next.number = static_cast<uint64_t>(now_ns / 1'000'000'000);
  next.from_ns = now_ns;
  next.until_ns = now_ns + options.days * kDayNs;
  if (common::file_exists(options.file)) {
    LFARM_ASSIGN_OR_RETURN(common::Delegation last, common::read_delegation_file(options.file));
    if (last.root != root.public_key()) {
      return common::invalid_input(
          cat(options.file, " is of another root key; take another file or remove it"));
    }
    next.number = std::max(next.number, last.number + 1);
    next.oldest_valid = last.oldest_valid;
  }
  if (options.voids_earlier) next.oldest_valid = next.number;
  next = common::delegate(root, next);
  LFARM_RETURN_IF_ERROR(common::write_delegation_file(options.file, next));
  std::printf("root key %s\nsigning key %s\nfor %lld days\n", common::to_hex(next.root).c_str(),
              common::to_hex(next.key).c_str(), static_cast<long long>(options.days));
  return {};
}

}  // namespace

void declare_keys_delegate(CommandLine* line) {
  auto options = std::make_shared<DelegateOptions>();
  Command command = line->add(
      "keys delegate",
      "Lets a signing key sign in the name of a root key until a day. Clients trust the root key\n"
      "(--trust), which is kept apart and used for this alone, so that signing keys are rotated\n"
      "without them. The file is for the farm's signer, or its state directory.",
      [options] { return exit_code_of(delegate(*options)); });
  command.value("root", &options->root, "ROOT", "The root key's file; created when it is missing")
      .required();
  command.value("key", &options->to, "KEY", "The signing key's file, or the public key").required();
  command
      .value("file", &options->file, "FILE",
             "Where to write the delegation; one that is there is replaced")
      .required();
  command.value("--days", &options->days, "N", "It ends after so many days")
      .in_range(int64_t{1}, int64_t{3'650})
      .shows_default();
  command.flag("--void-earlier", &options->voids_earlier,
               "Withdraw the root key's delegations before, as after a theft: clients that have\n"
               "heard of it take nothing that was signed under them");
  add_state_option(&command, &options->farm);
}

}  // namespace clients
