#include "worker/codegen/loops.h"

#include <algorithm>

#include "common/base/cat.h"
#include "worker/codegen/c_text.h"
#include "worker/codegen/nest_plan.h"
#include "worker/codegen/unit_loop.h"

namespace worker {

using common::cat;
using common::Expr;
using common::Graph;
using common::NodeId;
using common::Result;
using common::Schedule;
using common::Shape;
using common::Template;
using common::Var;

namespace {

// Enough units for any number of threads to share evenly.
constexpr int64_t kEnoughUnits = 512;
constexpr int kMaxPlanTrials = 24;

size_t at(int index) { return static_cast<size_t>(index); }

// Outputs of one shape.
struct OutputGroup {
  Shape shape;
  std::vector<size_t> outputs;
};

// Everything that decides the text: the shared outer loops and each group's own inner loops.
struct LoopsPlan {
  NestPlan shared;
  std::vector<NestPlan> own;
};

class LoopsEmitter {
 public:
  LoopsEmitter(const Graph& body, const Schedule& schedule, const std::vector<OutputGroup>& groups,
               const LoopsPlan& plan, const LoopsOptions& options)
      : body_(body),
        schedule_(schedule),
        groups_(groups),
        plan_(plan),
        writer_(body.symbols),
        emitter_(body, writer_),
        whole_(options.whole) {
    for (const auto& [node, stored] : options.stored) emitter_.set_stored(node, stored);
  }

  Result<FunctionBody> run() {
    const std::vector<Expr>& extents = plan_.shared.extents;
    auto unit_loops = static_cast<std::ptrdiff_t>(choose_unit_loops());
    UnitLoop units(writer_, {extents.begin(), extents.begin() + unit_loops});
    std::vector<Expr> indices = units.indices();
    for (size_t k = indices.size(); k < extents.size(); ++k) {
      indices.push_back(open_loop(extents[k], cat("i", k)));
    }
    bool several = groups_.size() > 1;
    for (size_t g = 0; g < groups_.size(); ++g) {
      emit_group(groups_[g], plan_.own[g], indices, several ? cat("o", g, "_") : "");
    }
    while (!open_.empty()) close_loop();
    // Loops beside the units' loop would be repeated by every share.
    bool whole = whole_ || writer_.holds_loops(0);
    Expr count = units.close(unit_loops == 1 ? pragma() : "", whole);
    LFARM_RETURN_IF_ERROR(emitter_.status());
    FunctionBody result;
    result.text = writer_.finish();
    result.units = count;
    return result;
  }

  const CodeWriter& writer() const { return writer_; }

 private:
  // The innermost loop stays whole, so that it vectorises, unless it is the only one.
  size_t choose_unit_loops() const {
    size_t loops = plan_.shared.extents.size();
    bool innermost_is_shared = groups_.size() == 1;
    size_t limit = innermost_is_shared && loops > 1 ? loops - 1 : loops;
    int64_t units = 1;
    for (size_t k = 0; k < limit; ++k) {
      const Expr& extent = plan_.shared.extents[k];
      units = extent.is_constant() ? units * std::max<int64_t>(extent.constant(), 1) : 0;
      if (units >= kEnoughUnits) return k + 1;
      if (units == 0) units = 1;
    }
    return limit;
  }

  bool maybe_empty(const Expr& extent) const { return writer_.bounds().lower(extent) < 1; }

  Expr open_loop(const Expr& extent, std::string name) {
    writer_.open(maybe_empty(extent));
    int id = writer_.bind_index(std::move(name), extent, writer_.depth());
    open_.push_back({extent, id});
    return Expr::index(id);
  }

  std::string pragma() const {
    if (writer_.holds_loops()) return "";
    int64_t vector = schedule_value(schedule_, Template::kLoops, "vector");
    int64_t unroll = schedule_value(schedule_, Template::kLoops, "unroll");
    return cat("LF_VECTOR_LOOP(", vector, ", ", unroll, ")\n");
  }

  void close_loop() {
    auto [extent, id] = open_.back();
    open_.pop_back();
    const std::string i = writer_.index_name(id);
    std::string n = writer_.text(extent);
    writer_.close(cat(pragma(), "for (int64_t ", i, " = 0; ", i, " < ", n, "; ++", i, ")"));
  }

  void emit_group(const OutputGroup& group, const NestPlan& own, const std::vector<Expr>& outer,
                  const std::string& prefix) {
    std::vector<Expr> inner;
    for (size_t k = 0; k < own.extents.size(); ++k) {
      inner.push_back(open_loop(own.extents[k], cat("i", prefix, k)));
    }
    Indices position;
    auto place = [&](const NestPlan& plan, const std::vector<Expr>& loops) {
      for (const Expr& e : plan.position) {
        position.push_back(e.substitute([&](Var v) -> Expr {
          return v.kind == Var::Kind::kIndex ? loops[at(v.id)] : Expr::var(v);
        }));
      }
    };
    place(plan_.shared, outer);
    place(own, inner);
    for (size_t output : group.outputs) {
      NodeId node = body_.outputs[output].node;
      CodeValue x = emitter_.value(node, position);
      Expr offset = writer_.simplify(linear_position(position, group.shape));
      writer_.line(cat("out", output, "[", writer_.text(offset), "] = ", x.text, ";"));
    }
    for (size_t k = own.extents.size(); k-- > 0;) close_loop();
  }

