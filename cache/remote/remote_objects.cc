#include "cache/remote/remote_objects.h"

#include "common/base/cat.h"

namespace cache {

using common::cat;
using common::Status;

Status check_size(std::span<const RemoteObject> objects) {
  size_t bytes = 0;
  for (const RemoteObject& object : objects) bytes += object.bytes.size();
  if (bytes <= RemoteObjects::kBundleBytesMax) return {};
  return common::unsupported(cat("objects of ", bytes, " bytes are too large to be shared"));
}

Status check_object(const common::Digest& digest, std::string_view bytes) {
  if (common::digest_of(bytes) == digest) return {};
  return common::corrupt(
      cat("the remote store gives other bytes than object ", digest.short_hex()));
}

}  // namespace cache
