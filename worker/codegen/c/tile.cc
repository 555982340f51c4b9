#include "worker/codegen/c/tile.h"

#include <algorithm>
#include <functional>

#include "common/base/cat.h"
#include "common/ir/llir/fallback_form.h"
#include "common/lowering/body/unit_loop.h"
#include "common/lowering/loops/cpu_loops.h"
#include "common/lowering/text/c_text.h"
#include "worker/codegen/c/matrix_tile.h"
#include "worker/codegen/c/tile_columns.h"
#include "worker/codegen/c/tile_reads.h"
#include "worker/codegen/c/tile_steps.h"
#include "worker/codegen/text/tile_params.h"

namespace worker {

using common::BodyEmitter;
using common::c_cast;
using common::c_storage_type;
using common::c_value_type;
using common::cat;
using common::CodeValue;
using common::CodeWriter;
using common::ContractAttr;
using common::Contraction;
using common::counting_loop;
using common::DType;
using common::Expr;
using common::finish_body;
using common::FunctionBody;
using common::Graph;
using common::Indices;
using common::LabelIndices;
using common::linear_position;
using common::Node;
using common::NodeId;
using common::Result;
using common::Schedule;
using common::Scratch;
using common::Shape;
using common::Side;
using common::store_flows;
using common::unfold;
using common::UnitLoop;
using common::Var;

namespace {

// Steps along k that are read one after the other lie no further apart: a page.
constexpr int64_t kNearBytes = 4096;
// Bodies up to this size are written out for every row of a register tile of vectors.
constexpr size_t kWholeNodesMax = 24;

size_t at(int index) { return static_cast<size_t>(index); }

Expr ceil_div(const Expr& a, int64_t b) { return common::floor_div(a + Expr(b - 1), b); }

// One contraction, block by block:
//   unit: batch element, group of rows, panel of nc columns
//     for each block of kc steps: pack that part of B (column panels of nr)
//       for each block of mc rows: copy that part of A, row-major
//         for each panel, for each mr rows: the register tile; after the last steps, store it
// What a register tile can read where it lies is not packed.
class TileEmitter {
 public:
  TileEmitter(const Graph& body, NodeId contraction, const Schedule& schedule,
              const VectorUnit& unit)
      : body_(body),
        id_(contraction),
        node_(body.node(contraction)),
        product_(body, contraction),
        problem_(product_.problem()),
        steps_(tile_steps(product_, unit)),
        column_step_(columns_in_place(product_, steps_, unit)),
        has_tiles_(unit.has_tiles && steps_.has_pairs()),
        reads_{has_tiles_ ? 0 : rows_lie_in_place(product_, steps_), column_step_.has_value()},
        t_(has_tiles_ ? choose_matrix_tile(steps_.problem(product_), schedule, reads_)
                      : choose_tile(steps_.problem(product_), schedule, unit.bytes, reads_)),
        rows_in_place_(reads_.rows(t_)),
        writer_(body.symbols),
        emitter_(body, writer_) {
    type_ = c_value_type(node_.dtype);
    vector_ = cat("lf_", type_, t_.lanes);
    single_block_ = steps_.count.is_constant() && steps_.count.constant() <= t_.kc;
    // Zeros fill up what is packed, but what is read in place ends where it ends.
    ends_in_half_ = steps_.may_be_odd && (rows_in_place_ || column_step_);
  }

  // Stores the body's outputs; or, with a `target`, the contraction itself there, in one unit.
  // kUnsupported when an output is not a function of one element of the contraction.
  Result<FunctionBody> run(const std::string& target) {
    target_ = target;
    declare_scratch();
    std::vector<Expr> extents;
    for (int label : problem_.batch) extents.push_back(problem_.label_size[at(label)]);
    extents.push_back(ceil_div(problem_.m_size, t_.group));
    extents.push_back(ceil_div(problem_.n_size, t_.nc));
    UnitLoop units(writer_, extents);
    batch_.assign(units.indices().begin(), units.indices().end() - 2);
    bounds_lines(units.indices());
    if (auto fallback = common::fallback_form(body_, id_)) {
      emit_fallback(*fallback);
    } else {
      emit_blocks();
    }
    Expr count = units.close("", !target.empty() || writer_.holds_loops(0));
    if (has_tiles_) writer_.line("LF_TILES_END;");
    LFARM_RETURN_IF_ERROR(emitter_.status());
    if (!flows_) return common::unsupported("an output mixes elements of the contraction");
    return finish_body(writer_, count, scratch_);
  }

