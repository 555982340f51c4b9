#include "clients/cli/access/record_options.h"

#include <chrono>

namespace clients {

void add_record_option(Command* command, std::string* file) {
  command->value("--record", file, "FILE.db",
                 "Adds what was measured to these records, for 'lfarm report'");
}

std::string records_or_default(const FarmOptions& farm, const std::string& file) {
  return file.empty() ? farm.state + "/records.db" : file;
}

int64_t now_wall_ns() {
  auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

common::Record record_here(const char* source, const std::string& device, const char* backend,
                           const std::string& name) {
  common::Record record;
  record.at_ns = now_wall_ns();
  record.source = source;
  record.machine = common::machine_name();
  record.device = device;
  record.backend = backend;
  record.model = common::record_text(name);
  if (record.model.empty()) record.model = "model";
  return record;
}

}  // namespace clients
