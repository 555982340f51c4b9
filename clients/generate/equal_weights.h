// Weights that two archives of one model both hold, so that they lie in memory once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "clients/pt2/archive/file_identity.h"
#include "clients/pt2/translate.h"
#include "clients/runtime/model/weights.h"
#include "common/base/result.h"

namespace clients {

// Weights of two models with the same name and content, as places among the inputs of `from` and
// `to`.
struct EqualWeight {
  int from = 0, to = 0;
  friend bool operator==(const EqualWeight&, const EqualWeight&) = default;
};

// Reads all of both; those of `to` that are equal leave memory again where they lie in a file.
std::vector<EqualWeight> equal_weights(const Model& from, const Model& to);

// Where answers are remembered, and of which files.
struct RememberedComparison {
  std::string directory;  // made where it is missing
  FileIdentity from, to;
  int64_t settled_ns = kSettledNs;
};

// The same, but where these files were compared before, the answer is read from the directory, and
// else kept there. Checksums in archives do not decide: writers may leave them out, and they stay
// as they were when bytes of a file change in place. No answer is kept where a file changed within
// settled_ns. The newest kComparisonsMax answers stay.
inline constexpr size_t kComparisonsMax = 64;
std::vector<EqualWeight> equal_weights(const Model& from, const Model& to,
                                       const RememberedComparison& remembered);

// These lie in the memory of `from` from now on.
common::Status share_weights(const std::vector<EqualWeight>& equal,
                             const std::shared_ptr<Weights>& from, Weights& to);

}  // namespace clients
