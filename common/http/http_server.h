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

// Answers nobody but who can reach its address: it knows no users.
class HttpServer {
 public:
  // `address`: HOST:PORT, an IPv6 host in brackets, port 0 for a free one. `handler` gets every
  // GET. Serves from now on until it is destroyed. kInvalidInput when the address is malformed or
  // taken.
  static Result<std::unique_ptr<HttpServer>> start(const std::string& address, HttpHandler handler);
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
