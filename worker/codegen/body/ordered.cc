#include "worker/codegen/body/ordered.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/ir/expr/index.h"
#include "common/ir/llir/scatter_form.h"
#include "common/lowering/body/scatter_place.h"
#include "common/lowering/body/unit_loop.h"
#include "common/lowering/text/c_text.h"
#include "common/schedule/sort_selection.h"
#include "worker/codegen/text/scan_form.h"

namespace worker {

using common::at;
using common::BodyEmitter;
using common::c_cast;
using common::c_suffix;
using common::c_value_type;
using common::cat;
using common::CodeValue;
using common::CodeWriter;
using common::Coordinate;
using common::counting_loop;
using common::DType;
using common::Expr;
using common::finish_body;
using common::FunctionBody;
using common::Graph;
using common::Indices;
using common::InputAttr;
using common::linear_position;
using common::Node;
using common::NodeId;
using common::Op;
using common::Result;
using common::ScanAttr;
using common::ScatterAttr;
using common::ScatterMode;
using common::Scratch;
using common::SelectionMethod;
using common::Shape;
using common::SortAttr;
using common::Status;
using common::UnitLoop;
using common::Var;

namespace {

// What the three templates share: one output node, a writer, an emitter, loops.
class OrderedEmitter {
 public:
  explicit OrderedEmitter(const Graph& body)
      : body_(body),
        writer_(body.symbols),
        emitter_(body, writer_),
        node_(body.node(body.outputs[0].node)) {}

  Status check(Op op) const {
    if (body_.outputs.size() == 1 && node_.op == op) return {};
    return common::unsupported(cat("the ", op_name(op), " template takes a body whose one output ",
                                   "is the ", op_name(op), " node"));
  }

  Result<FunctionBody> finish(const Expr& units) {
    LFARM_RETURN_IF_ERROR(emitter_.status());
    return finish_body(writer_, units, scratch_);
  }

  Expr open_loop(const Expr& extent) {
    writer_.open(writer_.bounds().lower(extent) < 1);
    std::string name = writer_.fresh("j");
    open_.push_back({name, extent});
    return Expr::index(writer_.bind_index(name, extent, writer_.depth()));
  }
  void close_loop(bool independent) {
    auto [name, extent] = open_.back();
    open_.pop_back();
    std::string pragma = independent && !writer_.holds_loops() ? "LF_VECTOR_LOOP(0, 1)\n" : "";
    writer_.close(cat(pragma, counting_loop(name, "0", writer_.text(extent))));
  }

 protected:
  const Graph& body_;
  CodeWriter writer_;
  BodyEmitter emitter_;
  const Node& node_;
  Scratch scratch_;

 private:
  struct OpenLoop {
    std::string name;
    Expr extent;
  };
  std::vector<OpenLoop> open_;
};

// ---- scan -----------------------------------------------------------------------------------

// Units are the positions before the axis; the axes behind it are the inner loop, with one
// accumulator each, so that it vectorises.
class ScanEmitter : public OrderedEmitter {
 public:
  using OrderedEmitter::OrderedEmitter;

  Result<FunctionBody> run() {
    LFARM_RETURN_IF_ERROR(check(Op::kScan));
    const auto& a = attr<ScanAttr>(node_);
    const Shape& shape = node_.shape;
    auto axis = static_cast<std::ptrdiff_t>(a.axis);
    Shape behind(shape.begin() + axis + 1, shape.end());
    Expr width = common::element_count(behind);
    bool single = width.is_constant(1);
    ScanForm form(node_);
    const std::string& type = form.type();
    if (!single) scratch_.add("sums", type, 8, width);

    UnitLoop units(writer_, {shape.begin(), shape.begin() + axis});
    if (single) {
      writer_.line(cat(type, " sum = ", form.start(), ";"));
    } else {
      Expr i = open_loop(width);
      writer_.line(cat("sums[", writer_.text(i), "] = ", form.start(), ";"));
      close_loop(true);
    }
    Indices position = units.indices();
    position.push_back(open_loop(shape[at(a.axis)]));
    Expr lane = 0;
    for (const Expr& size : behind) {
      position.push_back(size.is_constant(1) ? Expr(0) : open_loop(size));
      lane = lane * size + position.back();
    }
    CodeValue x = emitter_.value(node_.operands[0], position);
    std::string sum = single ? "sum" : cat("sums[", writer_.text(writer_.simplify(lane)), "]");
    writer_.line(cat(sum, " = ", form.step(sum, x.text), ";"));
    Expr offset = writer_.simplify(linear_position(position, shape));
    writer_.line(
        cat("out0[", writer_.text(offset), "] = (", c_value_type(node_.dtype), ")", sum, ";"));
    for (size_t k = behind.size(); k-- > 0;) {
      if (!behind[k].is_constant(1)) close_loop(true);
    }
    close_loop(false);
    return finish(units.close("", writer_.holds_loops(0)));
  }
};

// ---- scatter --------------------------------------------------------------------------------

class ScatterEmitter : public OrderedEmitter {
 public:
  ScatterEmitter(const Graph& body, ScatterUnits units) : OrderedEmitter(body), units_(units) {}

