// Who has asked the farm to change something, in the log.
#pragma once

#include <string>

#include "common/wire/messages.h"
#include "common/wire/security.h"

namespace coordinator::service {

// A line "audit" with key, tenant, address, request and what it is about, for requests that begin
// or end something: jobs, plans' withdrawal, publication and import, workers that join. `refused`:
// the key may not.
void audit(const common::Message& request, const common::Principal& who, const std::string& address,
           bool refused);

}  // namespace coordinator::service