 private:
  // TileColumns whose steps lie further apart are packed.
  static std::optional<int64_t> columns_in_place(const Contraction& product, const TileSteps& steps,
                                                 const VectorUnit& unit) {
    int64_t size = common::dtype_size(product.node().dtype);
    auto step = columns_lie_in_place(product, steps, unit.bytes / size);
    return step && *step * size <= kNearBytes ? step : std::nullopt;
  }

  // ---- shapes and names
  void declare_scratch() {
    int64_t size = common::dtype_size(node_.dtype);
    a_stride_ = (t_.kc + t_.lanes - 1) / t_.lanes * t_.lanes + t_.lanes;
    if (!column_step_) scratch_.add("packed_b", steps_.type, size, Expr(t_.nc * t_.kc));
    if (!rows_in_place_) scratch_.add("packed_a", steps_.type, size, Expr(t_.mc * a_stride_));
    if (!single_block_) scratch_.add("sums", type_, size, Expr(t_.group * t_.nc));
    writer_.line(cat(type_, " tile[", t_.mr * t_.nr, "] __attribute__((aligned(64)));"));
    writer_.line(
        cat(steps_.type, " square[", t_.lanes * t_.lanes, "] __attribute__((aligned(64))) = {0};"));
    if (has_tiles_) writer_.line("LF_TILES_BEGIN;");
  }

  void bounds_lines(const std::vector<Expr>& unit) {
    auto range = [&](std::string_view name, const Expr& part, int64_t step, const Expr& size) {
      std::string begin = writer_.rare_text(part * Expr(step));
      writer_.line(cat("const int64_t ", name, "0 = ", begin, ";"));
      writer_.line(cat("const int64_t ", name, "1 = lf_min_i64(", name, "0 + ", step, ", ",
                       writer_.rare_text(size), ");"));
    };
    range("m", unit[unit.size() - 2], t_.group, problem_.m_size);
    range("n", unit[unit.size() - 1], t_.nc, problem_.n_size);
  }

  // The blocks of a unit that needs some of them; of others, what is stored without them.
  void emit_fallback(const common::FallbackForm& form) {
    writer_.line("int32_t is_needed = 0;");
    each_element([&](const Indices& rows, const TileColumns& columns) {
      CodeValue x = emitter_.value(form.condition, output_indices(rows, columns.values));
      writer_.line(cat("is_needed |= ", x.text, ";"));
    });
    writer_.open(true);
    emit_blocks();
    writer_.close("if (is_needed)");
    writer_.open(true);
    each_element([&](const Indices& rows, const TileColumns& columns) {
      store_value(rows, columns, cat("(", type_, ")0"));
    });
    writer_.close("else");
  }

  void emit_blocks() {
    std::string depth = writer_.rare_text(steps_.count);
    writer_.open(true);
    writer_.line(cat("const int64_t k1 = lf_min_i64(k0 + ", t_.kc, ", ", depth, ");"));
    if (!column_step_) {
      writer_.open(true);
      fill_block(Side::kRight);
      writer_.close(counting_loop("jb", "n0", "n1", t_.nr));
    }
    writer_.open(true);
    writer_.line(cat("const int64_t ie = lf_min_i64(ib + ", t_.mc, ", m1);"));
    if (!rows_in_place_) fill_block(Side::kLeft);
    writer_.open(true);
    writer_.open(true);
    register_tile();
    writer_.open(true);
    store_tile();
    writer_.close(cat("if (k1 == ", depth, ")"));
    writer_.close(counting_loop("i", "ib", "ie", t_.mr));
    writer_.close(counting_loop("j", "n0", "n1", t_.nr));
    writer_.close(counting_loop("ib", "m0", "m1", t_.mc));
    // An empty sum still stores zeros.
    std::string header =
        cat("for (int64_t k0 = 0; k0 == 0 || k0 < ", depth, "; k0 += ", t_.kc, ")");
    writer_.close(header);
  }

