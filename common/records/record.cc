#include "common/records/record.h"

#include <unistd.h>

#include <cmath>

#include "common/base/cat.h"

namespace common {
namespace {

// Bytes of the UTF-8 sequence that `text` begins with, by RFC 3629; 0: none begins there.
size_t sequence_length(std::string_view text) {
  auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
  unsigned char first = byte(0);
  if (first < 0x80) return 1;
  size_t length = first >= 0xC2 && first < 0xE0   ? 2
                  : first >= 0xE0 && first < 0xF0 ? 3
                  : first >= 0xF0 && first < 0xF5 ? 4
                                                  : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t k = 1; k < length; ++k) {
    if ((byte(k) & 0xC0) != 0x80) return 0;
  }
  unsigned char second = byte(1);
  bool is_overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  bool is_outside = (first == 0xED && second >= 0xA0) || (first == 0xF4 && second >= 0x90);
  return is_overlong || is_outside ? 0 : length;
}

bool is_control(unsigned char c) { return c < 0x20 || c == 0x7F; }

Status check_number(const char* field, double value, bool may_be_zero) {
  if (std::isfinite(value) && (value > 0 || (may_be_zero && value == 0))) return {};
  return invalid_input(
      cat(field, " is ", value, may_be_zero ? ", not a number from 0" : ", not a number above 0"));
}

Status check_search(const SearchPoint& search) {
  LFARM_RETURN_IF_ERROR(check_record_text("strategy", search.strategy, kRecordTextMax, true));
  LFARM_RETURN_IF_ERROR(check_number("budget", static_cast<double>(search.budget), true));
  LFARM_RETURN_IF_ERROR(check_number("candidates", static_cast<double>(search.candidates), true));
  LFARM_RETURN_IF_ERROR(check_number("best time", search.best_ns, false));
  return check_number("baseline time", search.baseline_ns, true);
}

}  // namespace

Status check_record_text(const char* field, std::string_view text, size_t bytes_max,
                         bool may_be_empty) {
  if (text.empty() && !may_be_empty) return invalid_input(cat(field, " is empty"));
  if (text.size() > bytes_max) {
    return invalid_input(cat(field, " has ", text.size(), " bytes, at most ", bytes_max, " fit"));
  }
  for (size_t at = 0; at < text.size();) {
    size_t length = sequence_length(text.substr(at));
    if (length == 0) return invalid_input(cat(field, " is not UTF-8"));
    if (is_control(static_cast<unsigned char>(text[at]))) {
      return invalid_input(cat(field, " holds a control character"));
    }
    at += length;
  }
  return {};
}

Status check_record(const Record& record) {
  struct Text {
    const char* field;
    const std::string& text;
    bool may_be_empty;
  };
  for (const Text& t : {Text{"source", record.source, false}, Text{"machine", record.machine, true},
                        Text{"device", record.device, false},
                        Text{"backend", record.backend, false}, Text{"model", record.model, false},
                        Text{"sizes", record.sizes, true}, Text{"dtype", record.dtype, true}}) {
    LFARM_RETURN_IF_ERROR(check_record_text(t.field, t.text, kRecordTextMax, t.may_be_empty));
  }
  LFARM_RETURN_IF_ERROR(check_number("time", static_cast<double>(record.at_ns), true));
  if (record.batch) {
    LFARM_RETURN_IF_ERROR(check_number("batch", static_cast<double>(*record.batch), false));
  }
  if (record.latency) {
    LFARM_RETURN_IF_ERROR(check_number("latency", record.latency->median_ns, false));
    LFARM_RETURN_IF_ERROR(check_number("spread", record.latency->spread_ns, true));
    LFARM_RETURN_IF_ERROR(check_number("runs", static_cast<double>(record.latency->runs), true));
  }
  if (record.error) {
    LFARM_RETURN_IF_ERROR(check_number("absolute error", record.error->absolute, true));
    LFARM_RETURN_IF_ERROR(check_number("relative error", record.error->relative, true));
  }
  if (record.search) LFARM_RETURN_IF_ERROR(check_search(*record.search));
  if (record.gates.size() > kRecordGatesMax) {
    return invalid_input(cat(record.gates.size(), " gates, at most ", kRecordGatesMax, " fit"));
  }
  for (const GateResult& gate : record.gates) {
    LFARM_RETURN_IF_ERROR(check_record_text("a gate's name", gate.name, kRecordTextMax, false));
    LFARM_RETURN_IF_ERROR(
        check_record_text("a gate's detail", gate.detail, kRecordDetailMax, true));
  }
  return {};
}

std::string machine_name() {
  char name[kRecordTextMax + 1] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "";
  return record_text(name);
}

std::string record_text(std::string_view text, size_t bytes_max) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t length = sequence_length(text.substr(at));
    std::string_view piece = length == 0 ? std::string_view("?") : text.substr(at, length);
    if (is_control(static_cast<unsigned char>(piece[0]))) piece = " ";
    if (out.size() + piece.size() > bytes_max) break;
    out += piece;
    at += length == 0 ? 1 : length;
  }
  return out;
}

}  // namespace common
