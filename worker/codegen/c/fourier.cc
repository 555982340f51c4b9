#include "worker/codegen/c/fourier.h"

#include <algorithm>
#include <optional>
#include <string>

#include "common/base/cat.h"
#include "common/ir/hlir/fourier_form.h"
#include "common/ir/llir/view_inverse.h"
#include "common/lowering/body/unit_loop.h"
#include "common/lowering/text/c_text.h"
#include "common/schedule/kernels/fourier_tiling.h"
#include "worker/codegen/c/fourier_passes.h"

namespace worker {

using common::BodyEmitter;
using common::c_value_type;
using common::cat;
using common::CodeValue;
using common::CodeWriter;
using common::counting_loop;
using common::declare_positions;
using common::DType;
using common::Expr;
using common::finish_body;
using common::flow_forward;
using common::FourierAttr;
using common::FourierForm;
using common::FourierRow;
using common::FourierTiling;
using common::FunctionBody;
using common::Graph;
using common::Indices;
using common::linear_position;
using common::Node;
using common::NodeId;
using common::Result;
using common::Scratch;
using common::Shape;
using common::stride_along;
using common::Tiling;
using common::UnitLoop;

namespace {

int64_t up(int64_t size, int64_t step) { return (size + step - 1) / step * step; }

// What a unit transforms.
struct UnitSizes {
  UnitSizes(const FourierRow& row, int64_t lanes)
      : points(row.points),
        count(row.count),
        is_complex(row.is_complex),
        is_halved(row.is_halved()),
        lanes(lanes),
        // Rows a power of two apart would meet in few sets of a cache.
        row_stride(up(std::max(points, count), lanes) + lanes) {}

  const int64_t points;  // of a row
  const int64_t count;   // of its frequencies
  const bool is_complex;
  const bool is_halved;  // a real signal, seen as a complex one of half the length
  const int64_t lanes;   // rows at once
  const int64_t row_stride;
};

// The rows of the whole transform, of which units take neighbours.
struct TransformedRows {
  Shape axes;
  bool are_neighbours = false;  // the first output's memory runs along the last axis

  Expr count() const { return common::element_count(axes); }
  // Of the axes that units divide: the last one, or all of them as one.
  Expr length() const { return are_neighbours ? axes.back() : count(); }
};

// Scratch of a unit: rows_re and rows_im, a row after the other; a and b, point after point, each
// of them a vector of the rows' real parts and one of their imaginary parts.
class FourierEmitter {
 public:
  FourierEmitter(const Graph& body, const FourierForm& form, const FourierTiling& tiling)
      : body_(body),
        form_(form),
        node_(body.node(form.any())),
        writer_(body.symbols),
        emitter_(body, writer_),
        sizes_(fourier_row(body, form), tiling.rows),
        rows_{Shape(node_.shape.begin(), node_.shape.end() - 1)} {
    passes_.points = sizes_.is_halved ? sizes_.points / 2 : sizes_.points;
    passes_.radices = tiling.radices();
    passes_.twiddle_step = sizes_.is_halved ? 2 : 1;
    passes_.inverse = common::attr<FourierAttr>(node_).inverse;
    passes_.type = c_value_type(node_.dtype);
    passes_.lanes = sizes_.lanes;
    rows_.are_neighbours = runs_along_rows();
  }

  Result<FunctionBody> run() {
    declare_scratch();
    writer_.line(twiddle_table(sizes_.points, passes_.inverse, passes_.type));
    // A unit's rows are neighbours along the last of their axes, or along all of them.
    std::vector<Expr> extents;
    if (rows_.are_neighbours) extents.assign(rows_.axes.begin(), rows_.axes.end() - 1);
    const Expr length = rows_.length();
    extents.push_back(common::floor_div(length + Expr(sizes_.lanes - 1), Expr(sizes_.lanes)));
    UnitLoop units(writer_, extents);
    unit_ = units.indices();
    writer_.line(
        cat("const int64_t r0 = ", writer_.rare_text(unit_.back()), " * ", sizes_.lanes, ";"));
    writer_.line(cat("const int64_t rows = lf_min_i64(", sizes_.lanes, ", ",
                     writer_.rare_text(length), " - r0);"));
    load_rows();
    bool odd = passes_.radices.size() % 2 != 0;
    writer_.line(fourier_passes(passes_, "a", "b"));
    std::string from = odd ? "b" : "a";
    if (sizes_.is_halved) {
      std::string to = odd ? "a" : "b";
      writer_.line(unpack_real(passes_, from, to));
      from = to;
    }
    store_rows(from);
    Expr count = units.close("", false);
    LFARM_RETURN_IF_ERROR(emitter_.status());
    if (!flows_) return common::unsupported("an output mixes frequencies");
    return finish_body(writer_, count, scratch_);
  }

