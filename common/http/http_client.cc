#include "common/http/http_client.h"

#include <httplib.h>

#include "common/base/cat.h"

namespace common {
namespace {

template <class Client>
httplib::Result send(Client& client, const HttpCall& call) {
  auto timeout = std::chrono::milliseconds(call.timeout_ms);
  client.set_connection_timeout(timeout);
  client.set_read_timeout(timeout);
  client.set_write_timeout(timeout);
  httplib::Request request;
  request.method = call.method;
  request.path = call.path;
  request.headers.insert(call.headers.begin(), call.headers.end());
  if (!call.body.empty()) {
    request.body = call.body;
    request.set_header("Content-Type", call.content_type);
  }
  return client.send(request);
}

}  // namespace

Result<HttpReply> http_call(const HttpEndpoint& endpoint, const HttpCall& call) {
  auto answered = [&] {
    if (!endpoint.tls) {
      httplib::Client client(endpoint.host, endpoint.port);
      return send(client, call);
    }
    httplib::SSLClient client(endpoint.host, endpoint.port);
    client.set_ca_cert_path(endpoint.ca_file.c_str());
    client.enable_server_certificate_verification(true);
    return send(client, call);
  }();
  std::string where = cat(endpoint.tls ? "https://" : "http://", endpoint.host, ':', endpoint.port);
  if (!answered) {
    bool is_stranger = answered.error() == httplib::Error::SSLServerVerification ||
                       answered.error() == httplib::Error::SSLLoadingCerts;
    return Error{
        is_stranger ? Code::kVerification : Code::kUnavailable,
        cat(call.method, ' ', where, call.path, ": ", httplib::to_string(answered.error()))};
  }
  HttpReply reply{answered->status, std::move(answered->body), {}};
  for (const auto& [name, value] : answered->headers) reply.headers[name] = value;
  return reply;
}

}  // namespace common
