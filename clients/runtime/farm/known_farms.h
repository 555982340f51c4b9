// Whose signature to trust: the keys of farms that were met before, as ssh remembers hosts.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/signing.h"

namespace clients {

// 64 hexadecimal digits. kInvalidInput otherwise; `what` names the text in the message.
common::Result<common::PublicKey> parse_signing_key(const std::string& hex,
                                                    const std::string& what);

// A farm that was met, and the line that says so.
struct KnownFarm {
  std::string endpoint;
  common::PublicKey key{};
  int line = 0;
};
// Lines of "ENDPOINT KEY"; those that begin with '#' are comments. kCorrupt names the line of the
// file at `path` that is something else.
common::Result<std::vector<KnownFarm>> parse_known_farms(const std::string& text,
                                                         const std::string& path);

// Lines of "ENDPOINT KEY" in a file. Not thread-safe; of two processes, or threads with one of
// these each, that meet new farms at the same moment one may have to meet its farm again.
class KnownFarms {
 public:
  explicit KnownFarms(std::string path) : path_(std::move(path)) {}
  // Success when the farm at the endpoint is known by this key, or was not known: it is from now
  // on, unless the file cannot be written, which is a warning. kVerification when it is known by
  // another key; kCorrupt when the file is damaged.
  common::Status meet(const std::string& endpoint, const common::PublicKey& key);

 private:
  std::string path_;
};

}  // namespace clients
