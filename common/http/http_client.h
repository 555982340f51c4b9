// One HTTP or HTTPS request at a time: what talks to a cluster's API and to an object store, and
// tests to our own servers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "common/base/result.h"

namespace common {

struct HttpEndpoint {
  std::string host;
  int port = 80;
  bool tls = false;
  // With TLS: PEM file of who signs the server's certificate, which is checked always; empty: those
  // whom the system trusts.
  std::string ca_file;
};

struct HttpCall {
  std::string method{"GET"};  // or HEAD, POST, PUT, PATCH
  std::string path{"/"};      // with its query, encoded
  std::map<std::string, std::string> headers{};
  std::string body{};
  std::string content_type{"application/json"};
  int64_t timeout_ms = 5'000;       // for connecting, and again for each read and write
  int64_t body_ms_max = INT64_MAX;  // from the call until the answer's body is there
  size_t reply_bytes_max = size_t{1} << 30;
};

struct HttpReply {
  int status = 0;  // also of answers that refuse
  std::string body;
  std::map<std::string, std::string> headers;  // names as sent; the last of several
};

// A connection that is kept open from one call to the next, and opened again where the server has
// closed it. Not thread-safe.
class HttpConnection {
 public:
  explicit HttpConnection(HttpEndpoint endpoint);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // kUnavailable when no answer came, or a larger one than `reply_bytes_max`; kTimedOut when its
  // body came too slowly; kVerification when the server is not who it should be.
  Result<HttpReply> call(const HttpCall& call);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The same over a connection of its own.
Result<HttpReply> http_call(const HttpEndpoint& endpoint, const HttpCall& call);

}  // namespace common
