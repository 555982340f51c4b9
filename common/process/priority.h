// Priorities of threads.
#pragma once

namespace common {

// Lets the calling thread, and what it starts from now on, give way to threads of usual priority:
// for work beside which others measure. Less where a crowd of other programs is runnable, beside
// whom it would never end. Nothing depends on whether it succeeds. Async-signal-safe.
void give_way();

// What give_way() adds to a thread's niceness where `runnable` threads share `processors`.
int niceness_to_give_way(long runnable, long processors);

}  // namespace common
