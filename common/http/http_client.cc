#include "common/http/http_client.h"

#include <httplib.h>

#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"

namespace common {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;

// A plain or a TLS client, which are one class to httplib but for how they are made.
std::unique_ptr<httplib::ClientImpl> client_of(const HttpEndpoint& endpoint) {
  std::unique_ptr<httplib::ClientImpl> client;
  if (endpoint.tls) {
    auto secure = std::make_unique<httplib::SSLClient>(endpoint.host, endpoint.port);
    if (!endpoint.ca_file.empty()) secure->set_ca_cert_path(endpoint.ca_file.c_str());
    secure->enable_server_certificate_verification(true);
    client = std::move(secure);
  } else {
    client = std::make_unique<httplib::ClientImpl>(endpoint.host, endpoint.port);
  }
  client->set_keep_alive(true);
  client->set_tcp_nodelay(true);
  return client;
}

httplib::Request request_of(const HttpCall& call) {
  httplib::Request request;
  request.method = call.method;
  request.path = call.path;
  request.headers.insert(call.headers.begin(), call.headers.end());
  if (!call.body.empty()) {
    request.body = call.body;
    request.set_header("Content-Type", call.content_type);
  }
  return request;
}

}  // namespace

struct HttpConnection::State {
  HttpEndpoint endpoint;
  std::unique_ptr<httplib::ClientImpl> client;
};

HttpConnection::HttpConnection(HttpEndpoint endpoint) : state_(std::make_unique<State>()) {
  state_->client = client_of(endpoint);
  state_->endpoint = std::move(endpoint);
}

HttpConnection::~HttpConnection() = default;

Result<HttpReply> HttpConnection::call(const HttpCall& call) {
  httplib::ClientImpl& client = *state_->client;
  auto timeout = std::chrono::milliseconds(call.timeout_ms);
  client.set_connection_timeout(timeout);
  client.set_read_timeout(timeout);
  client.set_write_timeout(timeout);
  httplib::Request request = request_of(call);
  std::string body;
  bool is_too_large = false, is_late = false;
  const int64_t start_ns = SteadyClock().now_ns();
  request.content_receiver = [&](const char* data, size_t size, uint64_t, uint64_t) {
    is_too_large = size > call.reply_bytes_max - body.size();
    is_late = (SteadyClock().now_ns() - start_ns) / kNsPerMs > call.body_ms_max;
    if (is_too_large || is_late) return false;
    body.append(data, size);
    return true;
  };
  httplib::Result answered = client.send(request);
  const HttpEndpoint& endpoint = state_->endpoint;
  if (!answered) {
    bool is_stranger = answered.error() == httplib::Error::SSLServerVerification ||
                       answered.error() == httplib::Error::SSLLoadingCerts;
    std::string why = is_too_large ? cat("more than ", call.reply_bytes_max, " bytes are answered")
                      : is_late    ? cat("its answer takes more than ", call.body_ms_max, " ms")
                                   : httplib::to_string(answered.error());
    return Error{is_stranger ? Code::kVerification
                 : is_late   ? Code::kTimedOut
                             : Code::kUnavailable,
                 cat(call.method, ' ', endpoint.tls ? "https://" : "http://", endpoint.host, ':',
                     endpoint.port, call.path, ": ", why)};
  }
  HttpReply reply{answered->status, std::move(body), {}};
  for (const auto& [name, value] : answered->headers) reply.headers[name] = value;
  return reply;
}

Result<HttpReply> http_call(const HttpEndpoint& endpoint, const HttpCall& call) {
  return HttpConnection(endpoint).call(call);
}

}  // namespace common