  std::vector<Expr> own_sizes(Side side) const {
    return product_.sizes_of(product_.own_labels(side));
  }

  // ---- packing
  std::string element(Side side, const Indices& own, const Indices& step, int64_t half) {
    NodeId id = product_.operand(side);
    Indices k = steps_.elements(product_, step, half);
    CodeValue x = emitter_.value(id, product_.operand_at(side, batch_, own, k));
    return c_cast(body_.node(id).dtype, steps_.dtype, x.text);
  }
  // A step of the operand; half a pair has a zero.
  std::string operand(Side side, const Indices& own, const Indices& step) {
    std::string low = element(side, own, step, 0);
    if (!steps_.has_pairs()) return low;
    std::string high = cat("(uint32_t)", element(side, own, step, 1), " << 16");
    if (steps_.may_be_odd) {
      std::string position = writer_.text(writer_.simplify(step[0] * Expr(2) + Expr(1)));
      high = cat("(", position, " < ", writer_.rare_text(steps_.depth), " ? ", high, " : 0)");
    }
    return cat("(uint32_t)", low, " | ", high);
  }

  // B: packed_b panel of columns jb.., element [k - k0][n - jb]. A: packed_a[m - ib][k - k0].
  void fill_block(Side side) {
    bool left = side == Side::kLeft;
    std::string from = left ? "ib" : "jb";
    std::string end = left ? "ie" : "je";
    if (!left) {
      writer_.line(cat("const int64_t je = lf_min_i64(jb + ", t_.nr, ", n1);"));
      writer_.line(
          cat(steps_.type, "* restrict const panel = packed_b + (jb - n0) * ", t_.kc, ";"));
    }
    std::string target = left ? "packed_a" : "panel";
    int64_t stride = left ? a_stride_ : t_.nr;
    OperandMemory memory = operand_memory(product_, steps_, side);
    // Rows of the target run along k for A and along n for B; square blocks turn what does not fit.
    if (memory.along_k != left) {
      fill_transposed(side, memory, from, end, target, stride);
      return;
    }
    if (left && steps_.has_pairs()) {
      fill_rows_of_pairs(memory);
      return;
    }
    const Expr& own_extent = product_.own_size(side);
    std::string row = left ? "m" : "k", row0 = left ? from : "k0";
    std::string column0 = left ? "k0" : from;
    Indices rows = unfold(left ? own_sizes(side) : steps_.sizes,
                          Expr::index(writer_.open_loop(row, left ? own_extent : steps_.count)));
    TileColumns columns =
        open_columns(writer_, left ? steps_.sizes : own_sizes(side), left ? "k" : "n", column0,
                     left ? "k1" : end, left ? steps_.count : own_extent,
                     left ? memory.k_runs : memory.own_runs);
    std::string x = operand(side, left ? rows : columns.values, left ? columns.values : rows);
    writer_.line(cat(target, "[(", row, " - ", row0, ") * ", stride, " + (", columns.position,
                     " - ", column0, ")] = ", x, ";"));
    close_columns(writer_, columns);
    writer_.close(counting_loop(row, row0, left ? end : "k1"));
  }

