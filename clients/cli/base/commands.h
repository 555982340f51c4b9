// The commands of lfarm, in the order in which help lists them. A command NAME is a file NAME.cc
// with its options, its function, and declare_NAME(), which tells the command line of both; that of
// `report` is make_report.cc, since report.h is how all of them end.
#pragma once

#include "clients/cli/base/command_line.h"

#define LFARM_COMMANDS(X) \
  X(up)                   \
  X(submit)               \
  X(run)                  \
  X(generate)             \
  X(check)                \
  X(check_worker)         \
  X(compare)              \
  X(print)                \
  X(plan_show)            \
  X(plan_score)           \
  X(plan_explain)         \
  X(plan_io)              \
  X(plan_export)          \
  X(plan_import)          \
  X(plan_publish)         \
  X(plan_verify)          \
  X(status)               \
  X(workers)              \
  X(jobs)                 \
  X(jobs_trace)           \
  X(cancel)               \
  X(replay)               \
  X(report)               \
  X(report_import)        \
  X(doctor)               \
  X(cache_stats)          \
  X(cache_ls)             \
  X(cache_gc)             \
  X(cache_restore)        \
  X(cache_revoke)         \
  X(cache_reverify)       \
  X(keys_init)            \
  X(keys_new)             \
  X(keys_delegate)        \
  X(keys_grant)           \
  X(keys_revoke)          \
  X(keys_ls)              \
  X(completion)           \
  X(man)

namespace clients {

// The first words of commands that have two, and what help says of them.
struct CommandGroup {
  const char* name;
  const char* what;
};
inline constexpr CommandGroup kCommandGroups[] = {
    {"plan", "Looks into plans, checks them, and carries them from place to place."},
    {"cache", "Looks into the cache."},
    {"keys", "Says who may reach a farm, and as whom."},
};

#define LFARM_DECLARE_COMMAND(name) void declare_##name(CommandLine* line);
LFARM_COMMANDS(LFARM_DECLARE_COMMAND)
#undef LFARM_DECLARE_COMMAND

}  // namespace clients
