// What a client remembers of the farms it met, to trust their plans on its disk while they are
// away.
#pragma once

#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/base/signing.h"

namespace clients {

struct MetFarm {
  common::PublicKey signer{};  // that it was trusted by
  std::string tenant;          // whom it took this client for
  std::string epoch;           // of its plan keys
  friend bool operator==(const MetFarm&, const MetFarm&) = default;
};

// A file a farm, by the endpoint that the client was given. Thread-safe, and safe among processes.
class MetFarms {
 public:
  explicit MetFarms(std::string directory) : directory_(std::move(directory)) {}
  // Empty when it was never met, or the file is damaged: then it has to be met again.
  std::optional<MetFarm> find(const std::string& endpoint) const;
  common::Status remember(const std::string& endpoint, const MetFarm& farm) const;

 private:
  std::string path_of(const std::string& endpoint) const;
  std::string directory_;
};

}  // namespace clients
