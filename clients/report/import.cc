#include "clients/report/import.h"

#include <nlohmann/json.hpp>
#include <set>

#include "clients/report/logs/json_words.h"
#include "common/base/cat.h"

namespace clients {

using common::cat;
using common::invalid_input;
using common::Record;
using common::Result;
using common::Status;
using Json = nlohmann::json;

namespace {

constexpr double kMsNs = 1e6;

Status type_error(const std::string& word, const char* wanted) {
  return invalid_input(cat('"', word, "\" is not ", wanted));
}

Status read_gates(const Json& value, std::vector<common::GateResult>* into) {
  if (!value.is_array()) return type_error("gates", "a list");
  for (const Json& gate : value) {
    if (!gate.is_object()) return type_error("gates", "a list of objects");
    common::GateResult result;
    bool has_name = false, has_verdict = false;
    for (const auto& [word, part] : gate.items()) {
      if (word == "name") {
        has_name = true;
        LFARM_RETURN_IF_ERROR(read_text("a gate's name", part, &result.name));
      } else if (word == "passed") {
        has_verdict = true;
        if (!part.is_boolean()) return type_error("a gate's passed", "true or false");
        result.passed = part.get<bool>();
      } else if (word == "detail") {
        LFARM_RETURN_IF_ERROR(read_text("a gate's detail", part, &result.detail));
      } else {
        return invalid_input(cat("a gate has no \"", common::record_text(word), '"'));
      }
    }
    if (!has_name || !has_verdict) return invalid_input("a gate lacks its name or \"passed\"");
    into->push_back(std::move(result));
  }
  return {};
}

// A line while it is read: its parts may come in any order.
struct Line {
  Record record;
  common::Latency latency;
  common::OutputErrors error;
  common::SearchPoint search;
  std::set<std::string> words;

  bool has(const char* word) const { return words.count(word) != 0; }
};

Status read_ns(const std::string& word, const Json& value, double* into) {
  LFARM_RETURN_IF_ERROR(read_number(word, value, into));
  *into *= kMsNs;
  return {};
}

Status read_word(const std::string& word, const Json& value, Line* line) {
  Record& record = line->record;
  struct TextWord {
    const char* word;
    std::string* into;
  };
  for (const TextWord& t :
       {TextWord{"source", &record.source}, TextWord{"machine", &record.machine},
        TextWord{"device", &record.device}, TextWord{"backend", &record.backend},
        TextWord{"model", &record.model}, TextWord{"sizes", &record.sizes},
        TextWord{"dtype", &record.dtype}, TextWord{"strategy", &line->search.strategy}}) {
    if (word == t.word) return read_text(word, value, t.into);
  }
  if (word == "at") return read_time(word, value, &record.at_ns);
  if (word == "batch") return read_count(word, value, &record.batch.emplace());
  if (word == "latency_ms") return read_ns(word, value, &line->latency.median_ns);
  if (word == "spread_ms") return read_ns(word, value, &line->latency.spread_ns);
  if (word == "runs") return read_count(word, value, &line->latency.runs);
  if (word == "error_abs") return read_number(word, value, &line->error.absolute);
  if (word == "error_rel") return read_number(word, value, &line->error.relative);
  if (word == "budget") return read_count(word, value, &line->search.budget);
  if (word == "candidates") return read_count(word, value, &line->search.candidates);
  if (word == "best_ms") return read_ns(word, value, &line->search.best_ns);
  if (word == "baseline_ms") return read_ns(word, value, &line->search.baseline_ns);
  if (word == "seed") {
    int64_t seed = 0;
    LFARM_RETURN_IF_ERROR(read_count(word, value, &seed));
    line->search.seed = static_cast<uint64_t>(seed);
    return {};
  }
  if (word == "gates") return read_gates(value, &record.gates);
  return invalid_input(cat('"', common::record_text(word), "\" is no word of a measurement"));
}

// What was given of each part, or why it is not enough.
Status take_parts(Line* line) {
  struct Part {
    const char* word;
    const char* needs;
  };
  for (const Part& part :
       {Part{"spread_ms", "latency_ms"}, Part{"runs", "latency_ms"}, Part{"error_abs", "error_rel"},
        Part{"error_rel", "error_abs"}, Part{"best_ms", "budget"}, Part{"budget", "best_ms"},
        Part{"candidates", "best_ms"}, Part{"seed", "best_ms"}, Part{"strategy", "best_ms"},
        Part{"baseline_ms", "best_ms"}}) {
    if (line->has(part.word) && !line->has(part.needs)) {
      return invalid_input(cat('"', part.word, "\" needs \"", part.needs, "\" beside it"));
    }
  }
  if (line->has("latency_ms")) line->record.latency = line->latency;
  if (line->has("error_rel")) line->record.error = line->error;
  if (line->has("best_ms")) line->record.search = line->search;
  const Record& record = line->record;
  if (record.latency || record.error || record.search || !record.gates.empty()) return {};
  return invalid_input("it measures nothing: no latency_ms, error_rel, best_ms or gates");
}

Result<Record> parse_line(std::string_view text, int64_t now_ns) {
  if (text.size() > kImportLineMax) {
    return invalid_input(cat("it is longer than ", kImportLineMax, " bytes"));
  }
  LFARM_ASSIGN_OR_RETURN(Json json, parse_object(text));
  Line line;
  line.record.at_ns = now_ns;
  line.record.source = "import";
  for (const auto& [word, value] : json.items()) {
    line.words.insert(word);
    LFARM_RETURN_IF_ERROR(read_word(word, value, &line));
  }
  LFARM_RETURN_IF_ERROR(take_parts(&line));
  LFARM_RETURN_IF_ERROR(common::check_record(line.record));
  return std::move(line.record);
}

}  // namespace

Result<std::vector<Record>> parse_measurements(std::string_view text, const std::string& name,
                                               int64_t now_ns) {
  std::vector<Record> records;
  int64_t number = 0;
  while (!text.empty()) {
    ++number;
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto record = parse_line(line, now_ns);
    if (!record.ok()) {
      return common::Error{record.error().code,
                           cat(name, ", line ", number, ": ", record.error().message)};
    }
    records.push_back(std::move(record).value());
  }
  if (records.empty()) return invalid_input(cat(name, " holds no measurement"));
  return records;
}

}  // namespace clients