  // Neighbours along k lie side by side in pairs, too: rows are copied element by element.
  void fill_rows_of_pairs(const OperandMemory& memory) {
    Indices rows = unfold(own_sizes(Side::kLeft),
                          Expr::index(writer_.open_loop("m", product_.own_size(Side::kLeft))));
    std::string depth = writer_.rare_text(steps_.depth);
    writer_.line(
        cat("uint16_t* restrict const row = (uint16_t*)(packed_a + (m - ib) * ", a_stride_, ");"));
    writer_.line(cat("const int64_t ke = lf_min_i64(2 * k1, ", depth, ");"));
    TileColumns columns = open_columns(writer_, product_.sizes_of(problem_.k), "k", "2 * k0", "ke",
                                       steps_.depth, memory.k_runs);
    CodeValue x = emitter_.value(product_.operand(Side::kLeft),
                                 product_.operand_at(Side::kLeft, batch_, rows, columns.values));
    writer_.line(cat("row[", columns.position, " - 2 * k0] = ", x.text, ";"));
    close_columns(writer_, columns);
    if (steps_.may_be_odd) writer_.line("if (ke < 2 * k1) row[ke - 2 * k0] = 0;");
    writer_.close(counting_loop("m", "ib", "ie"));
  }

  // Reads squares along the operand's memory and turns them in registers.
  void fill_transposed(Side side, const OperandMemory& memory, const std::string& from,
                       const std::string& end, const std::string& target, int64_t stride) {
    bool left = side == Side::kLeft;
    const Expr& own_extent = product_.own_size(side);
    std::string outer = left ? "k" : "n";  // the square's rows as read
    std::string outer0 = left ? "k0" : from;
    std::string inner0 = left ? from : "k0";
    int64_t length = t_.lanes;
    writer_.open(true);
    writer_.open(true);
    writer_.line(cat("const int64_t re = lf_min_i64(rb + ", length, ", ", left ? "k1" : end, ");"));
    writer_.line(cat("const int64_t ce = lf_min_i64(cb + ", length, ", ", left ? end : "k1", ");"));
    Indices rows = unfold(left ? steps_.sizes : own_sizes(side),
                          Expr::index(writer_.open_loop(outer, left ? steps_.count : own_extent)));
    TileColumns columns =
        open_columns(writer_, left ? own_sizes(side) : steps_.sizes, left ? "m" : "k", "cb", "ce",
                     left ? own_extent : steps_.count, left ? memory.own_runs : memory.k_runs);
    std::string x = operand(side, left ? columns.values : rows, left ? rows : columns.values);
    writer_.line(cat("square[(", outer, " - rb) * ", length, " + (", columns.position,
                     " - cb)] = ", x, ";"));
    close_columns(writer_, columns);
    writer_.close(counting_loop(outer, "rb", "re"));
    writer_.line(cat("lf_turn_", steps_.type, length, "(square, ", length, ", ", target,
                     " + (cb - ", inner0, ") * ", stride, " + (rb - ", outer0, "), ", stride,
                     ", ce - cb);"));
    writer_.close(counting_loop("rb", outer0, left ? "k1" : end, length));
    writer_.close(counting_loop("cb", inner0, left ? end : "k1", length));
  }

  // ---- the register tile
  void register_tile() {
    int64_t vectors = t_.nr / t_.lanes;
    column_pointers();
    if (!single_block_) {
      writer_.line(cat(type_, "* restrict const sum = sums + (j - n0) * ", t_.group,
                       " + (i - m0) * ", t_.nr, ";"));
    }
    if (ends_in_half_) {
      std::string whole = writer_.rare_text(common::floor_div(steps_.depth, Expr(2)));
      writer_.line(cat("const int64_t whole = lf_min_i64(k1, ", whole, ") - k0;"));
    }
    std::string to =
        single_block_ ? "tile" : "(k1 == " + writer_.rare_text(steps_.count) + " ? tile : sum)";
    if (has_tiles_) {
      matrix_tile(to);
      return;
    }
    row_pointers();
    for (int64_t r = 0; r < t_.mr; ++r) {
      std::string line;
      for (int64_t v = 0; v < vectors; ++v) line += cat(v ? ", " : "", "c", r, "_", v, " = {0}");
      writer_.line(cat(vector_, " ", line, ";"));
    }
    if (!single_block_) {
      writer_.open(true);
      each_accumulator([&](const std::string& c, int64_t offset) {
        writer_.line(cat(c, " = *(const ", vector_, "*)(sum + ", offset, ");"));
      });
      writer_.close("if (k0 != 0)");
    }
    writer_.open(true);
    multiply("k", false);
    writer_.close(cat("for (int64_t k = 0; k < ", ends_in_half_ ? "whole" : "k1 - k0", "; ++k)"));
    if (ends_in_half_) {
      writer_.open(true);
      multiply("whole", true);
      writer_.close("if (whole < k1 - k0)");
    }
    writer_.line(cat(type_, "* const to = ", to, ";"));
    each_accumulator([&](const std::string& c, int64_t offset) {
      writer_.line(cat("*(", vector_, "*)(to + ", offset, ") = ", c, ";"));
    });
  }

