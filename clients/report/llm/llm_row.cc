#include "clients/report/llm/llm_row.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "clients/report/drawing/figures.h"
#include "common/base/cat.h"
#include "common/text/units.h"

namespace clients {

using common::cat;
using Json = nlohmann::ordered_json;

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string json_of(const LlmRow& row) {
  Json line{{"bench", "llm"},
            {"model", row.model},
            {"way", row.way},
            {"shape", row.shape},
            {"prompt_tokens", row.prompt_tokens}};
  if (row.budget > 0) line["budget"] = row.budget;
  if (!row.error.empty()) {
    line["error"] = row.error;
    return line.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  double each = median_of(row.tpot_ms);
  line["ttft_ms"] = median_of(row.ttft_ms);
  line["tpot_ms"] = each;
  line["tokens_per_s"] = each > 0 ? 1e3 / each : 0;
  line["plan_s"] = row.plan_s;
  line["peak_mb"] = row.peak_mb;
  line["ttft_samples"] = row.ttft_ms;
  line["tpot_samples"] = row.tpot_ms;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

common::Result<LlmRow> row_of(const std::string& line) {
  const auto json = Json::parse(line, nullptr, false);
  try {
    LlmRow row;
    row.model = json.at("model").get<std::string>();
    row.way = json.at("way").get<std::string>();
    row.shape = json.at("shape").get<std::string>();
    row.prompt_tokens = json.at("prompt_tokens").get<int64_t>();
    row.budget = json.value("budget", int64_t{0});
    row.error = json.value("error", "");
    if (!row.error.empty()) return row;
    row.ttft_ms = json.at("ttft_samples").get<std::vector<double>>();
    row.tpot_ms = json.at("tpot_samples").get<std::vector<double>>();
    row.plan_s = json.at("plan_s").get<double>();
    row.peak_mb = json.at("peak_mb").get<double>();
    return row;
  } catch (const Json::exception& error) {
    return common::invalid_input(cat("not a row of this benchmark: ", error.what()));
  }
}

std::string table_of(const std::vector<LlmRow>& rows) {
  std::string text =
      "| model | shape | way | prompt | budget | TTFT | TPOT | tokens/s | plan | peak "
      "|\n"
      "|---|---|---|---|---|---|---|---|---|---|\n";
  for (const LlmRow& row : rows) {
    text += cat("| ", row.model, " | ", row.shape, " | ", row.way, " | ", row.prompt_tokens, " | ",
                row.budget > 0 ? cat(row.budget) : "", " | ");
    if (!row.error.empty()) {
      text += cat(row.error, " | | | | |\n");
      continue;
    }
    auto time = common::duration_text;
    double each = median_of(row.tpot_ms);
    text += cat(time(median_of(row.ttft_ms) * 1e6), " | ", time(each * 1e6), " | ",
                number_text(each > 0 ? 1e3 / each : 0), " | ", time(row.plan_s * 1e9), " | ",
                common::bytes_text(row.peak_mb * 1024 * 1024), " |\n");
  }
  return text;
}

}  // namespace clients
