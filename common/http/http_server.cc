#include "common/http/http_server.h"

#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <thread>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "common/http/deadline_stream.h"
#include "common/http/tls_server.h"

namespace common {
namespace {

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

namespace {

// Counts what waits for a thread.
class CountedPool final : public httplib::TaskQueue {
 public:
  CountedPool(size_t threads, std::atomic<int>& waiting) : pool_(threads), waiting_(waiting) {}
  void enqueue(std::function<void()> task) override {
    ++waiting_;
    pool_.enqueue([this, task = std::move(task)] {
      --waiting_;
      task();
    });
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  httplib::ThreadPool pool_;
  std::atomic<int>& waiting_;
};

// The library's server, but for how a connection is read and written. One request each: a thread is
// held while nothing is asked, too.
class Server final : public httplib::Server {
 public:
  Server(size_t threads, std::unique_ptr<TlsServer> tls) : tls_(std::move(tls)) {
    new_task_queue = [this, threads] { return new CountedPool(threads, waiting_); };
  }

 private:
  bool process_and_close_socket(socket_t socket) override {
    bool answered = false;
    {
      DeadlineStream stream(socket, {}, waiting_, tls_.get());
      bool closed = false;
      answered = stream.handshake() && process_request(stream, true, closed, nullptr);
    }
    // What lies unread would make the kernel take the answer back.
    ::shutdown(socket, SHUT_WR);
    char rest[4096];
    while (::recv(socket, rest, sizeof rest, MSG_DONTWAIT) > 0) {
    }
    ::close(socket);
    return answered;
  }

  std::atomic<int> waiting_{0};
  std::unique_ptr<TlsServer> tls_;
};

}  // namespace

struct HttpServer::State {
  State(size_t threads, std::unique_ptr<TlsServer> tls) : server(threads, std::move(tls)) {}
  Server server;
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
                                                      HttpHandler handler,
                                                      const HttpServerOptions& options) {
  LFARM_ASSIGN_OR_RETURN(Address parsed, parse(address));
  std::unique_ptr<TlsServer> tls;
  if (!options.certificate.empty() || !options.key.empty()) {
    LFARM_ASSIGN_OR_RETURN(tls, TlsServer::load(options.certificate, options.key));
  }
  auto state = std::make_unique<State>(options.threads, std::move(tls));
  state->handler = std::move(handler);
  Server& server = state->server;
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