  void matrix_tile(const std::string& to) {
    MatrixTile tile;
    tile.params = t_;
    tile.left = cat("(const lf_bf16_pair*)packed_a + (i - ib) * ", a_stride_);
    tile.left_stride = a_stride_;
    for (int64_t v = 0; v < t_.nr / t_.lanes; ++v) {
      tile.right.push_back(column_step_ ? cat("column", v) : cat("panel + ", v * t_.lanes));
    }
    tile.right_stride = column_step_.value_or(t_.nr);
    if (!single_block_) tile.earlier = "sum";
    tile.has_earlier = "k0 != 0";
    tile.steps = "k1 - k0";
    tile.whole = ends_in_half_ ? "whole" : tile.steps;
    tile.to = to;
    emit_matrix_tile(writer_, tile);
  }

  // Adds step `k` of the block, of which `half` leaves only the first element.
  void multiply(std::string_view k, bool half) {
    int64_t vectors = t_.nr / t_.lanes;
    for (int64_t v = 0; v < vectors; ++v) {
      std::string from = column_step_ ? cat("column", v, " + ", k, " * ", *column_step_)
                                      : cat("panel + ", k, " * ", t_.nr, " + ", v * t_.lanes);
      writer_.line(cat("const ", steps_.vector, " b", v, " = *(const ", steps_.vector, "*)(", from,
                       half ? ") & 0xffffu;" : ");"));
    }
    for (int64_t r = 0; r < t_.mr; ++r) {
      std::string line,
          a = half ? cat("*(const uint16_t*)(a", r, " + ", k, ")") : cat("a", r, "[", k, "]");
      for (int64_t v = 0; v < vectors; ++v) {
        std::string c = cat("c", r, "_", v);
        line += v != 0 ? " " : "";
        line += steps_.has_pairs() ? cat(c, " = lf_add_pairs(", c, ", ", a, ", b", v, ");")
                                   : cat(c, " += ", a, " * b", v, ";");
      }
      writer_.line(line);
    }
  }

  // Elements k0 and on of each vector of columns.
  void column_pointers() {
    if (!column_step_) {
      writer_.line(cat("const ", steps_.type, "* restrict const panel = packed_b + (j - n0) * ",
                       t_.kc, ";"));
      return;
    }
    int64_t last = (problem_.n_size.constant() - 1) / t_.lanes * t_.lanes;
    for (int64_t v = 0; v < t_.nr / t_.lanes; ++v) {
      std::string first = cat("first", v);
      std::string position = v == 0 ? "j" : cat("lf_min_i64(j + ", v * t_.lanes, ", ", last, ")");
      pointer_to(Side::kRight, cat("column", v), first, position, 0, cat("k0 * ", *column_step_));
    }
  }

