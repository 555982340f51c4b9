#include "clients/report/logs/validation.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "clients/report/logs/json_words.h"
#include "clients/report/logs/run_lines.h"
#include "common/base/cat.h"

namespace clients {

using common::cat;
using common::invalid_input;
using common::Result;
using common::Status;
using Json = nlohmann::json;

namespace {

VariantVerdict verdict_for(bool is_fast, bool is_exact) {
  if (is_fast) return is_exact ? VariantVerdict::kPass : VariantVerdict::kPassInSpeed;
  return is_exact ? VariantVerdict::kPassInAccuracy : VariantVerdict::kFail;
}

Status read_row(const Json& line, VariantRow* row) {
  Words words(line);
  words.text("variant", &row->variant, Need::kNeeded);
  words.count("batch", &row->batch, Need::kNeeded);
  words.number("latency_ms", &row->latency_ms, Need::kNeeded);
  words.number("spread_ms", &row->spread_ms);
  words.number("error", &row->error, Need::kNeeded);
  LFARM_RETURN_IF_ERROR(words.finish());
  if (row->batch < 1) return invalid_input("\"batch\" is 0, not a number from 1");
  if (!(row->latency_ms > 0)) return invalid_input("\"latency_ms\" is not above 0");
  LFARM_RETURN_IF_ERROR(check_not_negative("spread_ms", row->spread_ms));
  return check_not_negative("error", row->error);
}

void hold_against(const VariantRow& teacher, VariantRow* row) {
  row->time_ratio = row->latency_ms / teacher.latency_ms;
  row->error_limit = kErrorFactor * teacher.error + kErrorFloor;
  if (teacher.error > 0) row->error_ratio = row->error / teacher.error;
  row->verdict = verdict_for(*row->time_ratio <= kSpeedLimit, row->error <= *row->error_limit);
}

size_t place_of(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

// Orders the rows, of which `taken` has the last of each variant and batch.
void finish(std::map<std::pair<std::string, int64_t>, VariantRow> taken, Validation* into) {
  auto teacher = std::find(into->variants.begin(), into->variants.end(), into->teacher);
  if (teacher != into->variants.end()) std::rotate(into->variants.begin(), teacher, teacher + 1);
  for (auto& [key, row] : taken) {
    auto at = taken.find({into->teacher, row.batch});
    if (at != taken.end() && row.variant != into->teacher) hold_against(at->second, &row);
    into->rows.push_back(row);
  }
  std::stable_sort(into->rows.begin(), into->rows.end(),
                   [&](const VariantRow& a, const VariantRow& b) {
                     return std::pair(place_of(into->variants, a.variant), a.batch) <
                            std::pair(place_of(into->variants, b.variant), b.batch);
                   });
}

}  // namespace

const char* verdict_name(VariantVerdict verdict) {
  switch (verdict) {
    case VariantVerdict::kPass:
      return "pass";
    case VariantVerdict::kPassInSpeed:
      return "pass in speed";
    case VariantVerdict::kPassInAccuracy:
      return "pass in accuracy";
    case VariantVerdict::kFail:
      break;
  }
  return "fail";
}

Result<Validation> parse_validation(const common::RunLog& log, int64_t first_line) {
  Validation validation;
  std::map<std::pair<std::string, int64_t>, VariantRow> taken;
  size_t lines = 0;
  auto take = [&](const Json& line) -> Status {
    VariantRow row;
    LFARM_RETURN_IF_ERROR(read_row(line, &row));
    if (++lines > kVariantRowsMax) {
      return invalid_input(cat("there are more than ", kVariantRowsMax, " lines of variants"));
    }
    if (place_of(validation.variants, row.variant) == validation.variants.size()) {
      if (validation.variants.size() == kVariantsMax) {
        return invalid_input(cat("there are more than ", kVariantsMax, " variants"));
      }
      validation.variants.push_back(row.variant);
    }
    taken[{row.variant, row.batch}] = row;
    return {};
  };
  LFARM_RETURN_IF_ERROR(read_lines(
      log, first_line, &validation.head,
      [&](Words& head) { head.text("teacher", &validation.teacher, Need::kNeeded); }, take));
  finish(std::move(taken), &validation);
  return validation;
}

std::optional<VariantVerdict> verdict_of(const Validation& validation, const std::string& variant) {
  bool is_fast = true, is_exact = true, any = false;
  for (const VariantRow& row : validation.rows) {
    if (row.variant != variant || !row.verdict) continue;
    any = true;
    bool passes = *row.verdict == VariantVerdict::kPass;
    is_fast = is_fast && (passes || *row.verdict == VariantVerdict::kPassInSpeed);
    is_exact = is_exact && (passes || *row.verdict == VariantVerdict::kPassInAccuracy);
  }
  return any ? std::optional(verdict_for(is_fast, is_exact)) : std::nullopt;
}

}  // namespace clients
