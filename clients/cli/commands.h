// The commands of lfarm, one function each. They return the process's exit code and print errors
// themselves.
#pragma once

#include "clients/cli/command_line.h"

namespace clients {

int up(const UpCommand& command);
int submit(const SubmitCommand& command);
int run(const RunCommand& command);
int check(const CheckCommand& command);
int print(const PrintCommand& command);
int plan_show(const PlanShowCommand& command);
int status(const StatusCommand& command);
int cancel(const CancelCommand& command);
int replay(const ReplayCommand& command);
int cache_command(const CacheCommand& command);

}  // namespace clients
