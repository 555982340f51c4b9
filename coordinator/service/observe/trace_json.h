// A job's timeline in the format of Chrome's trace events, which Perfetto and chrome://tracing
// draw. Source of the format: "Trace Event Format" of the Chromium project.
#pragma once

#include <map>
#include <string>

#include "common/plan/kernel_origins.h"
#include "coordinator/service/observe/timeline.h"

namespace coordinator::service {

// One JSON object. The coordinator is a process: the job with its stages, the search with its
// rounds, and the candidates from their proposal to the disk. Every worker is one, with as many
// threads as it had leases at once. Spans of a thread nest. Times are microseconds since the first
// event; what a worker says lies in the middle of its lease, half the way's time on each side.
// `origins`: by the names of kernels, what candidates' arguments say of the one that took longest.
std::string trace_json(const StoredTimeline& timeline,
                       const std::map<std::string, common::KernelOrigin>& origins = {});

}  // namespace coordinator::service
