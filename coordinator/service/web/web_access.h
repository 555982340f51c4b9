// Who may see over HTTP what the farm's jobs are: this machine's users, or who has the token.
#pragma once

#include <optional>
#include <string>

#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/http/http_server.h"

namespace coordinator::service {

// Probes, metrics and demand are anyone's and not asked about here. Immutable.
class WebAccess {
 public:
  // `token_file`: holds one line of 16 to 256 printable ASCII characters, in a file that only its
  // owner may read; empty: there is no token. kInvalidInput says what is wrong with it.
  static common::Result<WebAccess> create(const std::string& token_file);

  // Empty when the request may see everything, of all tenants; else the answer that it gets.
  //
  // With a token: who sends it ("Authorization: Bearer TOKEN"), from wherever. Without: who
  // connects from this machine (a port that kubectl forwards comes from there, too), under a name
  // that is always this machine's, so that no page of the web reaches the farm by a name that it
  // made point here, and not through a proxy, which would make anyone one of this machine.
  std::optional<common::HttpResponse> refusal(const common::HttpRequest& request) const;

 private:
  std::optional<common::Digest> token_;  // of its characters
};

// {"error": message}, in one line.
common::HttpResponse error_response(int status, const std::string& message);

}  // namespace coordinator::service