  struct OpenLoop {
    Expr extent;
    int id = 0;
  };
  const Graph& body_;
  const Schedule& schedule_;
  const std::vector<OutputGroup>& groups_;
  const LoopsPlan& plan_;
  CodeWriter writer_;
  BodyEmitter emitter_;
  std::vector<OpenLoop> open_;
  bool whole_;
};

std::vector<OutputGroup> group_outputs(const Graph& body) {
  std::vector<OutputGroup> groups;
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    const Shape& shape = body.node(body.outputs[k].node).shape;
    auto it = std::find_if(groups.begin(), groups.end(),
                           [&](const OutputGroup& g) { return g.shape == shape; });
    if (it == groups.end()) it = groups.insert(groups.end(), {shape, {}});
    it->outputs.push_back(k);
  }
  return groups;
}

// One trial emission: its text and the measure that plans are compared by.
struct Trial {
  FunctionBody function;
  int64_t divisions = 0;
  std::vector<CodeWriter::Division> divided;
};

class PlanSearch {
 public:
  PlanSearch(const Graph& body, const Schedule& schedule, const LoopsOptions& options)
      : body_(body), schedule_(schedule), options_(options), groups_(group_outputs(body)) {
    prefix_ = groups_[0].shape.size();
    for (const OutputGroup& g : groups_) {
      size_t same = 0;
      while (same < prefix_ && same < g.shape.size() && g.shape[same] == groups_[0].shape[same]) {
        ++same;
      }
      prefix_ = same;
    }
  }

  Result<FunctionBody> run() {
    auto cut = static_cast<std::ptrdiff_t>(prefix_);
    const Shape& first = groups_[0].shape;
    plan_.shared = plain_nest(Shape(first.begin(), first.begin() + cut));
    for (const OutputGroup& g : groups_) {
      plan_.own.push_back(plain_nest(Shape(g.shape.begin() + cut, g.shape.end())));
    }
    LFARM_ASSIGN_OR_RETURN(best_, attempt(plan_));
    while (trials_ < kMaxPlanTrials && try_split()) {
    }
    for (size_t g = 0; g <= plan_.own.size(); ++g) {
      for (size_t k = nest(plan_, g).extents.size(); k-- > 1;) {
        LoopsPlan merged = plan_;
        nest(merged, g) = merge_loops(nest(plan_, g), k - 1);
        accept(merged, false);
      }
    }
    return std::move(best_.function);
  }

 private:
  // Nest 0 is the shared one, nest g + 1 the own one of group g.
  static NestPlan& nest(LoopsPlan& plan, size_t g) {
    return g == 0 ? plan.shared : plan.own[g - 1];
  }

  Result<Trial> attempt(const LoopsPlan& plan) {
    ++trials_;
    LoopsEmitter emitter(body_, schedule_, groups_, plan, options_);
    LFARM_ASSIGN_OR_RETURN(FunctionBody function, emitter.run());
    return Trial{std::move(function), emitter.writer().divisions(), emitter.writer().divided()};
  }

  bool accept(const LoopsPlan& plan, bool must_improve) {
    if (trials_ >= kMaxPlanTrials) return false;
    auto trial = attempt(plan);
    if (!trial.ok()) return false;
    if (must_improve ? trial->divisions >= best_.divisions : trial->divisions > best_.divisions) {
      return false;
    }
    plan_ = plan;
    best_ = std::move(*trial);
    return true;
  }

  // Splits one loop by a divisor that its index is divided by, if that removes divisions.
  bool try_split() {
    for (const CodeWriter::Division& d : best_.divided) {
      for (size_t g = 0; g <= plan_.own.size(); ++g) {
        std::string prefix = g == 0 || plan_.own.size() == 1 ? "i" : cat("io", g - 1, "_");
        const NestPlan& now = nest(plan_, g);
        for (size_t k = 0; k < now.extents.size(); ++k) {
          if (d.index != cat(prefix, k)) continue;
          auto quotient = common::exact_div(now.extents[k], d.divisor);
          if (!quotient || quotient->is_constant(1) || d.divisor.is_constant(1)) continue;
          LoopsPlan split = plan_;
          nest(split, g) = split_loop(now, k, d.divisor, *quotient);
          if (accept(split, true)) return true;
        }
      }
    }
    return false;
  }

  const Graph& body_;
  const Schedule& schedule_;
  const LoopsOptions& options_;
  std::vector<OutputGroup> groups_;
  size_t prefix_ = 0;
  LoopsPlan plan_;
  Trial best_;
  int trials_ = 0;
};

}  // namespace

Result<FunctionBody> emit_loops(const Graph& body, const Schedule& schedule,
                                const LoopsOptions& options) {
  return PlanSearch(body, schedule, options).run();
}

}  // namespace worker
