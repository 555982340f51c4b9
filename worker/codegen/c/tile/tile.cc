#include "worker/codegen/c/tile/tile.h"

#include <algorithm>
#include <functional>

#include "common/base/cat.h"
#include "common/ir/expr/ceil_div.h"
#include "common/ir/llir/fallback_form.h"
#include "common/lowering/body/unit_loop.h"
#include "common/lowering/loops/cpu_loops.h"
#include "common/lowering/text/c_text.h"
#include "common/schedule/kernels/tile_reads.h"
#include "worker/codegen/c/tile/register_tile.h"
#include "worker/codegen/c/tile/tile_border.h"
#include "worker/codegen/c/tile/tile_columns.h"
#include "worker/codegen/c/tile/tile_layout.h"
#include "worker/codegen/c/tile/tile_packing.h"

namespace worker {

using common::BodyEmitter;
using common::c_storage_type;
using common::cat;
using common::CodeValue;
using common::CodeWriter;
using common::ContractAttr;
using common::Contraction;
using common::counting_loop;
using common::Expr;
using common::finish_body;
using common::FunctionBody;
using common::Graph;
using common::Indices;
using common::LabelIndices;
using common::linear_position;
using common::Node;
using common::NodeId;
using common::RegisterTiling;
using common::Result;
using common::Scratch;
using common::Side;
using common::store_flows;
using common::Tiling;
using common::unfold;
using common::UnitLoop;
using common::VectorUnit;

namespace {

size_t at(int index) { return static_cast<size_t>(index); }

// Stores the outputs that follow from elements of the contraction; or, with a `target`, these
// elements there.
class TileStore {
 public:
  TileStore(const TileCode& code, std::string target)
      : code_(code),
        problem_(code.product.problem()),
        t_(code.layout.tiling),
        writer_(code.writer),
        target_(std::move(target)) {}

  void store_tile() {
    writer_.line(cat("const int64_t me = lf_min_i64(i + ", t_.mr, ", ie);"));
    writer_.line(cat("const int64_t ne = lf_min_i64(j + ", t_.nr, ", n1);"));
    if (t_.stores_rows_at_once) {
      store_whole_tile();
      writer_.open(true);
    }
    Expr m = Expr::index(writer_.open_loop("m", problem_.m_size));
    Indices rows = unfold(code_.own_sizes(Side::kLeft), m);
    TileColumns columns = open_columns(writer_, code_.own_sizes(Side::kRight),
                                       {"n", "j", "ne", problem_.n_size, t_.nr},
                                       output_divides_columns(code_.product));
    store_element(rows, columns, "(m - i)");
    close_columns(writer_, columns);
    writer_.close(counting_loop("m", "i", "me"));
    if (t_.stores_rows_at_once) writer_.close("else");
  }

  // `value`: C, the contraction's element.
  void store_value(const Indices& rows, const TileColumns& columns, const std::string& value) {
    Indices indices = output_indices(rows, columns.values);
    CodeValue x = writer_.declare(writer_.depth(), code_.layout.type, "c", value);
    if (!target_.empty()) {
      Expr offset = writer_.simplify(linear_position(indices, code_.product.node().shape));
      writer_.line(cat(target_, "[", writer_.text(offset), "] = ", x.text, ";"));
    } else {
      writer_.remember({code_.product.id(), 0, indices}, x);
      flows_ = flows_ && store_flows(code_.product.id(), indices, code_.product.body(),
                                     code_.emitter, writer_, true);
    }
  }

  // Visits the elements of a unit in loops over its rows and columns.
  void each_element(const std::function<void(const Indices&, const TileColumns&)>& visit) {
    Expr m = Expr::index(writer_.open_loop("m", problem_.m_size));
    Indices rows = unfold(code_.own_sizes(Side::kLeft), m);
    TileColumns columns = open_columns(writer_, code_.own_sizes(Side::kRight),
                                       {"n", "n0", "n1", problem_.n_size, t_.nc},
                                       output_divides_columns(code_.product));
    visit(rows, columns);
    close_columns(writer_, columns);
    writer_.close(counting_loop("m", "m0", "m1"));
  }

  Indices output_indices(const std::vector<Expr>& rows, const std::vector<Expr>& columns) const {
    LabelIndices given(problem_.label_size.size());
    given.give(problem_.batch, code_.batch);
    given.give(problem_.m, rows);
    given.give(problem_.n, columns);
    Indices indices = given.of(attr<ContractAttr>(code_.product.node()).out);
    for (Expr& index : indices) index = writer_.simplify(index);
    return indices;
  }

