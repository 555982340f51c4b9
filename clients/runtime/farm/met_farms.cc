#include "clients/runtime/farm/met_farms.h"

#include <sstream>

#include "clients/runtime/farm/known_farms.h"
#include "common/base/cat.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/wire/limits.h"

namespace clients {

using common::cat;

namespace {
constexpr size_t kFileBytesMax = 4 * common::kNameBytesMax;
}  // namespace

std::string MetFarms::path_of(const std::string& endpoint) const {
  return cat(directory_, "/", common::digest_of(endpoint).hex());
}

std::optional<MetFarm> MetFarms::find(const std::string& endpoint) const {
  auto text = common::read_file(path_of(endpoint), kFileBytesMax);
  if (!text.ok()) return std::nullopt;
  std::istringstream in(*text);
  std::string signer;
  MetFarm farm;
  if (!std::getline(in, signer) || !std::getline(in, farm.tenant) ||
      !std::getline(in, farm.epoch)) {
    return std::nullopt;
  }
  auto key = parse_signing_key(signer, "the farm's");
  if (!key.ok()) return std::nullopt;
  farm.signer = *key;
  return farm;
}

common::Status MetFarms::remember(const std::string& endpoint, const MetFarm& farm) const {
  if (find(endpoint) == farm) return {};
  LFARM_RETURN_IF_ERROR(common::make_directories(directory_));
  std::string text = cat(common::to_hex(farm.signer), "\n", farm.tenant, "\n", farm.epoch, "\n");
  return common::write_file_atomic(path_of(endpoint), common::as_bytes(text));
}

}  // namespace clients
