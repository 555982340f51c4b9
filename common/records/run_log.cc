#include "common/records/run_log.h"

#include <string_view>

#include "common/base/cat.h"
#include "common/records/record.h"

namespace common {

Status check_run_log(const RunLog& log) {
  LFARM_RETURN_IF_ERROR(check_record_text("kind", log.kind, kRecordTextMax, false));
  LFARM_RETURN_IF_ERROR(check_record_text("name", log.name, kRecordTextMax, false));
  LFARM_RETURN_IF_ERROR(check_record_text("machine", log.machine, kRecordTextMax, true));
  LFARM_RETURN_IF_ERROR(check_record_text("device", log.device, kRecordTextMax, true));
  if (log.at_ns < 0) return invalid_input(cat("time is ", log.at_ns, ", not a number from 0"));
  if (log.lines.size() > kRunLogBytesMax) {
    return invalid_input(
        cat("the log has ", log.lines.size(), " bytes, at most ", kRunLogBytesMax, " fit"));
  }
  for (std::string_view rest = log.lines; !rest.empty();) {
    size_t end = rest.find('\n');
    LFARM_RETURN_IF_ERROR(check_record_text("a line", rest.substr(0, end), kRunLogBytesMax, true));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return {};
}

}  // namespace common