  // Whether every output was a function of one element.
  bool flows() const { return flows_; }

 private:
  // All rows at once, so that what belongs to a column is read once for all of them.
  void store_whole_tile() {
    writer_.open(true);
    TileColumns columns =
        open_columns(writer_, code_.own_sizes(Side::kRight),
                     {"n", "j", cat("j + ", t_.nr), problem_.n_size, t_.nr}, false);
    for (int64_t r = 0; r < t_.mr; ++r) {
      int row =
          writer_.bind_index(r == 0 ? "i" : cat("(i + ", r, ")"), problem_.m_size, writer_.depth());
      store_element(unfold(code_.own_sizes(Side::kLeft), Expr::index(row)), columns, cat(r));
    }
    close_columns(writer_, columns);
    writer_.close(cat("if (me - i == ", t_.mr, " && ne - j == ", t_.nr, ")"));
  }

  // `row`: C, within the tile.
  void store_element(const Indices& rows, const TileColumns& columns, const std::string& row) {
    store_value(rows, columns, cat("tile[", row, " * ", t_.nr, " + (", columns.position, " - j)]"));
  }

  const TileCode& code_;
  const common::TileProblem& problem_;
  const RegisterTiling& t_;
  CodeWriter& writer_;
  std::string target_;
  bool flows_ = true;
};

// One contraction, block by block:
//   unit: batch element, group of rows, panel of nc columns
//     for each block of kc steps: pack that part of B (column panels of nr)
//       for each block of mc rows: copy that part of A, row-major
//         for each panel, for each mr rows: the register tile; after the last steps, store it
// What a register tile can read where it lies is not packed.
class TileEmitter {
 public:
  TileEmitter(const Graph& body, NodeId contraction, const RegisterTiling& tiling,
              const VectorUnit& unit, const std::string& target)
      : product_(body, contraction),
        layout_(tile_layout(product_, tiling, unit)),
        writer_(body.symbols),
        emitter_(body, writer_),
        code_{product_, layout_, writer_, emitter_, {}},
        store_(code_, target),
        is_one_unit_(!target.empty()) {}

  // Stores the body's outputs; or, with a target, the contraction itself there, in one unit.
  // kUnsupported when an output is not a function of one element of the contraction.
  Result<FunctionBody> run() {
    declare_scratch();
    const common::TileProblem& problem = product_.problem();
    std::vector<Expr> extents;
    for (int label : problem.batch) extents.push_back(problem.label_size[at(label)]);
    const size_t rows = layout_.tiling.rows_outermost ? 0 : extents.size();
    extents.insert(extents.begin() + static_cast<std::ptrdiff_t>(rows),
                   ceil_div(problem.m_size, layout_.tiling.group));
    extents.push_back(ceil_div(problem.n_size, layout_.tiling.nc));
    UnitLoop units(writer_, extents);
    code_.batch = units.indices();
    const Expr column_part = code_.batch.back(), row_part = code_.batch[rows];
    code_.batch.pop_back();
    code_.batch.erase(code_.batch.begin() + static_cast<std::ptrdiff_t>(rows));
    bounds_lines(row_part, column_part);
    if (auto fallback = common::fallback_form(product_.body(), product_.id())) {
      emit_fallback(*fallback);
    } else {
      emit_blocks();
    }
    if (!is_one_unit_) fill_borders(code_, units);
    Expr count = units.close("", is_one_unit_ || writer_.holds_loops(0));
    if (layout_.tiling.matrices) writer_.line("LF_TILES_END;");
    LFARM_RETURN_IF_ERROR(emitter_.status());
    if (!store_.flows()) {
      return common::unsupported("an output mixes elements of the contraction");
    }
    return finish_body(writer_, count, scratch_);
  }

