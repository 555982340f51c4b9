// Where commands keep what they measured.
#pragma once

#include <cstdint>
#include <string>

#include "clients/cli/access/farm_options.h"
#include "clients/cli/base/command_line.h"
#include "common/records/record.h"

namespace clients {

// --record FILE.db.
void add_record_option(Command* command, std::string* file);

// The file, or that of the state directory where none is named.
std::string records_or_default(const FarmOptions& farm, const std::string& file);

// Since 1970, by the system's clock.
int64_t now_wall_ns();

// A record of this machine and moment. `name`: of the model, in any form.
common::Record record_here(const char* source, const std::string& device, const char* backend,
                           const std::string& name);

}  // namespace clients
