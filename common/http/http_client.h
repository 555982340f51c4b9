// One HTTP or HTTPS request at a time: what talks to a cluster's API, and tests to our own servers.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/base/result.h"

namespace common {

struct HttpEndpoint {
  std::string host;
  int port = 80;
  bool tls = false;
  std::string ca_file;  // with TLS: PEM file of who signs the server's certificate; checked always
};

struct HttpCall {
  std::string method{"GET"};  // GET, POST, PUT or PATCH
  std::string path{"/"};      // with its query, encoded
  std::map<std::string, std::string> headers{};
  std::string body{};
  std::string content_type{"application/json"};
  int64_t timeout_ms = 5'000;  // for connecting, and again for each read and write
};

struct HttpReply {
  int status = 0;  // also of answers that refuse
  std::string body;
  std::map<std::string, std::string> headers;  // names as sent; the last of several
};

// kUnavailable when no answer came; kVerification when the server is not who it should be.
Result<HttpReply> http_call(const HttpEndpoint& endpoint, const HttpCall& call);

}  // namespace common