  // Elements k0 and on of each row.
  void row_pointers() {
    bool whole = reads_.row_run == TileReads::kWhole;
    Expr k = 0;
    if (rows_in_place_ && !whole) {
      k = Expr::index(writer_.bind_index("k0", steps_.count, writer_.depth())) *
          Expr(steps_.length);
    }
    for (int64_t r = 0; r < t_.mr; ++r) {
      std::string row = r == 0 ? "i" : cat("lf_min_i64(i + ", r, ", ie - 1)");
      if (rows_in_place_) {
        pointer_to(Side::kLeft, cat("a", r), cat("row", r), row, k, whole ? "k0" : "0");
      } else {
        std::string packed = steps_.has_pairs() ? "(const lf_bf16_pair*)packed_a" : "packed_a";
        writer_.line(cat("const ", step_type(), "* restrict const a", r, " = ", packed, " + (", row,
                         " - ib) * ", a_stride_, ";"));
      }
    }
  }

  // C: a step of an operand wherever it lies.
  std::string step_type() const { return steps_.has_pairs() ? "lf_bf16_pair" : type_; }

  // Declares `name`, the address of the operand's element at k and its own index `position`, which
  // is called `index`, and so many steps further.
  void pointer_to(Side side, const std::string& name, const std::string& index,
                  const std::string& position, const Expr& k, const std::string& further) {
    writer_.line(cat("const int64_t ", index, " = ", position, ";"));
    Expr own = Expr::index(writer_.bind_index(index, product_.own_size(side), writer_.depth()));
    auto read = product_.read_at(side, product_.operand_at(side, batch_, own, k), emitter_);
    LFARM_CHECK(read.has_value(), "an operand was found in place");
    std::string element =
        cat("in", read->input, " + (", writer_.text(writer_.simplify(read->offset)), ")");
    if (steps_.has_pairs()) element = cat("(const lf_bf16_pair*)(", element, ")");
    writer_.line(
        cat("const ", step_type(), "* restrict const ", name, " = ", element, " + ", further, ";"));
  }

  void each_accumulator(const std::function<void(const std::string&, int64_t)>& visit) {
    for (int64_t r = 0; r < t_.mr; ++r) {
      for (int64_t v = 0; v < t_.nr / t_.lanes; ++v) {
        visit(cat("c", r, "_", v), r * t_.nr + v * t_.lanes);
      }
    }
  }

  // ---- storing
  void store_tile() {
    writer_.line(cat("const int64_t me = lf_min_i64(i + ", t_.mr, ", ie);"));
    writer_.line(cat("const int64_t ne = lf_min_i64(j + ", t_.nr, ", n1);"));
    bool runs = output_divides_columns(product_);
    bool whole = !runs && !has_tiles_ && body_.nodes.size() <= kWholeNodesMax;
    if (whole) {
      store_whole_tile();
      writer_.open(true);
    }
    Expr m = Expr::index(writer_.open_loop("m", problem_.m_size));
    Indices rows = unfold(own_sizes(Side::kLeft), m);
    TileColumns columns =
        open_columns(writer_, own_sizes(Side::kRight), "n", "j", "ne", problem_.n_size, runs);
    store_element(rows, columns, "(m - i)");
    close_columns(writer_, columns);
    writer_.close(counting_loop("m", "i", "me"));
    if (whole) writer_.close("else");
  }

  // All rows at once, so that what belongs to a column is read once for all of them.
  void store_whole_tile() {
    writer_.open(true);
    TileColumns columns = open_columns(writer_, own_sizes(Side::kRight), "n", "j",
                                       cat("j + ", t_.nr), problem_.n_size, false);
    for (int64_t r = 0; r < t_.mr; ++r) {
      int row =
          writer_.bind_index(r == 0 ? "i" : cat("(i + ", r, ")"), problem_.m_size, writer_.depth());
      store_element(unfold(own_sizes(Side::kLeft), Expr::index(row)), columns, cat(r));
    }
    close_columns(writer_, columns);
    writer_.close(cat("if (me - i == ", t_.mr, " && ne - j == ", t_.nr, ")"));
  }

  // `row`: C, within the tile.
  void store_element(const Indices& rows, const TileColumns& columns, const std::string& row) {
    store_value(rows, columns, cat("tile[", row, " * ", t_.nr, " + (", columns.position, " - j)]"));
  }

