// A small HTTP server for probes, metrics and a page: GET only, answers from memory.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/base/result.h"

namespace common {

struct HttpRequest {
  std::string path;
  std::map<std::string, std::string> query;  // decoded; of a name that comes twice, the first
  std::map<std::string, std::string> headers = {};  // names in lower case; of several, the first
  std::string peer = {};                            // the asker's address, as numbers
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type{"text/plain; charset=utf-8"};
  std::map<std::string, std::string> headers = {};  // beside those that every answer has
};

// Called from the server's threads, several at a time.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

struct HttpServerOptions {
  // PEM files, both or none: answers over TLS then (common/http/tls_server.h).
  std::string certificate = {}, key = {};
  // Connections that are answered at a time; others wait for a thread.
  size_t threads = 24;
};

// Answers nobody but who can reach its address: it knows no users.
class HttpServer {
 public:
  // `address`: HOST:PORT, an IPv6 host in brackets, port 0 for a free one. `handler` gets every
  // GET. Serves from now on until it is destroyed. A request has 5 s to come and its answer 10 s to
  // be taken, and far less while others wait for a thread. kInvalidInput when the address is
  // malformed or taken, or when a file of TLS cannot be used.
  static Result<std::unique_ptr<HttpServer>> start(
      const std::string& address, HttpHandler handler,
      const HttpServerOptions& options = HttpServerOptions());
  // Waits for answers under way.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // HOST:PORT as bound.
  const std::string& address() const;

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace common
