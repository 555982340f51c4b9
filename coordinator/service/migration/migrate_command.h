// `lfarm-coordinator migrate`: moves a farm between its state directory's store and an engine.
#pragma once

namespace coordinator::service {

// Prints what was moved. SIGTERM and SIGINT end it between two plans; the next run goes on. Returns
// the exit code: 2 for wrong usage, 4 where a coordinator serves the farm or the engine does not
// answer, 5 where something could not be moved and stays at its source, 1 for anything else.
int run_migrate(int argc, const char* const* argv);

}  // namespace coordinator::service
