#include "common/lowering/text/code_writer.h"

#include <algorithm>
#include <cmath>

#include "common/base/cat.h"
#include "common/base/hash64.h"
#include "common/lowering/text/c_text.h"

namespace common {

namespace {

// Instructions of a GPU that divide an index.
constexpr double kDivision = 12;
constexpr int64_t kTypicalSize = 128;
// How far a GPU's compiler unrolls a loop with loads, which it then moves to the front: the most
// steps, and the most instructions of all of them.
constexpr double kGpuUnroll = 4, kUnrolledInstructions = 96;
// Of loads that code asks for together, what the compiler leaves together: it moves the others to
// where their values are used.
constexpr double kTogetherBytes = 80;
// Of the latency, what is left of it where loads begin a step ahead; and what they cost a step.
constexpr double kAheadWait = 0.5, kAheadIssue = 4;
// What the units for memory take for an access while others begin instructions, beyond its own.
constexpr double kAccessIssue = 3;

size_t at(int index) { return static_cast<size_t>(index); }

double gpu_unroll(double step_instructions) {
  return std::clamp(std::floor(kUnrolledInstructions / std::max(1.0, step_instructions)), 1.0,
                    kGpuUnroll);
}
}  // namespace

size_t ValueKeyHash::operator()(const ValueKey& key) const noexcept {
  uint64_t hash = combine64(static_cast<uint64_t>(key.node), static_cast<uint64_t>(key.tag));
  for (const Expr& e : key.indices) hash = combine64(hash, e.hash());
  return hash;
}

CodeWriter::CodeWriter(std::vector<SymbolRange> symbols) : symbols_(std::move(symbols)) {
  scopes_.emplace_back();
  rebuild_bounds();
}

CodeWriter::~CodeWriter() = default;

void CodeWriter::rebuild_bounds() { bounds_ = Bounds(symbols_, extents_); }

void CodeWriter::open(bool conditional) {
  scopes_.emplace_back();
  scopes_.back().conditional = conditional;
}

int CodeWriter::open_loop(std::string name, const Expr& extent, const Expr& trips) {
  open_blocks(trips);
  int id = bind_index(std::move(name), extent, depth());
  scopes_.back().loop_index = id;
  return id;
}

void CodeWriter::open_blocks(const Expr& trips) {
  open(bounds_.lower(trips) < 1);
  scopes_.back().trips = estimate(trips);
}

double CodeWriter::estimate(const Expr& trips) const {
  if (trips.is_constant()) return static_cast<double>(trips.constant());
  std::vector<int64_t> typical;
  for (const SymbolRange& s : symbols_) {
    typical.push_back(std::clamp<int64_t>(kTypicalSize, s.min, s.max));
  }
  std::vector<int64_t> indices(extents_.size(), 0);
  return static_cast<double>(std::max<int64_t>(trips.evaluate(typical, indices), 1));
}

int CodeWriter::loop_index(int level) const {
  for (size_t k = at(level) + 1; k-- > 0;) {
    if (scopes_[k].loop_index >= 0) return scopes_[k].loop_index;
  }
  return -1;
}

void CodeWriter::end_scope(Scope& scope) {
  for (int id : scope.indices) free_indices_.push_back(id);
}

void CodeWriter::close(const std::string& header) {
  LFARM_CHECK(scopes_.size() > 1, "scope 0 is closed by finish");
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  end_scope(scope);
  for (auto& [key, value] : scope.after) {
    if (scope.covers > 1) {
      scopes_.back().covers = scope.covers - 1;
      scopes_.back().after.emplace_back(key, value);
    } else {
      value.level = depth();
      remember(key, value);
    }
  }
  append_block(header, scope.text);
  bool loop = header.find("for (") != std::string::npos;
  if (loop) {
    scopes_.back().counts.add_loop(std::move(scope.counts), scope.trips);
  } else {
    scopes_.back().counts.add_block(std::move(scope.counts), scope.trips);
  }
  bool is_unrolled = header.find("#pragma unroll") != std::string::npos;
  scopes_.back().loads.add(scope.loads, loop ? scope.trips : 1, is_unrolled || !loop);
  scopes_.back().holds_loops = scopes_.back().holds_loops || scope.holds_loops || loop;
}

void CodeWriter::Loads::end_round() {
  if (pending_bytes == 0) return;
  double together = std::min(pending_bytes, kTogetherBytes);
  work.in_flight_bytes = std::max(work.in_flight_bytes, together);
  work.rounds += pending_bytes / together;
  pending_bytes = 0;
}

void CodeWriter::Loads::add(const Loads& inner, double trips, bool is_unrolled) {
  if (is_unrolled) {
    pending_bytes += inner.pending_bytes * trips;
  } else if (inner.ahead_bytes > 0) {
    work.in_flight_bytes = std::max(work.in_flight_bytes, inner.ahead_bytes);
    work.rounds += trips * kAheadWait;
    work.instructions += trips * kAheadIssue;
  } else if (inner.pending_bytes > 0) {
    double steps = std::min(trips, gpu_unroll(inner.work.instructions));
    double together = std::min(inner.pending_bytes * steps, kTogetherBytes);
    work.in_flight_bytes = std::max(work.in_flight_bytes, together);
    work.rounds += inner.pending_bytes * trips / together;
    work.instructions += trips / steps;  // the branch
  }
  work.in_flight_bytes = std::max(work.in_flight_bytes, inner.work.in_flight_bytes);
  work.rounds += inner.work.rounds * trips;
  work.exchange_clocks += inner.work.exchange_clocks * trips;
  work.instructions += inner.work.instructions * trips;
  work.sector_bytes += inner.work.sector_bytes * trips;
  work.shared_sector_bytes += inner.work.shared_sector_bytes * trips;
}

void CodeWriter::add_access(int level, const Access& access) {
  Loads& loads = scopes_[at(level)].loads;
  loads.work.instructions += kAccessIssue;
  if (!access.is_store) {
    (access.is_ahead ? loads.ahead_bytes : loads.pending_bytes) += access.bytes;
  }
  (access.is_shared ? loads.work.shared_sector_bytes : loads.work.sector_bytes) +=
      access.sector_bytes;
}

void CodeWriter::append_block(const std::string& header, const std::string& text) {
  std::string indent(scopes_.size() * 2, ' ');
  std::string& out = scopes_.back().text;
  size_t line_start = 0;  // a header may hold a pragma line before its statement
  while (line_start < header.size()) {
    size_t line_end = std::min(header.find('\n', line_start), header.size());
    out += indent + header.substr(line_start, line_end - line_start);
    line_start = line_end + 1;
    if (line_start < header.size()) out += '\n';
  }
  out += cat(header.empty() ? indent : " ", "{\n", text, indent, "}\n");
}

int CodeWriter::barrier() const {
  for (size_t k = scopes_.size(); k-- > 0;) {
    if (scopes_[k].conditional) return static_cast<int>(k);
  }
  return 0;
}

void CodeWriter::line(int level, std::string_view statement, const StepWork& work) {
  ++statements_;
  counts(level).add(work);
  scopes_[at(level)].loads.work.instructions += 1;
  scopes_[at(level)].text += cat(std::string(at(level + 1) * 2, ' '), statement, "\n");
}

CodeWriter::Outward::Outward(CodeWriter& writer, int level)
    : writer_(writer), first_(writer.aside_.size()) {
  auto begin = writer.scopes_.begin() + level + 1;
  for (auto it = begin; it != writer.scopes_.end(); ++it) writer.aside_.push_back(std::move(*it));
  writer.scopes_.erase(begin, writer.scopes_.end());
}

CodeWriter::Outward::~Outward() {
  for (size_t k = first_; k < writer_.aside_.size(); ++k) {
    writer_.scopes_.push_back(std::move(writer_.aside_[k]));
  }
  writer_.aside_.resize(first_);
}

std::string CodeWriter::fresh(std::string_view prefix) { return cat(prefix, next_name_++); }

int CodeWriter::bind_index(std::string name, const Expr& extent, int level) {
  int id;
  if (free_indices_.empty()) {
    id = static_cast<int>(extents_.size());
    extents_.push_back(extent);
    names_.push_back(std::move(name));
    levels_.push_back(level);
  } else {
    id = free_indices_.back();
    free_indices_.pop_back();
    extents_[at(id)] = extent;
    names_[at(id)] = std::move(name);
    levels_[at(id)] = level;
  }
  scopes_[at(level)].indices.push_back(id);
  rebuild_bounds();
  return id;
}

void CodeWriter::count_divisions(const Expr& expr) {
  for (const auto& term : expr.terms()) {
    for (const Expr& factor : term.factors) {
      if (factor.as_var()) continue;
      if (factor.kind() == ExprKind::kFloorDiv || factor.kind() == ExprKind::kMod) {
        add_work(level_of(expr), StepWork{.folds = 1});
        add_instructions(level_of(expr), kDivision);
        auto var = factor.left().as_var();
        if (var && var->kind == Var::Kind::kIndex) {
          divided_.push_back({names_[at(var->id)], factor.right()});
        }
      }
      count_divisions(factor.left());
      count_divisions(factor.right());
    }
  }
}

std::string CodeWriter::text(const Expr& expr) {
  count_divisions(expr);
  return rare_text(expr);
}

std::string CodeWriter::rare_text(const Expr& expr) const {
  return c_expr(
      expr, [&](Var v) { return v.kind == Var::Kind::kSymbol ? cat("s", v.id) : names_[at(v.id)]; },
      bounds_);
}

int CodeWriter::level_of(const Expr& expr) const {
  int level = 0;
  expr.visit_vars([&](Var v) {
    if (v.kind == Var::Kind::kIndex) level = std::max(level, levels_[at(v.id)]);
  });
  return level;
}

const CodeValue* CodeWriter::find(const ValueKey& key) const {
  for (size_t k = scopes_.size(); k-- > 0;) {
    auto it = scopes_[k].values.find(key);
    if (it != scopes_[k].values.end()) return &it->second;
  }
  return nullptr;
}

void CodeWriter::remember(const ValueKey& key, const CodeValue& value) {
  int level = value.level;
  for (const Expr& e : key.indices) level = std::max(level, level_of(e));
  scopes_[at(level)].values.emplace(key, value);
}

void CodeWriter::remember_after(const ValueKey& key, const CodeValue& value) {
  scopes_.back().after.emplace_back(key, value);
}

CodeValue CodeWriter::declare(int level, std::string_view type, std::string_view prefix,
                              std::string_view expression, const StepWork& work) {
  std::string name = fresh(prefix);
  line(level, cat("const ", type, " ", name, " = ", expression, ";"), work);
  return {name, level, -1};
}

std::string CodeWriter::finish() {
  LFARM_CHECK(scopes_.size() == 1 && aside_.empty(), "scopes are still open");
  loop_work_ = scopes_[0].counts.finish();
  scopes_[0].loads.end_round();
  thread_work_ = scopes_[0].loads.work;
  return std::move(scopes_[0].text);
}

}  // namespace common
