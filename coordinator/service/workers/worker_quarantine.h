// Workers that compiled something else than others of their make: the farm refuses them for a week,
// over restarts, or until they come under another name.
#pragma once

#include <optional>
#include <string>

#include "cache/store/store.h"
#include "coordinator/service/workers/workers.h"

namespace coordinator::service {

// Takes the worker's leases away and refuses it from now on. `why`: "it compiled ...".
void quarantine_worker(cache::Store& store, Workers& workers, const std::string& name,
                       const std::string& why);
// Why the worker is refused; empty when it is not.
std::optional<std::string> quarantine_of(cache::Store& store, const std::string& name);

}  // namespace coordinator::service
