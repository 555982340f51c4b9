#include <algorithm>
#include <set>

#include "common/base/cat.h"
#include "common/ir/hlir/text_fields.h"
#include "common/ir/nest/loop_nest.h"

namespace common {
namespace {

template <class Ids>
std::string id_list(const Ids& ids) {
  std::string out;
  for (NodeId id : ids) out += cat(out.empty() ? "" : ", ", id);
  return cat("[", out, "]");
}

std::string band_text(const LoopBand& band, size_t grid, const std::string& indent) {
  std::string out;
  for (size_t k = 0; k < band.extents.size(); ++k) {
    out += cat(indent, k < grid ? "grid" : "loop", " i", k, " < ", band.extents[k].text(), "\n");
  }
  return cat(out, indent, "axes ", shape_text(band.position), "\n");
}

std::string accumulators_text(const GroupNest& group, const std::string& indent) {
  if (!group.accumulators) return "";
  return cat(indent, "accumulators before=", group.accumulators->before,
             " width=", group.accumulators->width, "\n");
}

class NestParser {
 public:
  Result<LoopNest> parse(std::string_view text) {
    int line = 0;
    while (!text.empty()) {
      ++line;
      size_t end = text.find('\n');
      std::string_view one = trim(text.substr(0, end));
      text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
      if (!one.empty() && !read(one)) {
        return invalid_input(cat("line ", line, ": '", one, "' is no part of a loop nest"));
      }
    }
    if (nest_.groups.empty()) nest_.groups.push_back(std::move(single_));
    return std::move(nest_);
  }

 private:
  GroupNest& group() { return nest_.groups.empty() ? single_ : nest_.groups.back(); }
  LoopBand& band() { return nest_.groups.empty() ? nest_.shared : nest_.groups.back().own; }

  bool read(std::string_view line) {
    size_t space = line.find(' ');
    std::string_view word = line.substr(0, space);
    std::string_view rest =
        space == std::string_view::npos ? std::string_view() : trim(line.substr(space));
    if (word == "grid" || word == "loop") return read_loop(rest, word == "grid");
    if (word == "axes") return read_axes(rest);
    if (word == "group") nest_.groups.emplace_back();
    if (word == "transposed") nest_.transposed = true;
    if (word == "blocks_in_grid") nest_.blocks_in_grid = true;
    if (word == "dot_products") nest_.dot_products = true;
    if (word == "epilogue") nest_.is_epilogue = true;
    static const std::set<std::string_view> kAlone = {"group", "transposed", "blocks_in_grid",
                                                      "dot_products", "epilogue"};
    if (kAlone.count(word) != 0) return rest.empty();
    auto fields = parse_fields(rest);
    return fields && read_fields(word, *fields);
  }

  bool read_loop(std::string_view rest, bool is_grid) {
    size_t less = rest.find('<');
    if (less == std::string_view::npos) return false;
    LoopBand& to = band();
    if (trim(rest.substr(0, less)) != cat("i", to.extents.size())) return false;
    auto extent = parse_expr(trim(rest.substr(less + 1)));
    if (!extent.ok()) return false;
    if (is_grid && (!nest_.groups.empty() || nest_.grid != to.extents.size())) return false;
    nest_.grid += is_grid ? 1 : 0;
    to.extents.push_back(*extent);
    return true;
  }

  bool read_axes(std::string_view rest) {
    if (rest.size() < 2 || rest.front() != '[' || rest.back() != ']') return false;
    auto position = parse_exprs(split_list(rest.substr(1, rest.size() - 2)));
    if (position) band().position = std::move(*position);
    return position.has_value();
  }

  static std::optional<std::vector<NodeId>> ids(const Fields& fields, std::string_view key) {
    auto parts = fields.list(key);
    if (!parts) return std::nullopt;
    std::vector<NodeId> result;
    for (std::string_view part : *parts) {
      auto id = parse_int(part);
      if (!id || *id < 0 || *id > INT32_MAX) return std::nullopt;
      result.push_back(static_cast<NodeId>(*id));
    }
    return result;
  }

