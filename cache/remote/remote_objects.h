// Objects of plans that several farms share: blobs under their digests, which never change.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/remote/circuit_breaker.h"
#include "common/base/digest.h"
#include "common/base/result.h"

namespace cache {

// A blob of the shared store; the bytes are the caller's.
struct RemoteObject {
  common::Digest digest;
  std::string_view bytes;
};

// Thread-safe. Every call may wait for the network: kUnavailable and kTimedOut say that the server
// cannot be used now, kCorrupt that it sent what it should not have.
class RemoteObjects {
 public:
  // A plan and its objects.
  static constexpr size_t kBundleBytesMax = size_t{256} << 20;

  virtual ~RemoteObjects() = default;
  // In the order of their digests, with which they have been compared; empty when one is not there.
  virtual common::Result<std::optional<std::vector<std::string>>> get_objects(
      std::span<const common::Digest> digests) = 0;
  virtual common::Result<bool> has_objects(std::span<const common::Digest> digests) = 0;
  // Puts the objects that are not there. kUnsupported when they are larger than a reader takes.
  virtual common::Status put_objects(std::span<const RemoteObject> objects) = 0;
  virtual RemoteHealth health() const = 0;
};

// kUnsupported when the objects are larger than a reader takes.
common::Status check_size(std::span<const RemoteObject> objects);
// kCorrupt when the bytes that came are others than the digest says.
common::Status check_object(const common::Digest& digest, std::string_view bytes);

}  // namespace cache
