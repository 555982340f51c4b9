#include "clients/runtime/farm/known_farms.h"

#include <cstring>
#include <filesystem>
#include <sstream>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/wire/limits.h"

namespace clients {

using common::cat;
using common::Result;
using common::Status;

Result<common::PublicKey> parse_signing_key(const std::string& hex, const std::string& what) {
  auto bytes = common::from_hex(hex);
  common::PublicKey key;
  if (!bytes || bytes->size() != key.size()) {
    return common::invalid_input(
        cat(what,
            " is not a signing key of 64 hexadecimal digits; 'lfarm keys ls' on the farm's "
            "machine shows it"));
  }
  std::memcpy(key.data(), bytes->data(), key.size());
  return key;
}

Result<std::vector<KnownFarm>> parse_known_farms(const std::string& text, const std::string& path) {
  std::vector<KnownFarm> farms;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    size_t space = line.find(' ');
    auto key = space == std::string::npos ? Result<common::PublicKey>(common::corrupt("no key"))
                                          : parse_signing_key(line.substr(space + 1), "it");
    if (!key.ok()) {
      return common::corrupt(
          cat(path, " line ", number, " is not 'ENDPOINT KEY'; remove the line"));
    }
    farms.push_back({line.substr(0, space), *key, number});
  }
  return farms;
}

Status KnownFarms::meet(const std::string& endpoint, const common::PublicKey& key) {
  std::string text;
  if (common::file_exists(path_)) {
    LFARM_ASSIGN_OR_RETURN(text, common::read_file(path_, common::kKnownFarmsBytesMax));
  }
  LFARM_ASSIGN_OR_RETURN(std::vector<KnownFarm> farms, parse_known_farms(text, path_));
  for (const KnownFarm& farm : farms) {
    if (farm.endpoint != endpoint) continue;
    if (farm.key == key) return {};
    return common::Error{common::Code::kVerification,
                         cat("the farm at ", endpoint, " signs with the key ", common::to_hex(key),
                             ", and was known by another: if its administrator says that the key "
                             "is new, remove line ",
                             farm.line, " of ", path_, ", else don't trust it")};
  }
  if (!text.empty() && text.back() != '\n') text += '\n';
  text += cat(endpoint, ' ', common::to_hex(key), '\n');
  Status kept = common::make_directories(std::filesystem::path(path_).parent_path().string());
  if (kept.ok()) kept = common::write_file_atomic(path_, common::as_bytes(text));
  // A full or read-only disk makes this a first meeting once more, no worse than the last.
  if (!kept.ok()) {
    common::log_warning(
        cat("cannot note which key the farm at ", endpoint, " signs with: ", kept.error().message));
  }
  return {};
}

}  // namespace clients