 private:
  void declare_scratch() {
    const RegisterTiling& t = layout_.tiling;
    int64_t size = common::dtype_size(product_.node().dtype);
    const std::string& step = layout_.steps.type;
    if (!layout_.column_step) scratch_.add("packed_b", step, size, Expr(t.nc * t.kc));
    if (!layout_.tiling.rows_in_place) {
      scratch_.add("packed_a", step, size, Expr(t.mc * layout_.row_stride));
    }
    if (!layout_.single_block) scratch_.add("sums", layout_.type, size, Expr(t.group * t.nc));
    writer_.line(cat(layout_.type, " tile[", t.mr * t.nr, "] __attribute__((aligned(64)));"));
    writer_.line(cat(step, " square[", layout_.lanes * layout_.lanes,
                     "] __attribute__((aligned(64))) = {0};"));
    if (layout_.tiling.matrices) writer_.line("LF_TILES_BEGIN;");
  }

  void bounds_lines(const Expr& row_part, const Expr& column_part) {
    const RegisterTiling& t = layout_.tiling;
    auto range = [&](std::string_view name, const Expr& part, int64_t step, const Expr& size) {
      std::string begin = writer_.rare_text(part * Expr(step));
      writer_.line(cat("const int64_t ", name, "0 = ", begin, ";"));
      writer_.line(cat("const int64_t ", name, "1 = lf_min_i64(", name, "0 + ", step, ", ",
                       writer_.rare_text(size), ");"));
    };
    range("m", row_part, t.group, product_.problem().m_size);
    range("n", column_part, t.nc, product_.problem().n_size);
  }

  // The blocks of a unit that needs some of them; of others, what is stored without them.
  void emit_fallback(const common::FallbackForm& form) {
    writer_.line("int32_t is_needed = 0;");
    store_.each_element([&](const Indices& rows, const TileColumns& columns) {
      CodeValue x = emitter_.value(form.condition, store_.output_indices(rows, columns.values));
      writer_.line(cat("is_needed |= ", x.text, ";"));
    });
    writer_.open(true);
    emit_blocks();
    writer_.close("if (is_needed)");
    writer_.open(true);
    store_.each_element([&](const Indices& rows, const TileColumns& columns) {
      store_.store_value(rows, columns, cat("(", layout_.type, ")0"));
    });
    writer_.close("else");
  }

  void emit_blocks() {
    const RegisterTiling& t = layout_.tiling;
    std::string depth = writer_.rare_text(layout_.steps.count);
    writer_.open(true);
    writer_.line(cat("const int64_t k1 = lf_min_i64(k0 + ", t.kc, ", ", depth, ");"));
    if (!layout_.column_step) {
      writer_.open(true);
      pack_block(code_, Side::kRight);
      writer_.close(counting_loop("jb", "n0", "n1", t.nr));
    }
    writer_.open(true);
    writer_.line(cat("const int64_t ie = lf_min_i64(ib + ", t.mc, ", m1);"));
    if (!layout_.tiling.rows_in_place) pack_block(code_, Side::kLeft);
    writer_.open(true);
    writer_.open(true);
    emit_register_tile(code_);
    writer_.open(true);
    store_.store_tile();
    writer_.close(cat("if (k1 == ", depth, ")"));
    writer_.close(counting_loop("i", "ib", "ie", t.mr));
    writer_.close(counting_loop("j", "n0", "n1", t.nr));
    writer_.close(counting_loop("ib", "m0", "m1", t.mc));
    // An empty sum still stores zeros.
    std::string header = cat("for (int64_t k0 = 0; k0 == 0 || k0 < ", depth, "; k0 += ", t.kc, ")");
    writer_.close(header);
  }

  Contraction product_;
  const TileLayout layout_;
  CodeWriter writer_;
  BodyEmitter emitter_;
  Scratch scratch_;
  TileCode code_;
  TileStore store_;
  bool is_one_unit_;
};

}  // namespace

Result<FunctionBody> emit_tile(const Graph& body, const Tiling& tiling, const VectorUnit& unit,
                               const std::optional<common::LoopNest>& epilogue) {
  NodeId contraction = common::only_contraction(body);
  if (contraction < 0) return common::unsupported("a tile kernel holds one contraction");
  LFARM_ASSIGN_OR_RETURN(auto sizes, common::from_tiling<RegisterTiling>(tiling));
  LFARM_RETURN_IF_ERROR(common::verify(sizes, common::Contraction(body, contraction), unit));
  if (!epilogue) return TileEmitter(body, contraction, sizes, unit, "").run();

  // The contraction first, then the rest as loops that read it.
  LFARM_ASSIGN_OR_RETURN(FunctionBody product,
                         TileEmitter(body, contraction, sizes, unit, "product").run());
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
