// Signatures of requests, version 4 of Amazon's scheme (AWS4-HMAC-SHA256).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "cache/s3/s3_credentials.h"

namespace cache {

struct S3Request {
  std::string method;
  std::string host;
  std::string path;                              // encoded; has no query
  std::map<std::string, std::string> headers{};  // names in lower case, to be signed beside `host`
  std::string_view body{};
};

// The headers of the request with those that sign it, `host` among them. `wall_ns`: since 1970,
// which may not be more than some minutes off.
std::map<std::string, std::string> sign_s3(const S3Request& request, const S3Credentials& who,
                                           std::string_view region, int64_t wall_ns);

}  // namespace cache