 private:
  void declare_scratch() {
    int64_t size = common::dtype_size(node_.dtype);
    auto add = [&](const char* name, int64_t count) {
      scratch_.add(name, passes_.type, size, Expr(count));
    };
    add("rows_re", sizes_.lanes * sizes_.row_stride);
    if (sizes_.is_complex || form_.imaginary >= 0) add("rows_im", sizes_.lanes * sizes_.row_stride);
    // As many vectors as the longer of both sides takes, counted in whole squares.
    int64_t vectors = 2 * up(std::max(sizes_.points, sizes_.count), sizes_.lanes);
    if (sizes_.is_halved) vectors = 2 * up(sizes_.points / 2 + 1, sizes_.lanes);
    add("a", vectors * sizes_.lanes);
    add("b", vectors * sizes_.lanes);
  }

  // Opens a loop over the unit's rows; the row's position along each axis.
  Indices open_rows() {
    writer_.open_loop("l", Expr(sizes_.lanes));
    if (rows_.axes.empty()) return {};
    writer_.line("const int64_t r = r0 + l;");
    Expr row = Expr::index(writer_.bind_index("r", rows_.length(), writer_.depth()));
    if (!rows_.are_neighbours) return declare_positions(writer_, "r", rows_.axes, row, true);
    Indices position(unit_.begin(), unit_.end() - 1);
    position.push_back(row);
    return position;
  }
  void close_rows() { close_loop("l", "rows"); }
  // An innermost loop is one over vectors.
  void close_loop(const std::string& i, const std::string& count) {
    std::string pragma = writer_.holds_loops() ? "" : "LF_VECTOR_LOOP(0, 1)\n";
    writer_.close(cat(pragma, counting_loop(i, "0", count)));
  }

  std::string in_row(const char* part, const char* position) const {
    return cat("rows_", part, "[l * ", sizes_.row_stride, " + ", position, "]");
  }

  void load_rows() {
    Indices position = open_rows();
    position.push_back(Expr::index(writer_.open_loop("p", Expr(sizes_.points))));
    for (size_t k = 0; k < node_.operands.size(); ++k) {
      CodeValue x = emitter_.value(node_.operands[k], position);
      writer_.line(cat(in_row(k == 0 ? "re" : "im", "p"), " = ", x.text, ";"));
    }
    close_loop("p", cat(sizes_.points));
    close_rows();
    if (sizes_.is_halved) return turn_in("re", "a", 1);
    turn_in("re", "a", 2);
    if (sizes_.is_complex) return turn_in("im", cat("a + ", sizes_.lanes), 2);
    writer_.line(cat(counting_loop("p", "0", cat(sizes_.points)), " *(", vector(), "*)(a + p * ",
                     2 * sizes_.lanes, " + ", sizes_.lanes, ") = (", vector(), "){0};"));
  }

  std::string vector() const { return cat("lf_", passes_.type, sizes_.lanes); }
  std::string turn() const { return cat("lf_turn_", passes_.type, sizes_.lanes); }

  // Point p of all rows becomes a vector; they lie `step` vectors apart.
  void turn_in(const char* part, const std::string& to, int64_t step) {
    writer_.line(cat(counting_loop("p", "0", cat(sizes_.points), sizes_.lanes), " ", turn(),
                     "(rows_", part, " + p, ", sizes_.row_stride, ", ", to, " + p * ",
                     step * sizes_.lanes, ", ", step * sizes_.lanes, ", lf_min_i64(", sizes_.lanes,
                     ", ", sizes_.points, " - p));"));
  }
  void turn_out(const char* part, const std::string& from) {
    writer_.line(cat(counting_loop("k", "0", cat(sizes_.count), sizes_.lanes), " ", turn(), "(",
                     from, " + k * ", 2 * sizes_.lanes, ", ", 2 * sizes_.lanes, ", rows_", part,
                     " + k, ", sizes_.row_stride, ", ", sizes_.lanes, ");"));
  }

