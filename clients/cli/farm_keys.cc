#include "clients/cli/farm_keys.h"

#include <unistd.h>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/wire/security.h"

namespace clients {

using common::cat;
using common::Result;

Result<std::string> prepare_farm_keys(const StateDirectory& state) {
  LFARM_RETURN_IF_ERROR(common::make_directories(state.path));
  LFARM_ASSIGN_OR_RETURN(common::KeyPair farm, common::load_or_create_key_pair(state.farm_key()));
  LFARM_ASSIGN_OR_RETURN(common::KeyPair worker,
                         common::load_or_create_key_pair(state.worker_key()));
  LFARM_ASSIGN_OR_RETURN(common::KeyPair client,
                         common::load_or_create_key_pair(state.client_keys()));
  std::string text;
  if (::access(state.allow_file().c_str(), F_OK) == 0) {
    LFARM_ASSIGN_OR_RETURN(text, common::read_file(state.allow_file()));
  }
  auto allowed = common::AllowList::parse(text);
  if (!allowed.ok()) {
    return common::invalid_input(cat(state.allow_file(), ": ", allowed.error().message));
  }
  if (!text.empty() && text.back() != '\n') text += '\n';
  std::string before = text;
  if (allowed->find(worker.public_key) == nullptr) {
    text += cat(worker.public_key, " local worker\n");
  }
  if (allowed->find(client.public_key) == nullptr) {
    text += cat(client.public_key, " local submit,read,admin\n");
  }
  if (text != before) {
    LFARM_RETURN_IF_ERROR(common::write_file_atomic(state.allow_file(), common::as_bytes(text)));
  }
  return farm.public_key;
}

}  // namespace clients
