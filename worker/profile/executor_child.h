// The executor child: the only process that touches the device. Answers one request after another
// until its pipe closes.
#pragma once

namespace worker {

// Serves requests from the socket `fd`; returns the exit code once the parent is gone. Sets the
// process's limits: no core dumps, bounded address space, bounded processor time for candidates.
int run_executor_child(int fd);

}  // namespace worker
