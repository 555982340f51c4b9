#include "worker/agent/take_key.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "common/base/cat.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/secret_file.h"
#include "common/wire/security.h"

namespace worker {

using common::cat;

namespace {
constexpr size_t kKeyFileBytesMax = 4096;
}  // namespace

common::Status take_key(const std::string& directory, const std::string& file,
                        const std::string& name) {
  std::vector<std::string> keys;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".key") keys.push_back(entry.path());
  }
  if (keys.empty()) {
    return common::invalid_input(cat("no worker's key (*.key) is in ", directory, error ? ": " : "",
                                     error ? error.message() : "",
                                     "; 'lfarm keys init --workers N' makes some"));
  }
  std::sort(keys.begin(), keys.end());
  const std::string& chosen = keys[common::digest_of(name).prefix64() % keys.size()];
  // Of a mounted secret, which a group may read.
  LFARM_ASSIGN_OR_RETURN(std::string text, common::read_file(chosen, kKeyFileBytesMax));
  std::filesystem::remove(file, error);
  LFARM_RETURN_IF_ERROR(common::create_secret_file(file, text));
  LFARM_ASSIGN_OR_RETURN(common::KeyPair pair, common::load_key_pair(file));
  std::printf("%s has the key of %s, public %s\n", name.c_str(), chosen.c_str(),
              pair.public_key.c_str());
  return {};
}

}  // namespace worker
