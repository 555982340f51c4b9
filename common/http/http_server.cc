#include "common/http/http_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <atomic>
#include <charconv>
#include <thread>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"

namespace common {
namespace {

// Probes must be answered while pages and a scraper are: a browser opens six connections at once.
constexpr size_t kThreads = 24;
constexpr time_t kReadSeconds = 5;
constexpr time_t kIdleSeconds = 5;
// A connection holds one of the threads, also while nothing is asked on it.
constexpr size_t kRequestsPerConnection = 1;
constexpr size_t kBodyBytesMax = 64 << 10;

// What is shown comes from this server alone, whatever names and texts it holds: no script, style
// or image from elsewhere or from within a page, and no text that becomes markup.
constexpr std::pair<const char*, const char*> kHeaders[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
     "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
     "require-trusted-types-for 'script'; trusted-types 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cache-Control", "no-store"},
};

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return text;
}

struct Address {
  std::string host;
  int port = 0;
};

Result<Address> parse(const std::string& text) {
  auto malformed = [&] {
    return invalid_input(cat("'", text,
                             "' is no address to serve HTTP on; give HOST:PORT, such as "
                             "127.0.0.1:8080 or [::1]:8080"));
  };
  size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return malformed();
  Address out;
  out.host = text.substr(0, colon);
  if (out.host.front() == '[' && out.host.back() == ']') {
    out.host = out.host.substr(1, out.host.size() - 2);
  } else if (out.host.find(':') != std::string::npos) {
    return malformed();
  }
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data() + colon + 1, end, out.port);
  bool is_port = error == std::errc() && rest == end && out.port >= 0 && out.port <= 65535;
  return is_port && !out.host.empty() ? Result<Address>(out) : malformed();
}

}  // namespace

struct HttpServer::State {
  httplib::Server server;
  HttpHandler handler;
  std::string address;
  std::atomic<bool> ended{false};
  std::thread thread;

  void answer(const httplib::Request& request, httplib::Response& response) const {
    HttpRequest asked{request.path, {}};
    for (const auto& [name, value] : request.params) asked.query.emplace(name, value);
    for (const auto& [name, value] : request.headers) asked.headers.emplace(lower(name), value);
    asked.peer = request.remote_addr;
    HttpResponse answer = handler(asked);
    response.status = answer.status;
    for (const auto& [name, value] : kHeaders) response.set_header(name, value);
    for (const auto& [name, value] : answer.headers) response.set_header(name.c_str(), value);
    response.set_content(answer.body, answer.content_type.c_str());
  }
};

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const std::string& address,
                                                      HttpHandler handler) {
  LFARM_ASSIGN_OR_RETURN(Address parsed, parse(address));
  auto state = std::make_unique<State>();
  state->handler = std::move(handler);
  httplib::Server& server = state->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server.set_read_timeout(kReadSeconds);
  server.set_write_timeout(kReadSeconds);
  server.set_keep_alive_timeout(kIdleSeconds);
  server.set_keep_alive_max_count(kRequestsPerConnection);
  server.set_payload_max_length(kBodyBytesMax);
  // Without the library's own SO_REUSEPORT, with which two servers share an address unawares.
  server.set_socket_options([](socket_t socket) {
    int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.Get(".*",
             [it = state.get()](const httplib::Request& request, httplib::Response& response) {
               it->answer(request, response);
             });
  int port = parsed.port;
  if (port == 0) {
    port = server.bind_to_any_port(parsed.host.c_str());
  } else if (!server.bind_to_port(parsed.host.c_str(), port)) {
    port = -1;
  }
  if (port < 0) {
    return invalid_input(cat("cannot serve HTTP on ", address,
                             ": the address is taken or not of this machine; give another one"));
  }
  bool is_v6 = parsed.host.find(':') != std::string::npos;
  state->address = is_v6 ? cat('[', parsed.host, "]:", port) : cat(parsed.host, ':', port);
  state->thread = std::thread([it = state.get()] {
    if (!it->server.listen_after_bind()) {
      log_warning(cat("HTTP on ", it->address, " ended by itself"));
    }
    it->ended = true;
  });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::~HttpServer() {
  // Stopping what has not begun to listen would have no effect.
  while (!state_->server.is_running() && !state_->ended) std::this_thread::yield();
  state_->server.stop();
  state_->thread.join();
}

const std::string& HttpServer::address() const { return state_->address; }

}  // namespace common