  // `value`: C, the contraction's element.
  void store_value(const Indices& rows, const TileColumns& columns, const std::string& value) {
    Indices indices = output_indices(rows, columns.values);
    CodeValue x = writer_.declare(writer_.depth(), type_, "c", value);
    if (!target_.empty()) {
      Expr offset = writer_.simplify(linear_position(indices, node_.shape));
      writer_.line(cat(target_, "[", writer_.text(offset), "] = ", x.text, ";"));
    } else {
      writer_.remember({id_, 0, indices}, x);
      flows_ = flows_ && store_flows(id_, indices, body_, emitter_, writer_);
    }
  }

  // Visits the elements of a unit in loops over its rows and columns.
  void each_element(const std::function<void(const Indices&, const TileColumns&)>& visit) {
    Expr m = Expr::index(writer_.open_loop("m", problem_.m_size));
    Indices rows = unfold(own_sizes(Side::kLeft), m);
    TileColumns columns = open_columns(writer_, own_sizes(Side::kRight), "n", "n0", "n1",
                                       problem_.n_size, output_divides_columns(product_));
    visit(rows, columns);
    close_columns(writer_, columns);
    writer_.close(counting_loop("m", "m0", "m1"));
  }

  Indices output_indices(const std::vector<Expr>& rows, const std::vector<Expr>& columns) const {
    LabelIndices given(problem_.label_size.size());
    given.give(problem_.batch, batch_);
    given.give(problem_.m, rows);
    given.give(problem_.n, columns);
    Indices indices = given.of(attr<ContractAttr>(node_).out);
    for (Expr& index : indices) index = writer_.simplify(index);
    return indices;
  }

  const Graph& body_;
  NodeId id_;
  const Node& node_;
  Contraction product_;
  const common::TileProblem& problem_;
  TileSteps steps_;
  std::optional<int64_t> column_step_;  // between neighbours along k, where columns are in place
  bool has_tiles_;
  TileReads reads_;
  TileParams t_;
  bool rows_in_place_;
  CodeWriter writer_;
  BodyEmitter emitter_;
  Scratch scratch_;
  std::string type_;
  std::string vector_;
  std::string target_;
  std::vector<Expr> batch_;
  int64_t a_stride_ = 0;
  bool single_block_ = false;
  bool ends_in_half_ = false;  // half a pair may end the steps, and has no zero beside it
  bool flows_ = true;
};

}  // namespace

Result<FunctionBody> emit_tile(const Graph& body, const Schedule& schedule, const VectorUnit& unit,
                               const std::optional<common::LoopNest>& epilogue) {
  NodeId contraction = common::only_contraction(body);
  if (contraction < 0) return common::unsupported("a tile kernel holds one contraction");
  if (!epilogue) return TileEmitter(body, contraction, schedule, unit).run("");

  // The contraction first, then the rest as loops that read it.
  LFARM_ASSIGN_OR_RETURN(FunctionBody product,
                         TileEmitter(body, contraction, schedule, unit).run("product"));
  LFARM_ASSIGN_OR_RETURN(FunctionBody rest,
                         common::lower_cpu_loops(body, *epilogue, common::epilogue_context(body)));
  const Node& node = body.node(contraction);
  Scratch scratch;
  scratch.add("product", c_storage_type(node.dtype), common::dtype_size(node.dtype),
              common::element_count(node.shape));
  FunctionBody result;
  result.text = cat("  {\n", product.text, "  }\n  {\n", rest.text, "  }\n");
  result.scratch = scratch.pieces();
  result.scratch_bytes = scratch.bytes();
  for (const FunctionBody* part : {&product, &rest}) {
    for (Scratch::Piece piece : part->scratch) {
      piece.offset += result.scratch_bytes;
      result.scratch.push_back(std::move(piece));
    }
    result.scratch_bytes += part->scratch_bytes;
  }
  return result;
}

}  // namespace worker
