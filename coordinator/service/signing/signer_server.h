// The signer's process: signs what coordinators of this machine ask for over a Unix socket, if it
// is what it is said to be.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "coordinator/service/signing/signer.h"

namespace coordinator::service {

// Who may write to the socket may ask: its owner and its group. A connection has a thread of its
// own, which waits as long as nobody asks.
class SignerServer {
 public:
  // Serves from threads of its own. `signer` outlives it. kInvalidInput when another process
  // listens on the path, or it cannot be bound.
  static common::Result<std::unique_ptr<SignerServer>> start(const std::string& path,
                                                             const Signer& signer);
  // Ends all connections and removes the socket.
  ~SignerServer();
  SignerServer(const SignerServer&) = delete;
  SignerServer& operator=(const SignerServer&) = delete;

  uint64_t signed_count() const;
  uint64_t refused_count() const;

 private:
  struct State;
  explicit SignerServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace coordinator::service
