#include "cache/s3/s3_signature.h"

#include <array>
#include <ctime>

#include "common/base/bytes.h"
#include "common/base/cat.h"
#include "common/base/signing.h"

namespace cache {

using common::cat;

namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr const char* kAlgorithm = "AWS4-HMAC-SHA256";
constexpr const char* kService = "s3";
constexpr const char* kTerminator = "aws4_request";

std::string_view text_of(const common::Sha256& hash) {
  return {reinterpret_cast<const char*>(hash.data()), hash.size()};
}

std::string sha256_hex(std::string_view text) { return common::to_hex(common::sha256_of(text)); }

// "20130524T000000Z"
std::string time_of(int64_t wall_ns) {
  std::time_t seconds = wall_ns / kNsPerSecond;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  size_t size = std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &parts);
  return {text.data(), size};
}

}  // namespace

std::map<std::string, std::string> sign_s3(const S3Request& request, const S3Credentials& who,
                                           std::string_view region, int64_t wall_ns) {
  const std::string time = time_of(wall_ns), day = time.substr(0, 8);
  std::map<std::string, std::string> headers = request.headers;
  headers["host"] = request.host;
  headers["x-amz-date"] = time;
  headers["x-amz-content-sha256"] = sha256_hex(request.body);
  if (!who.session_token.empty()) headers["x-amz-security-token"] = who.session_token;

  std::string lines, names;
  for (const auto& [name, value] : headers) {
    lines += cat(name, ':', value, '\n');
    names += cat(names.empty() ? "" : ";", name);
  }
  constexpr const char* kNoQuery = "";
  std::string canonical = cat(request.method, '\n', request.path, '\n', kNoQuery, '\n', lines, '\n',
                              names, '\n', headers["x-amz-content-sha256"]);
  std::string scope = cat(day, '/', region, '/', kService, '/', kTerminator);
  std::string to_sign = cat(kAlgorithm, '\n', time, '\n', scope, '\n', sha256_hex(canonical));

  common::Sha256 key = common::hmac_sha256(cat("AWS4", who.secret_key), day);
  for (std::string_view part :
       {region, std::string_view(kService), std::string_view(kTerminator)}) {
    key = common::hmac_sha256(text_of(key), part);
  }
  headers["authorization"] =
      cat(kAlgorithm, " Credential=", who.access_key, '/', scope, ",SignedHeaders=", names,
          ",Signature=", common::to_hex(common::hmac_sha256(text_of(key), to_sign)));
  return headers;
}

}  // namespace cache
