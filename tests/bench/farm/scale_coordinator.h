// A coordinator that starts over an engine with many plans.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/signing.h"
#include "common/plan/plan.h"

namespace bench {

// The part of the server that coordinators with this signing key use.
std::string space_of(const common::SigningKey& key);

struct ScaleCoordinatorOptions {
  std::string address;  // of the engine
  std::string state;    // with the signing key
  int clients = 8;
};

// Starts a coordinator, has plans of these keys pulled by one client and by several, each the first
// time and again, and adds to `line` how long that took and how much memory. Throws where the
// coordinator does not answer.
void measure_coordinator(const ScaleCoordinatorOptions& options,
                         const std::vector<common::PlanKey>& keys, nlohmann::ordered_json& line);

}  // namespace bench