  void store_rows(const std::string& from) {
    if (rows_.are_neighbours) return store_lanes(from);
    if (form_.real >= 0) turn_out("re", from);
    if (form_.imaginary >= 0) turn_out("im", cat(from, " + ", sizes_.lanes));
    Indices position = open_rows();
    position.push_back(Expr::index(writer_.open_loop("k", Expr(sizes_.count))));
    store_outputs(position, in_row("re", "k"), in_row("im", "k"));
    close_loop("k", cat(sizes_.count));
    close_rows();
  }

  // Of outputs whose memory runs along the rows.
  void store_lanes(const std::string& from) {
    Expr frequency = Expr::index(writer_.open_loop("k", Expr(sizes_.count)));
    Indices position = open_rows();
    position.push_back(frequency);
    std::string place = cat(from, "[k * ", 2 * sizes_.lanes, " + l");
    store_outputs(position, place + "]", cat(place, " + ", sizes_.lanes, "]"));
    close_rows();
    close_loop("k", cat(sizes_.count));
  }

  // Where output k has what flows from a frequency.
  std::optional<Indices> flow_to(size_t k, const Indices& position) const {
    for (NodeId part : {form_.real, form_.imaginary}) {
      if (part < 0) continue;
      if (auto to = flow_forward(body_, part, body_.outputs[k].node, position)) return to;
    }
    return std::nullopt;
  }

  bool runs_along_rows() const {
    if (rows_.axes.empty()) return false;
    CodeWriter trial(body_.symbols);
    Indices position;
    int last = -1;
    for (const Expr& size : node_.shape) {
      last = trial.bind_index(trial.fresh("x"), size, 0);
      position.push_back(Expr::index(last));
    }
    auto to = flow_to(0, position);
    if (!to) return false;
    Expr offset = trial.simplify(linear_position(*to, body_.node(body_.outputs[0].node).shape));
    return stride_along(offset, last) != 1 && stride_along(offset, last - 1) == 1;
  }

  // What follows from the frequency at `position`, whose parts lie at these places.
  void store_outputs(Indices position, const std::string& re, const std::string& im) {
    for (Expr& e : position) e = writer_.simplify(e);
    for (NodeId id : {form_.real, form_.imaginary}) {
      if (id < 0) continue;
      const std::string& place = id == form_.real ? re : im;
      writer_.remember({id, 0, position},
                       writer_.declare(writer_.depth(), passes_.type, "f", place));
    }
    for (size_t k = 0; k < body_.outputs.size(); ++k) {
      std::optional<Indices> to = flow_to(k, position);
      flows_ = flows_ && to.has_value();
      if (!to) return;
      NodeId id = body_.outputs[k].node;
      CodeValue x = emitter_.value(id, *to);
      Expr offset = writer_.simplify(linear_position(*to, body_.node(id).shape));
      writer_.line(cat("out", k, "[", writer_.text(offset), "] = ", x.text, ";"));
    }
  }

  const Graph& body_;
  const FourierForm form_;
  const Node& node_;
  CodeWriter writer_;
  BodyEmitter emitter_;
  Scratch scratch_;
  const UnitSizes sizes_;
  TransformedRows rows_;
  FourierPasses passes_;
  bool flows_ = true;
  Indices unit_;
};

}  // namespace

Result<FunctionBody> emit_fourier(const Graph& body, const Tiling& tiling) {
  auto form = common::fourier_form(body);
  if (!form) return common::unsupported("the body holds no transform that one kernel computes");
  LFARM_ASSIGN_OR_RETURN(auto sizes, common::from_tiling<FourierTiling>(tiling));
  const DType dtype = body.node(form->any()).dtype;
  LFARM_RETURN_IF_ERROR(common::verify(sizes, fourier_row(body, *form), dtype));
  return FourierEmitter(body, *form, sizes).run();
}

}  // namespace worker