  Result<FunctionBody> run() {
    LFARM_RETURN_IF_ERROR(check(Op::kScatter));
    find_independent_axes();
    std::vector<Expr> extents;
    for (const Independent& axis : independent_) extents.push_back(node_.shape[axis.base]);
    UnitLoop units(writer_, extents);
    if (!units_.finds_base) copy_base(units.indices());
    apply_updates(units.indices());
    return finish(units.close("", writer_.holds_loops(0)));
  }

 private:
  const ScatterAttr& scatter() const { return attr<ScatterAttr>(node_); }

  // An axis along which every update stays where it is: slices that units can share out.
  struct Independent {
    size_t base = 0, update = 0;  // the axis of either
  };

  // With few units only leading axes, so that each copies neighbours.
  void find_independent_axes() {
    for (size_t k = 0; k < node_.shape.size(); ++k) {
      auto update = common::aligned_update_axis(body_, node_, k);
      if (update && (!units_.are_few || *update == k)) {
        independent_.push_back({k, *update});
      } else if (units_.are_few) {
        return;
      }
    }
  }

  // The indices of a loop nest over `shape` whose independent axes are the units'.
  Indices open_others(const Shape& shape, size_t Independent::*axis, const Indices& units) {
    Indices indices(shape.size());
    std::vector<char> is_unit(shape.size(), 0);
    for (size_t u = 0; u < independent_.size(); ++u) {
      indices[independent_[u].*axis] = units[u];
      is_unit[independent_[u].*axis] = 1;
    }
    for (size_t k = 0; k < shape.size(); ++k) {
      if (is_unit[k] == 0) indices[k] = open_loop(shape[k]);
    }
    return indices;
  }

  void copy_base(const std::vector<Expr>& outer) {
    const Node& base = body_.node(node_.operands[0]);
    bool plain = base.op == Op::kInput;
    if (plain) writer_.open(true);
    Indices position = open_others(node_.shape, &Independent::base, outer);
    CodeValue x = emitter_.value(node_.operands[0], position);
    std::string offset = writer_.text(writer_.simplify(linear_position(position, node_.shape)));
    writer_.line(cat("out0[", offset, "] = ", x.text, ";"));
    for (size_t k = outer.size(); k < node_.shape.size(); ++k) close_loop(true);
    if (plain) {
      writer_.close(
          cat("if ((const void*)out0 != (const void*)in", attr<InputAttr>(base).position, ")"));
    }
  }

  void apply_updates(const std::vector<Expr>& outer) {
    const Shape& shape = body_.node(node_.operands[1]).shape;
    Indices j = open_others(shape, &Independent::update, outer);
    common::ScatterPlace to = common::scatter_place(emitter_, node_, j);
    CodeValue x = emitter_.value(node_.operands[1], j);
    if (!to.guard.condition.empty()) writer_.open(true);
    std::string place = cat(
        "out0[", writer_.text(writer_.simplify(linear_position(to.position, node_.shape))), "]");
    writer_.line(combine(place, x.text));
    if (!to.guard.condition.empty()) writer_.close(cat("if (", to.guard.condition, ")"));
    bool ends_in_loop = outer.size() < shape.size() &&
                        std::none_of(independent_.begin(), independent_.end(),
                                     [&](const auto& a) { return a.update + 1 == shape.size(); });
    for (size_t k = outer.size(); k < shape.size(); ++k) {
      close_loop(k == outer.size() && ends_in_loop && moves_evenly(shape.size() - 1));
    }
  }

  // Whether no two steps of the innermost loop meet: a coordinate moves with its index.
  bool moves_evenly(size_t innermost) const {
    Var var{Var::Kind::kIndex, static_cast<int32_t>(innermost)};
    for (const Coordinate& c : scatter().coordinates) {
      if (c.slot >= 0 || !c.expr.uses(var)) continue;
      auto form = common::affine_form(c.expr, static_cast<int>(innermost) + 1);
      if (form && form->strides[innermost].is_constant() &&
          !form->strides[innermost].is_constant(0)) {
        return true;
      }
    }
    return false;
  }