  bool read_fields(std::string_view word, const Fields& fields) {
    if (word == "accumulators") {
      auto before = fields.integer("before"), width = fields.integer("width");
      if (!before || !width || *before < 0) return false;
      group().accumulators = AccumulatorBlock{static_cast<size_t>(*before), *width};
    } else if (word == "simd") {
      auto width = fields.integer("width"), unroll = fields.integer("unroll");
      if (!width || !unroll) return false;
      nest_.simd = *width;
      nest_.unroll = *unroll;
    } else if (word == "threads") {
      auto count = fields.integer("count"), side = fields.integer("side");
      auto blocks = fields.integer("blocks"), access = fields.integer("access");
      auto rows = fields.integer("rows"), ahead = fields.integer("ahead");
      if (!count || !side || !blocks || !access || !rows || !ahead) return false;
      if (*ahead != 0 && *ahead != 1) return false;
      nest_.threads = {*count, *side, *blocks, *access, *rows, *ahead == 1};
    } else if (word == "prefetch") {
      auto input = fields.integer("input"), bytes = fields.integer("bytes");
      if (!input || !bytes || *input < 0 || *input > INT32_MAX) return false;
      nest_.prefetch = BlockPrefetch{static_cast<int32_t>(*input), *bytes};
    } else if (word == "fuse") {
      auto first = fields.integer("first");
      auto others = ids(fields, "others");
      if (!first || !others || *first < 0 || *first > INT32_MAX) return false;
      nest_.reductions.fused[static_cast<NodeId>(*first)] = std::move(*others);
    } else if (word == "flat" || word == "staged" || word == "walked") {
      auto nodes = ids(fields, "nodes");
      if (!nodes) return false;
      auto& to = word == "flat"     ? nest_.reductions.flat
                 : word == "staged" ? nest_.reductions.staged
                                    : nest_.reductions.walked;
      to.insert(nodes->begin(), nodes->end());
    } else {
      return false;
    }
    return true;
  }

  LoopNest nest_;
  GroupNest single_;
};

}  // namespace

std::string print(const LoopNest& nest) {
  std::string out = nest.is_epilogue ? "epilogue\n" : "";
  out += band_text(nest.shared, nest.grid, "");
  if (nest.groups.size() == 1) {
    out += accumulators_text(nest.groups[0], "");
  } else {
    for (const GroupNest& group : nest.groups) {
      out += cat("group\n", band_text(group.own, 0, "  "), accumulators_text(group, "  "));
    }
  }
  if (nest.blocks_in_grid) out += "blocks_in_grid\n";
  if (nest.transposed) out += "transposed\n";
  for (const auto& [first, others] : nest.reductions.fused) {
    out += cat("fuse first=", first, " others=", id_list(others), "\n");
  }
  if (!nest.reductions.flat.empty()) out += cat("flat nodes=", id_list(nest.reductions.flat), "\n");
  if (!nest.reductions.staged.empty()) {
    out += cat("staged nodes=", id_list(nest.reductions.staged), "\n");
  }
  if (!nest.reductions.walked.empty()) {
    out += cat("walked nodes=", id_list(nest.reductions.walked), "\n");
  }
  if (nest.simd != 0 || nest.unroll != 1) {
    out += cat("simd width=", nest.simd, " unroll=", nest.unroll, "\n");
  }
  if (nest.dot_products) out += "dot_products\n";
  if (nest.threads != ThreadGroup{}) {
    out += cat("threads count=", nest.threads.threads, " side=", nest.threads.side,
               " blocks=", nest.threads.blocks, " access=", nest.threads.access,
               " rows=", nest.threads.rows, " ahead=", nest.threads.ahead ? 1 : 0, "\n");
  }
  if (nest.prefetch) {
    out += cat("prefetch input=", nest.prefetch->input, " bytes=", nest.prefetch->bytes, "\n");
  }
  return out;
}

Result<LoopNest> parse_nest(std::string_view text) { return NestParser().parse(text); }

}  // namespace common
