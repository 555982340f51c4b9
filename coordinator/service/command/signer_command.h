// `lfarm-coordinator --role sign`: a signer's command line.
#pragma once

namespace coordinator::service {

// Whether the arguments ask for a signer.
bool asks_for_signer(int argc, const char* const* argv);
// Signs for coordinators of this machine until SIGTERM or SIGINT. Returns the exit code: 2 for
// wrong usage, a key or a socket, 5 for a delegation that is not the key's, 1 for anything else.
int run_signer_command(int argc, const char* const* argv);

}  // namespace coordinator::service
