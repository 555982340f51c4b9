// How long candidates are judged, and what is said when none for the whole graph was right.
#pragma once

#include <cstdint>

#include "coordinator/search/job_search.h"

namespace coordinator {

// The time of a worker for references of one candidate (VerifyOptions::references_ms), in a search
// of `time_ms` (0: without a limit). What is found of a region is verified as a part of the whole
// graph again; the whole graph is verified on all inputs unless that would take a good part of the
// search, or seconds, as of a language model. The first program (`is_first`), for which users wait,
// is verified on what takes little more than one set of inputs then; finalists are on all others.
uint32_t references_ms(bool is_whole, bool is_first, int64_t time_ms);

// Why there is no plan, by the last candidate's result; null when none was tried.
common::Error nothing_worked(const CandidateResult* last);

}  // namespace coordinator
