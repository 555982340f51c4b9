// A scorecard for people (Markdown) and for programs (JSON), and earlier ones read again.
#pragma once

#include <string>
#include <string_view>

#include "clients/score/score.h"
#include "common/base/result.h"

namespace clients {

std::string markdown_of(const Scorecard& card);
std::string json_of(const Scorecard& card);

// What `json_of` wrote, as a run to compare with. kInvalidInput naming the file and what is wrong:
// no scorecard, or one of another graph, target or sizes than `run`.
common::Result<EarlierRun> parse_scorecard(std::string_view text, const std::string& name,
                                           const PlanRun& run);

}  // namespace clients
