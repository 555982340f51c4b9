// Asks an address for the first bytes that every farm sends: ZeroMQ alone would wait for them much
// longer than a person does.
#pragma once

#include <cstdint>
#include <string>

namespace clients {

enum class Listener : uint8_t {
  kNobody,   // connections are refused
  kSilent,   // somebody takes connections and then says nothing
  kUnknown,  // somebody speaks or hangs up, or nothing at all came back
};
// Who listens at the endpoint (tcp or ipc). Takes up to twice `wait_ms` where nothing comes back,
// up to once where somebody is silent, and milliseconds elsewhere.
Listener listener_at(const std::string& endpoint, int wait_ms);

}  // namespace clients