  std::string combine(const std::string& place, const std::string& x) const {
    std::string suffix = c_suffix(node_.dtype);
    bool logical = node_.dtype == DType::kBool;
    switch (scatter().mode) {
      case ScatterMode::kAssign:
        return cat(place, " = ", x, ";");
      case ScatterMode::kAdd:
        return cat(place, logical ? " |= " : " += ", x, ";");
      case ScatterMode::kMul:
        return cat(place, logical ? " &= " : " *= ", x, ";");
      case ScatterMode::kMin:
        if (logical) return cat(place, " &= ", x, ";");
        return cat(place, " = lf_min_", suffix, "(", place, ", ", x, ");");
      case ScatterMode::kMax:
        if (logical) return cat(place, " |= ", x, ";");
        return cat(place, " = lf_max_", suffix, "(", place, ", ", x, ");");
    }
    LFARM_CHECK(false, "unknown scatter mode");
  }

  ScatterUnits units_;
  std::vector<Independent> independent_;
};

// ---- sort -----------------------------------------------------------------------------------

// Rows of (ordered key, position) pairs, sorted by a stable radix sort. The first few of a row are
// selected from its keys alone.
class SortEmitter : public OrderedEmitter {
 public:
  using OrderedEmitter::OrderedEmitter;

  Result<FunctionBody> run() {
    LFARM_RETURN_IF_ERROR(check(Op::kSort));
    const auto& a = attr<SortAttr>(node_);
    const Shape& shape = node_.shape;
    const Expr& length = body_.node(node_.operands[0]).shape[at(a.axis)];
    const common::SortSelection selection = common::sort_selection(length, a.count);
    const bool selects = selection.method != SelectionMethod::kWhole;
    const Expr room = selects ? Expr(selection.room) : length;
    scratch_.add("pairs", "lf_pair", 16, room);
    if (selection.method != SelectionMethod::kFew) scratch_.add("spare", "lf_pair", 16, room);
    if (selects) scratch_.add("keys", "uint64_t", 8, length);
    std::vector<Expr> others;
    for (size_t k = 0; k < shape.size(); ++k) {
      if (k != at(a.axis)) others.push_back(shape[k]);
    }
    UnitLoop units(writer_, others);
    Indices position = units.indices();
    auto axis = static_cast<std::ptrdiff_t>(a.axis);
    Expr i = open_loop(length);
    position.insert(position.begin() + axis, i);
    CodeValue x = emitter_.value(node_.operands[0], position);
    std::string key = sort_key(node_, body_.node(node_.operands[0]).dtype, x.text);
    std::string index = writer_.text(i);
    if (selects) {
      writer_.line(cat("keys[", index, "] = ", key, ";"));
    } else {
      writer_.line(cat("pairs[", index, "].key = ", key, ";"));
      writer_.line(cat("pairs[", index, "].position = ", index, ";"));
    }
    close_loop(true);
    const std::string n = writer_.text(length);
    const int digits = common::sort_key_bytes(body_.node(node_.operands[0]).dtype);
    if (selection.method == SelectionMethod::kWhole) {
      writer_.line(cat("lf_sort_pairs(pairs, spare, ", n, ", ", digits, ");"));
    } else if (selection.method == SelectionMethod::kFew) {
      writer_.line(cat("lf_select_few(keys, ", n, ", ", a.count, ", pairs);"));
    } else {
      writer_.line(cat("lf_select_many(keys, ", n, ", ", a.count, ", ", selection.room,
                       ", pairs, spare, ", digits, ");"));
    }
    position[at(a.axis)] = i = open_loop(shape[at(a.axis)]);
    Expr offset = writer_.simplify(linear_position(position, shape));
    writer_.line(cat("out0[", writer_.text(offset), "] = pairs[", writer_.text(i), "].position;"));
    close_loop(true);
    return finish(units.close("", false));
  }
};

}  // namespace

Result<FunctionBody> emit_scan(const Graph& body) { return ScanEmitter(body).run(); }
Result<FunctionBody> emit_scatter(const Graph& body, ScatterUnits units) {
  return ScatterEmitter(body, units).run();
}
Result<FunctionBody> emit_sort(const Graph& body) { return SortEmitter(body).run(); }

std::string sort_key(const Node& sort, DType dtype, const std::string& x) {
  std::string key = x;
  if (common::is_half(dtype)) key = c_cast(dtype, DType::kFloat32, key);
  if (common::is_half(dtype)) dtype = DType::kFloat32;
  key = common::is_float(dtype) ? cat("lf_sort_key_", c_suffix(dtype), "(", key, ")")
                                : cat("lf_sort_key_i64(", key, ")");
  return attr<SortAttr>(sort).descending ? "~" + key : key;
}

}  // namespace worker
