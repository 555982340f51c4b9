#include "clients/runtime/model/size_ranges.h"

#include <charconv>
#include <optional>

#include "common/base/cat.h"
#include "common/ir/hlir/graph_hash.h"

namespace clients {

using common::cat;
using common::Graph;
using common::Result;
using common::SymbolRange;

namespace {

// The parts of `text` between the separators; none when it is empty.
std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + separator.size()));
  }
  return parts;
}

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && value >= 0 ? std::optional<int64_t>(value) : std::nullopt;
}

Result<SizeRange> parse_one(std::string_view text) {
  auto refusal = [&] {
    return common::invalid_input(
        cat("\"", text, "\" is no range of sizes: write it as s0=1 or s0=2..128"));
  };
  size_t equals = text.find('=');
  if (text.substr(0, 1) != "s" || equals == std::string_view::npos) return refusal();
  auto symbol = number(text.substr(1, equals - 1));
  std::string_view sizes = text.substr(equals + 1);
  size_t dots = sizes.find("..");
  auto min = number(sizes.substr(0, dots));
  auto max = dots == std::string_view::npos ? min : number(sizes.substr(dots + 2));
  if (!symbol || !min || !max || *min > *max || *symbol > INT32_MAX) return refusal();
  return SizeRange{static_cast<int>(*symbol), SymbolRange{*min, *max}};
}

}  // namespace

Result<std::vector<SizeRanges>> parse_size_ranges(std::string_view text) {
  std::vector<SizeRanges> all;
  for (std::string_view alternative : split(text, ";")) {
    SizeRanges ranges;
    for (std::string_view part : split(alternative, ",")) {
      LFARM_ASSIGN_OR_RETURN(SizeRange range, parse_one(part));
      ranges.push_back(range);
    }
    if (ranges.empty()) return common::invalid_input("a range of sizes between \";\" is empty");
    all.push_back(std::move(ranges));
  }
  return all;
}

Result<Graph> for_sizes(const Graph& graph, const SizeRanges& ranges) {
  std::vector<SymbolRange> narrow = graph.symbols;
  for (const SizeRange& part : ranges) {
    auto symbol = static_cast<size_t>(part.symbol);
    if (symbol >= narrow.size()) {
      return common::invalid_input(
          cat("the model has ", narrow.size(), " sizes that vary, no s", part.symbol));
    }
    SymbolRange& whole = narrow[symbol];
    if (part.range.min < whole.min || part.range.max > whole.max) {
      return common::invalid_input(
          cat(text_of({part}), " leaves the model's range ", whole.min, "..", whole.max));
    }
    whole = part.range;
  }
  Graph result = common::narrowed(graph, narrow);
  for (size_t i = 0; i < result.inputs.size(); ++i) result.inputs[i].name = graph.inputs[i].name;
  return result;
}

bool holds(const SizeRanges& ranges, const std::vector<int64_t>& symbols) {
  for (const SizeRange& part : ranges) {
    int64_t value = symbols[static_cast<size_t>(part.symbol)];
    if (value < part.range.min || value > part.range.max) return false;
  }
  return true;
}

std::string text_of(const SizeRanges& ranges) {
  std::string text;
  for (const SizeRange& part : ranges) {
    text += cat(text.empty() ? "" : ",", "s", part.symbol, "=", part.range.min);
    if (part.range.max != part.range.min) text += cat("..", part.range.max);
  }
  return text;
}

}  // namespace clients
