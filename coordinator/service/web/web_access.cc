#include "coordinator/service/web/web_access.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/base/cat.h"
#include "common/base/secret_file.h"

namespace coordinator::service {

using common::cat;
using common::HttpRequest;
using common::HttpResponse;

namespace {

constexpr size_t kTokenMin = 16;
constexpr size_t kTokenMax = 256;
constexpr std::string_view kScheme = "bearer ";

std::string header(const HttpRequest& request, const char* name) {
  auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

bool is_loopback_address(std::string_view peer) {
  constexpr std::string_view kMapped = "::ffff:";
  if (peer.starts_with(kMapped)) peer.remove_prefix(kMapped.size());
  return peer.starts_with("127.") || peer == "::1";
}

bool is_loopback_name(std::string_view host) {
  size_t end = host.starts_with('[') ? host.find(']') : host.find(':');
  std::string_view name = host.substr(0, host.starts_with('[') && end != host.npos ? end + 1 : end);
  std::string_view port = host.substr(name.size());
  bool is_port = port.empty() ||
                 (port.starts_with(':') && port.find_first_not_of("0123456789", 1) == port.npos);
  return is_port && (name == "localhost" || name == "127.0.0.1" || name == "[::1]");
}

bool is_through_proxy(const HttpRequest& request) {
  constexpr const char* kTraces[] = {"forwarded", "x-forwarded-for", "x-forwarded-host",
                                     "x-real-ip", "via"};
  return std::any_of(std::begin(kTraces), std::end(kTraces),
                     [&](const char* name) { return request.headers.count(name) != 0; });
}

// The same time for all tokens: what is compared is their digests.
bool is_token(const std::string& authorization, const common::Digest& token) {
  if (authorization.size() < kScheme.size()) return false;
  for (size_t k = 0; k < kScheme.size(); ++k) {
    if ((authorization[k] | 0x20) != (kScheme[k] | 0x20)) return false;
  }
  return common::digest_of(std::string_view(authorization).substr(kScheme.size())) == token;
}

}  // namespace

HttpResponse error_response(int status, const std::string& message) {
  nlohmann::ordered_json json{{"error", message}};
  HttpResponse response{
      status, json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n",
      "application/json"};
  if (status == 503) response.headers["Retry-After"] = "1";
  return response;
}

common::Result<WebAccess> WebAccess::create(const std::string& token_file) {
  WebAccess access;
  if (token_file.empty()) return access;
  LFARM_ASSIGN_OR_RETURN(std::string token, common::read_secret_file(token_file, kTokenMax + 2));
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  bool is_printable =
      std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (!is_printable || token.size() < kTokenMin || token.size() > kTokenMax) {
    return common::invalid_input(cat(token_file, " holds no token: it takes one line of ",
                                     kTokenMin, " to ", kTokenMax,
                                     " printable ASCII characters, no spaces"));
  }
  access.token_ = common::digest_of(token);
  return access;
}

std::optional<HttpResponse> WebAccess::refusal(const HttpRequest& request) const {
  if (token_) {
    if (is_token(header(request, "authorization"), *token_)) return std::nullopt;
    HttpResponse response =
        error_response(401, "this takes the token of the file that --http-token-file names");
    response.headers["WWW-Authenticate"] = "Bearer realm=\"lfarm\"";
    return response;
  }
  if (is_loopback_address(request.peer) && is_loopback_name(header(request, "host")) &&
      !is_through_proxy(request)) {
    return std::nullopt;
  }
  return error_response(403,
                        "without --http-token-file this is shown on the coordinator's own machine "
                        "only, at http://127.0.0.1 or http://localhost; others see probes, "
                        "/metrics and /api/v1/demand");
}

}  // namespace coordinator::service
