// Asks an address for the first bytes that every farm sends: ZeroMQ alone would wait for them much
// longer than a person does.
#pragma once

#include <string>

namespace clients {

// Whether somebody takes connections at the endpoint (tcp or ipc) and then says nothing. Takes up
// to `wait_ms` where that is so, and milliseconds elsewhere.
bool listens_in_silence(const std::string& endpoint, int wait_ms);

}  // namespace clients
