// The server's side of TLS (OpenSSL), over sockets that do not block.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "common/base/result.h"

struct ssl_st;      // OpenSSL's SSL
struct ssl_ctx_st;  // and SSL_CTX

namespace common {

struct TlsFree {
  void operator()(ssl_st* connection) const;
  void operator()(ssl_ctx_st* context) const;
};
using TlsConnection = std::unique_ptr<ssl_st, TlsFree>;

// A certificate and its key, from PEM files. TLS 1.2 and newer. Thread-safe.
class TlsServer {
 public:
  // `certificate`: the server's, and those that lead to its authority's. kInvalidInput when a file
  // cannot be read, or when they do not belong together.
  static Result<std::unique_ptr<TlsServer>> load(std::string certificate, std::string key);

  // For a connected socket, with the files as they are now: what renews a certificate writes them
  // anew. New ones that cannot be used are reported in the log, and the ones before stay. Null when
  // memory is short.
  TlsConnection begin(int socket);

 private:
  using Context = std::unique_ptr<ssl_ctx_st, TlsFree>;
  TlsServer(std::string certificate, std::string key)
      : certificate_(std::move(certificate)), key_(std::move(key)) {}
  Result<Context> load_files() const;
  // Changes with the files; 0 while one of them is not there.
  int64_t version_of_files() const;

  const std::string certificate_, key_;
  std::mutex mutex_;  // guards what follows
  Context context_;
  int64_t version_ = 0;
};

// Each goes on as far as the socket permits. 0: done; POLLIN or POLLOUT: what to wait for before
// the same call; -1: the connection is over. `got` and `put` are bytes, 0 at the peer's end, and
// stay as they are when nothing was moved.
short tls_handshake(ssl_st& connection);
short tls_read(ssl_st& connection, char* data, size_t size, ssize_t& got);
short tls_write(ssl_st& connection, const char* data, size_t size, ssize_t& put);

}  // namespace common
