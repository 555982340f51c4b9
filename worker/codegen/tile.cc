#include "worker/codegen/tile.h"

#include <algorithm>
#include <functional>

#include "common/base/cat.h"
#include "worker/codegen/c_text.h"
#include "worker/codegen/tile_params.h"
#include "worker/codegen/unit_loop.h"
#include "worker/codegen/view_inverse.h"

namespace worker {

using common::cat;
using common::ContractAttr;
using common::DType;
using common::Expr;
using common::Graph;
using common::Node;
using common::NodeId;
using common::Op;
using common::Result;
using common::Schedule;
using common::Shape;
using common::Var;

namespace {

size_t at(int index) { return static_cast<size_t>(index); }
bool contains(const std::vector<int>& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

TileProblem analyse(const Graph& body, const Node& node) {
  const auto& c = attr<ContractAttr>(node);
  TileProblem p;
  p.dtype = node.dtype;
  auto note = [&](const std::vector<int>& labels, NodeId operand) {
    for (size_t k = 0; k < labels.size(); ++k) {
      if (at(labels[k]) >= p.label_size.size()) p.label_size.resize(at(labels[k]) + 1, Expr(1));
      p.label_size[at(labels[k])] = body.node(operand).shape[k];
    }
  };
  note(c.a, node.operands[0]);
  note(c.b, node.operands[1]);
  for (int label : c.out) {
    bool in_a = contains(c.a, label);
    (in_a && contains(c.b, label) ? p.batch : in_a ? p.m : p.n).push_back(label);
  }
  for (const auto* labels : {&c.a, &c.b}) {
    for (int label : *labels) {
      if (!contains(c.out, label) && !contains(p.k, label)) p.k.push_back(label);
    }
  }
  auto product = [&](const std::vector<int>& labels) {
    Expr size = 1;
    for (int label : labels) size *= p.label_size[at(label)];
    return size;
  };
  p.m_size = product(p.m);
  p.n_size = product(p.n);
  p.k_size = product(p.k);
  return p;
}

Expr ceil_div(const Expr& a, int64_t b) { return common::floor_div(a + Expr(b - 1), b); }

// One contraction, block by block:
//   unit: batch element, group of rows, panel of nc columns
//     for each block of kc steps: pack that part of B's panel (column strips of nr)
//       for each block of mc rows: copy that part of A, row-major
//         for each strip, for each mr rows: the register tile; after the last steps, store it
class TileEmitter {
 public:
  TileEmitter(const Graph& body, NodeId contraction, const Schedule& schedule, int vector_bytes)
      : body_(body),
        id_(contraction),
        node_(body.node(contraction)),
        problem_(analyse(body, node_)),
        t_(choose_tile(problem_, schedule, vector_bytes)),
        writer_(body.symbols),
        emitter_(body, writer_) {
    type_ = c_value_type(node_.dtype);
    vector_ = cat("lf_", type_, t_.lanes);
    single_block_ = problem_.k_size.is_constant() && problem_.k_size.constant() <= t_.kc;
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
    emit_blocks();
    Expr count = units.close("", !target.empty() || writer_.holds_loops(0));
    LFARM_RETURN_IF_ERROR(emitter_.status());
    if (!flows_) return common::unsupported("an output mixes elements of the contraction");
    FunctionBody result;
    result.text = writer_.finish();
    result.units = count;
    result.scratch = scratch_.pieces();
    result.scratch_bytes = scratch_.bytes();
    return result;
  }

 private:
  // ---- shapes and names
  void declare_scratch() {
    int64_t size = common::dtype_size(node_.dtype);
    a_stride_ = (t_.kc + t_.lanes - 1) / t_.lanes * t_.lanes + t_.lanes;
    scratch_.add("packed_b", type_, size, Expr(t_.nc * t_.kc));
    scratch_.add("packed_a", type_, size, Expr(t_.mc * a_stride_));
    if (!single_block_) scratch_.add("sums", type_, size, Expr(t_.group * t_.nc));
    writer_.line(cat(type_, " tile[", t_.mr * t_.nr, "] __attribute__((aligned(64)));"));
    writer_.line(
        cat(type_, " square[", t_.lanes * t_.lanes, "] __attribute__((aligned(64))) = {0};"));
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

  std::string block_loop(std::string_view i, std::string_view from, std::string_view to,
                         int64_t step) const {
    return cat("for (int64_t ", i, " = ", from, "; ", i, " < ", to, "; ", i, " += ", step, ")");
  }

  void emit_blocks() {
    std::string depth = writer_.rare_text(problem_.k_size);
    writer_.open(true);
    writer_.line(cat("const int64_t k1 = lf_min_i64(k0 + ", t_.kc, ", ", depth, ");"));
    writer_.open(true);
    fill_block(Side::kB);
    writer_.close(block_loop("jb", "n0", "n1", t_.nr));
    writer_.open(true);
    writer_.line(cat("const int64_t ie = lf_min_i64(ib + ", t_.mc, ", m1);"));
    fill_block(Side::kA);
    writer_.open(true);
    writer_.open(true);
    register_tile();
    writer_.open(true);
    store_tile();
    writer_.close(cat("if (k1 == ", depth, ")"));
    writer_.close(block_loop("i", "ib", "ie", t_.mr));
    writer_.close(block_loop("j", "n0", "n1", t_.nr));
    writer_.close(block_loop("ib", "m0", "m1", t_.mc));
    // An empty sum still stores zeros.
    std::string header =
        cat("for (int64_t k0 = 0; k0 == 0 || k0 < ", depth, "; k0 += ", t_.kc, ")");
    writer_.close(header);
  }

  // The label values of a flat index.
  void place(const std::vector<int>& labels, const Expr& flat, std::vector<Expr>& by_label) const {
    Expr below = 1;
    for (size_t k = labels.size(); k-- > 0;) {
      const Expr& size = problem_.label_size[at(labels[k])];
      Expr value = common::floor_div(flat, below);
      if (k != 0) value = common::mod(value, size);
      by_label[at(labels[k])] = value;
      below *= size;
    }
  }

  std::vector<Expr> labels_at(const Expr& m, const Expr& n, const Expr& k) const {
    std::vector<Expr> by_label(problem_.label_size.size(), Expr(0));
    for (size_t b = 0; b < problem_.batch.size(); ++b) by_label[at(problem_.batch[b])] = batch_[b];
    place(problem_.m, m, by_label);
    place(problem_.n, n, by_label);
    place(problem_.k, k, by_label);
    return by_label;
  }

  // ---- packing
  enum class Side { kA, kB };

  CodeValue operand(Side side, const Expr& outer, const Expr& k) {
    const auto& c = attr<ContractAttr>(node_);
    bool left = side == Side::kA;
    std::vector<Expr> by_label = labels_at(left ? outer : Expr(0), left ? Expr(0) : outer, k);
    Indices indices;
    for (int label : left ? c.a : c.b) indices.push_back(by_label[at(label)]);
    NodeId id = node_.operands[left ? 0 : 1];
    CodeValue x = emitter_.value(id, indices);
    x.text = c_cast(body_.node(id).dtype, node_.dtype, x.text);
    return x;
  }

  // Whether the operand's memory runs along k, and not along its own axis. A trial emission shows
  // the positions it is loaded from.
  bool runs_along_k(Side side) {
    const auto& c = attr<ContractAttr>(node_);
    bool left = side == Side::kA;
    CodeWriter trial(body_.symbols);
    BodyEmitter emitter(body_, trial);
    std::vector<Expr> index;
    for (const Expr& size : problem_.label_size) {
      index.push_back(Expr::index(trial.bind_index(trial.fresh("l"), size, 0)));
    }
    Indices indices;
    for (int label : left ? c.a : c.b) indices.push_back(index[at(label)]);
    emitter.value(node_.operands[left ? 0 : 1], indices);
    auto unit_stride = [&](const Expr& offset, const std::vector<int>& labels) {
      if (labels.empty()) return 0;
      Expr moved = offset.substitute([&](Var v) -> Expr {
        bool moves = v.kind == Var::Kind::kIndex && Expr::var(v) == index[at(labels.back())];
        return moves ? Expr::var(v) + 1 : Expr::var(v);
      });
      return moved - offset == Expr(1) ? 1 : 0;
    };
    int votes = left ? 1 : 0;  // in doubt nothing is turned
    for (const Expr& offset : emitter.load_offsets()) {
      votes += 2 * unit_stride(offset, problem_.k);
      votes -= 2 * unit_stride(offset, left ? problem_.m : problem_.n);
    }
    return votes > 0;
  }

  // A loop over one axis of a block; returns its index.
  Expr open_axis(const std::string& name, const Expr& extent) {
    writer_.open(true);
    return Expr::index(writer_.bind_index(name, extent, writer_.depth()));
  }

  // B: packed_b strip of columns jb.., element [k - k0][n - jb]. A: packed_a[m - ib][k - k0].
  void fill_block(Side side) {
    bool left = side == Side::kA;
    const Expr& extent = left ? problem_.m_size : problem_.n_size;
    std::string from = left ? "ib" : "jb";
    std::string end = left ? "ie" : "je";
    if (!left) {
      writer_.line(cat("const int64_t je = lf_min_i64(jb + ", t_.nr, ", n1);"));
      writer_.line(cat(type_, "* restrict const strip = packed_b + (jb - n0) * ", t_.kc, ";"));
    }
    std::string target = left ? "packed_a" : "strip";
    int64_t stride = left ? a_stride_ : t_.nr;
    // Rows of the target run along k for A and along n for B; square blocks turn what does not fit.
    if (runs_along_k(side) == left) {
      std::string row = left ? "m" : "k";
      std::string column = left ? "k" : "n";
      Expr r = open_axis(row, left ? extent : problem_.k_size);
      Expr c = open_axis(column, left ? problem_.k_size : extent);
      CodeValue x = operand(side, left ? r : c, left ? c : r);
      std::string row0 = left ? from : "k0";
      std::string column0 = left ? "k0" : from;
      writer_.line(cat(target, "[(", row, " - ", row0, ") * ", stride, " + (", column, " - ",
                       column0, ")] = ", x.text, ";"));
      close_vector_loop(column, column0, left ? "k1" : end);
      writer_.close(cat("for (int64_t ", row, " = ", row0, "; ", row, " < ", left ? end : "k1",
                        "; ++", row, ")"));
      return;
    }
    fill_turned(side, extent, from, end, target, stride);
  }

  void close_vector_loop(std::string_view i, std::string_view from, std::string_view to) {
    std::string pragma = writer_.holds_loops() ? "" : "LF_VECTOR_LOOP(0, 1)\n";
    writer_.close(cat(pragma, "for (int64_t ", i, " = ", from, "; ", i, " < ", to, "; ++", i, ")"));
  }

  // Reads squares along the operand's memory and turns them in registers.
  void fill_turned(Side side, const Expr& extent, const std::string& from, const std::string& end,
                   const std::string& target, int64_t stride) {
    bool left = side == Side::kA;
    std::string outer = left ? "k" : "n";  // the square's rows as read
    std::string inner = left ? "m" : "k";  // contiguous in memory
    std::string outer0 = left ? "k0" : from;
    std::string inner0 = left ? from : "k0";
    std::string outer1 = left ? "k1" : end;
    std::string inner1 = left ? end : "k1";
    writer_.open(true);
    writer_.open(true);
    int64_t side_length = t_.lanes;
    writer_.line(cat("const int64_t re = lf_min_i64(rb + ", side_length, ", ", outer1, ");"));
    writer_.line(cat("const int64_t ce = lf_min_i64(cb + ", side_length, ", ", inner1, ");"));
    Expr r = open_axis(outer, left ? problem_.k_size : extent);
    Expr c = open_axis(inner, left ? extent : problem_.k_size);
    CodeValue x = operand(side, left ? c : r, left ? r : c);
    writer_.line(
        cat("square[(", outer, " - rb) * ", side_length, " + (", inner, " - cb)] = ", x.text, ";"));
    close_vector_loop(inner, "cb", "ce");
    writer_.close(cat("for (int64_t ", outer, " = rb; ", outer, " < re; ++", outer, ")"));
    writer_.line(cat("lf_turn_", type_, side_length, "(square, ", target, " + (cb - ", inner0,
                     ") * ", stride, " + (rb - ", outer0, "), ", stride, ", ce - cb);"));
    writer_.close(block_loop("rb", outer0, outer1, side_length));
    writer_.close(block_loop("cb", inner0, inner1, side_length));
  }

  // ---- the register tile
  void register_tile() {
    int64_t vectors = t_.nr / t_.lanes;
    writer_.line(cat("const ", type_, "* restrict b = packed_b + (j - n0) * ", t_.kc, ";"));
    for (int64_t r = 0; r < t_.mr; ++r) {
      std::string row = r == 0 ? "i - ib" : cat("lf_min_i64(i + ", r, ", ie - 1) - ib");
      writer_.line(cat("const ", type_, "* restrict const a", r, " = packed_a + (", row, ") * ",
                       a_stride_, ";"));
    }
    if (!single_block_) {
      writer_.line(cat(type_, "* restrict const sum = sums + (j - n0) * ", t_.group,
                       " + (i - m0) * ", t_.nr, ";"));
    }
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
    for (int64_t v = 0; v < vectors; ++v) {
      writer_.line(
          cat("const ", vector_, " b", v, " = *(const ", vector_, "*)(b + ", v * t_.lanes, ");"));
    }
    for (int64_t r = 0; r < t_.mr; ++r) {
      std::string line;
      for (int64_t v = 0; v < vectors; ++v) {
        line += cat(v ? " " : "", "c", r, "_", v, " += a", r, "[k] * b", v, ";");
      }
      writer_.line(line);
    }
    writer_.close(cat("for (int64_t k = 0; k < k1 - k0; ++k, b += ", t_.nr, ")"));
    std::string to =
        single_block_ ? "tile" : "(k1 == " + writer_.rare_text(problem_.k_size) + " ? tile : sum)";
    writer_.line(cat(type_, "* const to = ", to, ";"));
    each_accumulator([&](const std::string& c, int64_t offset) {
      writer_.line(cat("*(", vector_, "*)(to + ", offset, ") = ", c, ";"));
    });
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
    Expr m = open_axis("m", problem_.m_size);
    Expr n = open_axis("n", problem_.n_size);
    std::vector<Expr> by_label = labels_at(m, n, 0);
    Indices indices;
    for (int label : attr<ContractAttr>(node_).out) {
      indices.push_back(writer_.simplify(by_label[at(label)]));
    }
    CodeValue x =
        writer_.declare(writer_.depth(), type_, "c", cat("tile[(m - i) * ", t_.nr, " + (n - j)]"));
    if (!target_.empty()) {
      Expr offset = writer_.simplify(linear_position(indices, node_.shape));
      writer_.line(cat(target_, "[", writer_.text(offset), "] = ", x.text, ";"));
    } else {
      writer_.remember({id_, 0, indices}, x);
      for (size_t k = 0; k < body_.outputs.size(); ++k) store_output(k, indices);
    }
    close_vector_loop("n", "j", "ne");
    writer_.close("for (int64_t m = i; m < me; ++m)");
  }

  void store_output(size_t output, const Indices& indices) {
    NodeId id = body_.outputs[output].node;
    auto target = flow_forward(body_, id_, id, indices);
    if (!target) {
      flows_ = false;
      return;
    }
    const Node& node = body_.node(id);
    CodeValue x = emitter_.value(id, *target);
    Expr offset = writer_.simplify(linear_position(*target, node.shape));
    writer_.line(cat("out", output, "[", writer_.text(offset), "] = ", x.text, ";"));
  }

  const Graph& body_;
  NodeId id_;
  const Node& node_;
  TileProblem problem_;
  TileParams t_;
  CodeWriter writer_;
  BodyEmitter emitter_;
  Scratch scratch_;
  std::string type_;
  std::string vector_;
  std::string target_;
  std::vector<Expr> batch_;
  int64_t a_stride_ = 0;
  bool single_block_ = false;
  bool flows_ = true;
};

}  // namespace

Result<FunctionBody> emit_tile(const Graph& body, const Schedule& schedule, int vector_bytes) {
  NodeId contraction = -1;
  for (size_t id = 0; id < body.nodes.size(); ++id) {
    if (body.nodes[id].op != Op::kContract) continue;
    if (contraction >= 0) return common::unsupported("a tile kernel holds one contraction");
    contraction = static_cast<NodeId>(id);
  }
  if (contraction < 0) return common::unsupported("a tile kernel holds a contraction");
  auto direct = TileEmitter(body, contraction, schedule, vector_bytes).run("");
  if (direct.ok()) return direct;

  // The contraction first, then the rest as loops that read it.
  LFARM_ASSIGN_OR_RETURN(FunctionBody product,
                         TileEmitter(body, contraction, schedule, vector_bytes).run("product"));
  const Node& node = body.node(contraction);
  LoopsOptions options;
  options.stored[contraction] = {"product", node.shape};
  options.whole = true;
  LFARM_ASSIGN_OR_RETURN(FunctionBody rest, emit_loops(body, {}, options));
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

std::string_view tile_preamble() {
  return R"C(
typedef float lf_float16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef float lf_float8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float lf_float4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef double lf_double8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef double lf_double4 __attribute__((vector_size(32), aligned(8), may_alias));
typedef double lf_double2 __attribute__((vector_size(16), aligned(8), may_alias));
// The first `rows` rows of the transposed n x n square, by log2(n) perfect shuffles of its rows.
#define LF_TURN(T, n, ...)                                                                          LF_INLINE void lf_turn_##T##n(const T* restrict square, T* restrict to, int64_t stride,                                         int64_t rows) {                                                       lf_##T##n r[n], q[n];                                                                             for (int i = 0; i < n; ++i) r[i] = *(const lf_##T##n*)(square + i * n);                           for (int step = 1; step < n; step *= 2) {                                                           for (int i = 0; i < n / 2; ++i) {                                                                   q[2 * i] = __builtin_shufflevector(r[i], r[i + n / 2], __VA_ARGS__);                              q[2 * i + 1] = __builtin_shufflevector(r[i], r[i + n / 2], LF_HIGH##n);                         }                                                                                                 for (int i = 0; i < n; ++i) r[i] = q[i];                                                        }                                                                                                 if (rows == n) {                                                                                    for (int i = 0; i < n; ++i) *(lf_##T##n*)(to + i * stride) = r[i];                              } else {                                                                                            for (int i = 0; i < n; ++i) *(lf_##T##n*)(q + i) = r[i];                                          for (int i = 0; i < rows; ++i) *(lf_##T##n*)(to + i * stride) = q[i];                           }                                                                                               }
#define LF_HIGH2 1, 3
#define LF_HIGH4 2, 6, 3, 7
#define LF_HIGH8 4, 12, 5, 13, 6, 14, 7, 15
#define LF_HIGH16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
LF_TURN(double, 2, 0, 2)
LF_TURN(float, 4, 0, 4, 1, 5)
LF_TURN(double, 4, 0, 4, 1, 5)
LF_TURN(float, 8, 0, 8, 1, 9, 2, 10, 3, 11)
LF_TURN(double, 8, 0, 8, 1, 9, 2, 10, 3, 11)
LF_TURN(float, 16, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
)C";
}

}  // namespace worker
