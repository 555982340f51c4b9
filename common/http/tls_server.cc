#include "common/http/tls_server.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <climits>

#include "common/base/cat.h"
#include "common/base/log.h"

namespace common {
namespace {

std::string openssl_reason() {
  char text[256] = "unknown";
  unsigned long error = ::ERR_get_error();
  if (error != 0) ::ERR_error_string_n(error, text, sizeof text);
  ::ERR_clear_error();
  return text;
}

short wanted(ssl_st& connection, int result) {
  int reason = ::SSL_get_error(&connection, result);
  ::ERR_clear_error();
  if (reason == SSL_ERROR_WANT_READ) return POLLIN;
  if (reason == SSL_ERROR_WANT_WRITE) return POLLOUT;
  return -1;
}

int clamped(size_t size) { return static_cast<int>(std::min<size_t>(size, INT_MAX)); }

}  // namespace

void TlsFree::operator()(ssl_st* connection) const { ::SSL_free(connection); }
void TlsFree::operator()(ssl_ctx_st* context) const { ::SSL_CTX_free(context); }

Result<std::unique_ptr<TlsServer>> TlsServer::load(std::string certificate, std::string key) {
  std::unique_ptr<TlsServer> server(new TlsServer(std::move(certificate), std::move(key)));
  server->version_ = server->version_of_files();
  LFARM_ASSIGN_OR_RETURN(server->context_, server->load_files());
  return server;
}

Result<TlsServer::Context> TlsServer::load_files() const {
  Context context(::SSL_CTX_new(::TLS_server_method()));
  if (context == nullptr) return internal_error(cat("TLS: ", openssl_reason()));
  ::SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  ::SSL_CTX_set_mode(context.get(),
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (::SSL_CTX_use_certificate_chain_file(context.get(), certificate_.c_str()) != 1) {
    return invalid_input(cat("no certificate in ", certificate_, " (PEM): ", openssl_reason()));
  }
  if (::SSL_CTX_use_PrivateKey_file(context.get(), key_.c_str(), SSL_FILETYPE_PEM) != 1) {
    return invalid_input(
        cat(key_, " (PEM) is not the key of ", certificate_, ": ", openssl_reason()));
  }
  return context;
}

int64_t TlsServer::version_of_files() const {
  int64_t version = 0;
  for (const std::string& path : {certificate_, key_}) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return 0;
    version = version * 31 + status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec +
              static_cast<int64_t>(status.st_ino);
  }
  return version;
}

TlsConnection TlsServer::begin(int socket) {
  std::lock_guard lock(mutex_);
  int64_t version = version_of_files();
  if (version != 0 && version != version_) {
    version_ = version;
    auto renewed = load_files();
    if (renewed.ok()) {
      context_ = std::move(renewed).value();
      log_info(cat("the certificate of ", certificate_, " was renewed"));
    } else {
      log_warning(cat("the certificate was not renewed: ", renewed.error().message));
    }
  }
  TlsConnection connection(::SSL_new(context_.get()));
  if (connection != nullptr) {
    ::SSL_set_fd(connection.get(), socket);
    ::SSL_set_accept_state(connection.get());
  }
  return connection;
}

short tls_handshake(ssl_st& connection) {
  int result = ::SSL_do_handshake(&connection);
  return result == 1 ? short{0} : wanted(connection, result);
}

short tls_read(ssl_st& connection, char* data, size_t size, ssize_t& got) {
  int result = ::SSL_read(&connection, data, clamped(size));
  if (result <= 0) {
    if (::SSL_get_error(&connection, result) == SSL_ERROR_ZERO_RETURN) got = 0;
    return wanted(connection, result);
  }
  got = result;
  return 0;
}

short tls_write(ssl_st& connection, const char* data, size_t size, ssize_t& put) {
  int result = ::SSL_write(&connection, data, clamped(size));
  if (result <= 0) return wanted(connection, result);
  put = result;
  return 0;
}

}  // namespace common
