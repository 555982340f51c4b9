#include "worker/codegen/cuda/tile/tile_block.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/base/contains.h"
#include "common/ir/expr/ceil_div.h"
#include "common/lowering/body/exchanged_sums.h"
#include "common/lowering/text/c_text.h"
#include "worker/codegen/cuda/text/split.h"

namespace worker {

using common::c_cast;
using common::c_value_type;
using common::cat;
using common::CodeValue;
using common::Contraction;
using common::declare_positions;
using common::Expr;
using common::finish_body;
using common::GpuFunction;
using common::Graph;
using common::Indices;
using common::Result;
using common::Scratch;
using common::Side;
using common::store_flows;

namespace {

// Eight sums of a row, as permute_stage() lets them lie.
constexpr const char* kPermutedSums =
    "const int turn = column / 4 % 2 * 4;\n"
    "const float4 low = *(const float4*)&stage[row][column * 8 + turn];\n"
    "const float4 high = *(const float4*)&stage[row][column * 8 + 4 - turn];\n"
    "const float sums[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};";

// Eight rounded sums of a row, and those of the product before.
constexpr const char* kRoundedSums =
    "const LfVec<uint16_t, 8> sums = *(const LfVec<uint16_t, 8>*)&stage[row][column * 8];";
constexpr const char* kKeptSums =
    "const LfVec<uint16_t, 8> before = *(const LfVec<uint16_t, 8>*)&kept[row][column * 8];";

// Neighbouring blocks share rows and columns, which then are in the L2 cache: blocks go through
// this many rows of blocks at a time.
constexpr int64_t kGroup = 8;
constexpr int64_t kAccessBytes = 16;

}  // namespace

CudaTileBlock::CudaTileBlock(const Contraction& contraction, CudaBlockSize size,
                             const Contraction* before)
    : body_(contraction.body()),
      contraction_(contraction),
      before_(before),
      size_(size),
      writer_(body_.symbols),
      emitter_(body_, writer_),
      type_(c_value_type(contraction.node().dtype)) {
  k_.filled = contraction.problem().k_size;
  if (contraction.group() != nullptr) runs_.emplace(*contraction.group(), size.rows, size.threads);
}

void CudaTileBlock::begin(int64_t shared_bytes, const Expr& splits, int64_t kept,
                          int64_t alignment) {
  k_.splits = splits;
  k_.kept = kept;
  const common::TileProblem& p = contraction_.problem();
  Expr tiles_m = runs_ ? runs_->blocks() : ceil_div(p.m_size, size_.rows_together());
  Expr tiles_n = ceil_div(p.n_size, size_.columns_together());
  const Expr sharing = splits * Expr(size_.cluster);
  units_ = contraction_.batch_size() * tiles_m * tiles_n * sharing;
  // A grid has fewer than 2^31 blocks; divisions of 64 bits would be loops.
  std::string block = "blockIdx.x";
  if (is_split() || size_.cluster > 1) block = cat("(blockIdx.x / ", sharers(), ")");
  const bool is_alone = size_.cluster == 1;
  const char* row = is_alone || size_.is_beside ? "m0" : "cluster_m0";
  const char* column = is_alone || !size_.is_beside ? "n0" : "cluster_n0";
  std::string down = writer_.rare_text(tiles_m);
  std::string across = writer_.rare_text(tiles_n);
  if (!splits.is_constant()) {
    writer_.line(cat("const unsigned splits = ", writer_.rare_text(splits), ";"));
  }
  lines(cat("const int tid = threadIdx.x;\n", "const unsigned tiles_m = ", down, ", tiles_n = ",
            across, ";\n", "const unsigned tile = ", block, " % (tiles_m * tiles_n);\n"));
  if (tiles_m.is_constant() && tiles_m.constant() <= kGroup) {
    lines(cat("const int64_t ", row, " = tile % tiles_m, ", column, " = tile / tiles_m;"));
  } else {
    lines(cat("const unsigned above = tile / (", kGroup, " * tiles_n) * ", kGroup, ";\n",
              "const unsigned inside = tile % (", kGroup, " * tiles_n);\n",
              "const unsigned height = tiles_m - above < ", kGroup, " ? tiles_m - above : ", kGroup,
              ";\n", "const int64_t ", row, " = above + inside % height, ", column,
              " = inside / height;"));
  }
  if (!is_alone) {
    const char* own = size_.is_beside ? "n0" : "m0";
    lines(cat("const int64_t ", own, " = cluster_", own, " * ", size_.cluster, " + blockIdx.x % ",
              size_.cluster, ";"));
  }
  std::vector<Expr> sizes = contraction_.sizes_of(p.batch);
  if (!sizes.empty() && !runs_) {
    writer_.line(cat("const int64_t batch = ", block, " / (tiles_m * tiles_n);"));
    Expr flat = Expr::index(writer_.bind_index("batch", contraction_.batch_size(), 0));
    batch_ = declare_positions(writer_, "batch", sizes, flat);
  }
  dynamic_bytes_ = declare_shared(writer_, shared_bytes, alignment);
  if (runs_) batch_ = {runs_->open(writer_, emitter_)};
}

void CudaTileBlock::declare_part(int64_t depth) {
  if (!is_split()) return;
  const std::string block = size_.cluster > 1 ? cat("blockIdx.x / ", size_.cluster) : "blockIdx.x";
  lines(k_.splits.is_constant()
            ? cuda_split_range(k_.splits.constant(), "0", k_size(), depth, block)
            : cuda_split_range(splits(), k_size(), depth, block));
}

void CudaTileBlock::declare_steps(int64_t depth, const Expr& filled) {
  k_.filled = filled;
  declare_steps(depth);
}

void CudaTileBlock::declare_steps(int64_t depth) {
  k_.depth = depth;
  declare_part(depth);
  lines(cat("const int steps = (int)((", is_split() ? "end - begin" : k_size(), " + ", depth - 1,
            ") / ", depth, ");"));
}

std::string CudaTileBlock::step_begin(const std::string& step) const {
  return cat(is_split() ? "begin + " : "", "(int64_t)", step, " * ", k_.depth);
}

void CudaTileBlock::share_sums(int64_t count,
                               const std::function<std::string(const std::string& i)>& sum) {
  if (!is_split()) return;
  // Two at a time: the last block waits for what all others left, but has few registers for it.
  int64_t width = count % 2 == 0 && type_ == "float" ? 2 : 1;
  std::string vector = width == 2 ? "float2" : type_;
  std::string each = unrolled_loop("i", count / width);
  auto member = [&](int64_t k) {
    return width == 1 ? std::string() : std::string(k == 0 ? ".x" : ".y");
  };
  auto sums = [&](const char* assign) {
    std::string text =
        cat(each, " {\nconst ", vector, " q = from[i * ", size_.threads, " + tid];\n");
    for (int64_t k = 0; k < width; ++k) {
      text += cat(sum(cat("(i * ", width, " + ", k, ")")), assign, "q", member(k), ";\n");
    }
    return text + "}\n";
  };
  std::string left = cat(each, " {\n", vector, " q;\n");
  for (int64_t k = 0; k < width; ++k) {
    left += cat("q", member(k), " = ", sum(cat("(i * ", width, " + ", k, ")")), ";\n");
  }
  lines(cat("if (parts > 1) {\n", left, "((", vector, "*)kept)[i * ", size_.threads,
            " + tid] = q;\n}\n", join(vector), sums(" = "),
            "for (int p = 1; p < parts; ++p) {\nfrom += stride;\n", sums(" += "), "}\n}"));
}

void CudaTileBlock::spread_sums(
    int64_t count, const std::string& held,
    const std::function<std::string(const std::string& i)>& sum,
    const std::function<std::string(const std::string& thread, const std::string& four)>& take) {
  const std::string threads = cat(size_.threads), fours = cat("held * ", count / 4);
  // Several fours at a time: what other blocks left comes from the second cache, and a part is
  // asked for only when the one before it was added.
  constexpr int kTogether = 4;
  auto each_of_several = [&](const std::string& text) {
    return cat("#pragma unroll\nfor (int k = 0; k < ", kTogether,
               "; ++k) {\nconst int e = begin + k * ", threads, ";\nif (e < ", fours, ") {\n", text,
               "}\n}\n");
  };
  const std::string at = cat("from[e / held * ", threads, " + e % held]");
  lines(cat("const int held = ", held, ";\nif (tid < held) {\n", unrolled_loop("i", count / 4),
            " {\n((float4*)kept)[i * ", threads, " + tid] = make_float4(", sum("i * 4"), ", ",
            sum("i * 4 + 1"), ", ", sum("i * 4 + 2"), ", ", sum("i * 4 + 3"), ");\n}\n}\n",
            join("float4"),
            "const float4* const own = from;\n#pragma unroll 1\nfor (int begin = tid; begin < ",
            fours, "; begin += ", kTogether * size_.threads, ") {\nfloat4 totals[", kTogether,
            "];\nfrom = own;\n", each_of_several(cat("totals[k] = ", at, ";\n")),
            "#pragma unroll 1\nfor (int p = 1; p < parts; ++p) {\nfrom += stride;\n",
            each_of_several(cat("const float4 x = ", at,
                                ";\ntotals[k].x += x.x;\ntotals[k].y += x.y;\n"
                                "totals[k].z += x.z;\ntotals[k].w += x.w;\n")),
            "}\n",
            each_of_several(cat("const int t = e % held, i = e / held;\n"
                                "const float4 q = totals[k];\n",
                                take("t", "i"), "\n")),
            "}"));
}

std::string CudaTileBlock::sharers() const {
  if (size_.cluster == 1) return splits();
  return is_split() ? cat("(", splits(), " * ", size_.cluster, ")") : cat(size_.cluster);
}

std::string CudaTileBlock::join(const std::string& vector) const {
  const bool is_alone = size_.cluster == 1;
  const std::string result = is_alone ? cat("blockIdx.x / ", splits())
                                      : cat("(int64_t)(blockIdx.x / ", sharers(), ") * ",
                                            size_.cluster, " + blockIdx.x % ", size_.cluster);
  return cat(cuda_split_join_at(result),
             "\nconst int64_t stride = ", is_alone ? "" : cat(size_.cluster, " * "),
             "scratch_stride / (int64_t)sizeof(", vector, ");\nconst ", vector, "* from = (const ",
             vector, "*)kept - split * stride;\n");
}

Expr CudaTileBlock::bind_clamped(const std::string& position, const Expr& extent, bool clamp,
                                 bool outer) {
  int level = outer ? 0 : writer_.depth();
  std::string name = writer_.fresh("x");
  std::string value =
      clamp ? cat("lf_min_i64(", position, ", ", writer_.rare_text(extent - Expr(1)), ")")
            : position;
  writer_.line(level, cat("const int64_t ", name, " = ", value, ";"));
  return Expr::index(writer_.bind_index(name, extent, level));
}

Expr CudaTileBlock::own_index(Side side, const std::string& position, bool outer) {
  const Expr& extent = contraction_.own_size(side);
  if (is_by_table(side)) return bind_clamped(CudaRowRuns::row(position), extent, false, outer);
  int64_t step = side == Side::kLeft ? size_.rows : size_.columns;
  bool clamp = !common::exact_div(extent, Expr(step)).has_value();
  std::string origin = cat(side == Side::kLeft ? "m0" : "n0", " * ", step);
  return bind_clamped(cat(origin, " + ", position), extent, clamp, outer);
}

bool CudaTileBlock::covers_k(int64_t step) const {
  return common::exact_div(contraction_.problem().k_size, Expr(step)).has_value();
}

Expr CudaTileBlock::own_chunk(Side side, const std::string& position) {
  const Expr& extent = contraction_.own_size(side);
  int64_t step = side == Side::kLeft ? size_.rows : size_.columns;
  std::string first = cat(side == Side::kLeft ? "m0" : "n0", " * ", step, " + ", position);
  if (!common::exact_div(extent, Expr(step))) {
    first = cat(first, " < ", writer_.rare_text(extent), " ? ", first, " : 0");
  }
  return bind_clamped(first, extent, false, false);
}

Expr CudaTileBlock::k_index(const std::string& position, bool clamp) {
  return bind_clamped(position, contraction_.problem().k_size, clamp, false);
}

Expr CudaTileBlock::k_chunk(const std::string& position, bool clamp) {
  constexpr int64_t kChunk = 8;
  return bind_clamped(position, *common::exact_div(contraction_.problem().k_size, Expr(kChunk)),
                      clamp, false);
}

std::string CudaTileBlock::operand(Side side, const Expr& own, const Expr& k, bool widened) {
  CodeValue x = emitter_.value(contraction_.operand(side), operand_at(side, own, k));
  if (!widened) return x.text;
  return c_cast(contraction_.operand_dtype(side), contraction_.node().dtype, x.text);
}

int64_t CudaTileBlock::store_width(bool along_rows, const std::string& first, int64_t rows) const {
  const common::TileProblem& p = contraction_.problem();
  if (along_rows && (runs_ || first != "0")) return 1;
  int64_t size = common::dtype_size(contraction_.node().dtype);
  for (const auto& output : body_.outputs) {
    size = std::min(size, common::dtype_size(body_.node(output.node).dtype));
  }
  int64_t width = kAccessBytes / size;
  if ((along_rows ? rows : size_.columns) % width != 0) return 1;
  return common::exact_div(along_rows ? p.m_size : p.n_size, Expr(width)) ? width : 1;
}

void CudaTileBlock::arrange_stage() {
  rounded_ = common::exchanged_sums(contraction_);
  is_permuted_ = !rounded_ && !contraction_.output_runs_along_rows() &&
                 store_width(false, "0", size_.rows) == 8;
}

int64_t CudaTileBlock::sum_bytes() const {
  return common::dtype_size(rounded_.value_or(contraction_.node().dtype));
}

void CudaTileBlock::take_sum(const Contraction& product, const std::string& stage,
                             const Indices& at) {
  const std::string type = rounded_ ? std::string(c_value_type(*rounded_)) : type_;
  CodeValue x = writer_.declare(writer_.depth(), type, "c", stage);
  if (!rounded_) return writer_.remember({product.id(), 0, at}, x);
  for (size_t id = 0; id < body_.nodes.size(); ++id) {
    if (!common::contains(body_.nodes[id].operands, product.id())) continue;
    writer_.remember({static_cast<common::NodeId>(id), 0, at}, x);
  }
}

// Long because the scopes of one loop open and close in it.
void CudaTileBlock::store(const std::string& first, int64_t rows) {
  const common::TileProblem& p = contraction_.problem();
  const bool along_rows = contraction_.output_runs_along_rows();
  const int64_t width = store_width(along_rows, first, rows);
  // Where a thread takes neighbours at once, they are numbered by their chunks.
  const int64_t tall = along_rows ? width : 1, wide = along_rows ? 1 : width;
  const int64_t below = size_.rows_together() / size_.rows;
  const int64_t beside = size_.columns_together() / size_.columns;
  auto own = [&](const char* name, const char* origin, int64_t step, const std::string& position,
                 const Expr& size, int64_t blocks) {
    if (runs_ && *name == 'm') {
      writer_.line(cat("const int64_t m = ", CudaRowRuns::row(position), ";"));
      return CudaRowRuns::is_of_run(position);
    }
    writer_.line(cat("const int64_t ", name, " = ", origin, " * ", step, " + ", position, ";"));
    bool whole = common::exact_div(size, Expr(step * blocks)).has_value();
    return whole ? std::string() : cat(name, " < ", writer_.rare_text(size));
  };
  const Expr down = common::floor_div(p.m_size, Expr(tall));
  const Expr across = common::floor_div(p.n_size, Expr(wide));
  int64_t fast = along_rows ? rows / tall : size_.columns / wide;
  // Where a thread stays in its columns, what it reads for them is read once.
  const bool stays = !along_rows && size_.threads % fast == 0 &&
                     common::exact_div(p.n_size, Expr(size_.columns_together())).has_value();
  if (stays) {
    lines(cat("const int column = tid % ", fast, ";"));
    own("n", "n0", size_.columns / wide, "column", across, beside);
  }
  const int outer = writer_.depth();
  common::Team team;
  const int64_t all = rows * size_.columns / width;
  const int64_t batch = size_.stores;
  if (width > 1 && batch > 1 && all % (size_.threads * batch) == 0) {
    writer_.open(!stays);
    team.batch = {batch, "later", writer_.depth()};
  }
  writer_.open(!stays);
  if (team.batch.steps > 1) {
    writer_.line(cat("const int e = begun + later * ", size_.threads, ";"));
  }
  writer_.line(cat("const int row = e ", along_rows ? "%" : "/", " ", fast, ";"));
  if (!stays) {
    writer_.line(cat("const int column = e ", along_rows ? "/" : "%", " ", fast, ";"));
  }
  std::string inside = own("m", "m0", size_.rows / tall, cat(first, " + row"), down, below);
  std::string right = stays ? "" : own("n", "n0", size_.columns / wide, "column", across, beside);
  if (!inside.empty() && !right.empty()) inside += runs_ ? " && " : " & ";
  inside += right;
  // What belongs to columns that are there is read before the row is looked at.
  writer_.open(!inside.empty() && !stays);
  Expr m = Expr::index(writer_.bind_index("m", down, writer_.depth()));
  Expr n = Expr::index(writer_.bind_index("n", across, stays ? outer : writer_.depth()));
  std::string place = "[row][column]";
  team.level = writer_.depth();
  team.vector = width;
  emitter_.set_team(team);
  if (is_permuted_) lines(kPermutedSums);
  if (rounded_) lines(kRoundedSums);
  if (before_ != nullptr) lines(kKeptSums);
  if (width > 1) {
    Expr& chunk = along_rows ? m : n;
    Expr neighbour = emitter_.team().open_block(chunk);
    std::string step = writer_.text(neighbour - chunk * Expr(width));
    chunk = neighbour;
    place = along_rows ? cat("[row * ", width, " + ", step, "][column]")
                       : cat("[row][column * ", width, " + ", step, "]");
    if (is_permuted_ || rounded_) place = cat("[", step, "]");
  }
  auto place_in = [&](const Contraction& product) {
    Indices at = product.product_at(batch_, m, n);
    for (Expr& index : at) index = writer_.simplify(index);
    return at;
  };
  if (before_ != nullptr) take_sum(*before_, cat("before", place), place_in(*before_));
  const Indices at = place_in(contraction_);
  take_sum(contraction_, cat(is_permuted_ || rounded_ ? "sums" : "stage", place), at);
  flows_ = flows_ && store_flows(contraction_.id(), at, body_, emitter_, writer_);
  if (width > 1) emitter_.team().close();
  writer_.close(inside.empty() ? "" : cat("if (", inside, ")"));
  if (team.batch.steps > 1) {
    writer_.close(unrolled_loop("later", batch));
    emitter_.team().store_batch();
    writer_.close(
        cat("for (int begun = tid; begun < ", all, "; begun += ", size_.threads * batch, ")"));
    return;
  }
  writer_.close(cat("#pragma unroll ", batch, "\nfor (int e = tid; e < ", all,
                    "; e += ", size_.threads, ")"));
}

Result<GpuFunction> CudaTileBlock::finish() {
  if (runs_) runs_->close(writer_);
  LFARM_RETURN_IF_ERROR(emitter_.status());
  if (!flows_) return common::unsupported("an output mixes elements of the contraction");
  GpuFunction function;
  Scratch scratch = emitter_.scratch();
  function.is_split = is_split();
  if (function.is_split) {
    scratch.add("kept", type_, common::dtype_size(contraction_.node().dtype),
                Expr(k_.kept) * common::min(k_.splits - Expr(1), 1));
  }
  function.body = finish_body(writer_, units_, scratch);
  function.block.threads = size_.threads;
  function.block.units = 1;
  function.block.shared_bytes = dynamic_bytes_;
  return function;
}

}  // namespace worker
