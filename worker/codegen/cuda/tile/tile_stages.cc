#include "worker/codegen/cuda/tile/tile_stages.h"

#include <algorithm>

#include "common/base/cat.h"

namespace worker {

using common::cat;
using common::Expr;
using common::Side;

CudaTileStages::CudaTileStages(CudaTileBlock& block, Options options)
    : block_(block), c_(block.contraction()), w_(block.writer()), options_(options) {
  left_ = operand(Side::kLeft, "left", block.size().rows);
  right_ = operand(Side::kRight, "right", block.size().columns);
}

CudaTileStages::Operand CudaTileStages::operand(Side which, const char* name, int64_t width) const {
  Operand x{which, name, width, c_.runs_along_k(which), false};
  // Rows by a table do not lie side by side.
  x.copied = (x.along_k || !block_.is_by_table(which)) && c_.reads_chunks(which, x.along_k, kChunk);
  return x;
}

int64_t CudaTileStages::per_thread(const Operand& x) const {
  return x.width * options_.depth / kChunk / block_.size().threads;
}

std::string CudaTileStages::place(const Operand& x, const std::string& row,
                                  const std::string& chunk) const {
  int64_t chunks = row_chunks(x);
  std::string turn = chunks >= 8   ? cat(row, " % 8")
                     : chunks == 4 ? cat(row, " / 2 % 4")
                                   : cat(row, " / 4 % 2");
  if (options_.in_groups && chunks > kGroupChunks) {
    int64_t rows = x.along_k ? x.width : options_.depth;
    return cat("(", chunk, ") / ", kGroupChunks, " * ", rows * kGroupChunks * 16, " + (", row,
               ") * ", kGroupChunks * 16, " + (((", chunk, ") % ", kGroupChunks, " ^ ((", turn,
               "))) * 16)");
  }
  return cat("(", row, ") * ", chunks * 16, " + (((", chunk, ") ^ ((", turn, "))) * 16)");
}

void CudaTileStages::declare() {
  for (const Operand* x : {&left_, &right_}) {
    if (!x->copied) w_.line(cat("uint4 next_", x->name, "[", per_thread(*x), "];"));
  }
}

void CudaTileStages::load() {
  for (const Operand* x : {&left_, &right_}) x->copied ? copy(*x) : compute(*x);
}

void CudaTileStages::keep() {
  for (const Operand* x : {&left_, &right_}) {
    if (x->copied) continue;
    open_slots(*x);
    std::string value = cat("next_", x->name, "[x]");
    w_.line(options_.in_groups ? cat("lf_store_shared16(", target(*x), ", ", value, ");")
                               : cat("*(uint4*)(", target(*x), ") = ", value, ";"));
    close_slots(*x);
  }
}

void CudaTileStages::open_slots(const Operand& x) {
  w_.open(false);
  w_.line(cat("const int row = tid / ", row_chunks(x), " + x * ",
              block_.size().threads / row_chunks(x), ", chunk = tid % ", row_chunks(x), ";"));
}

void CudaTileStages::close_slots(const Operand& x) {
  w_.close(cat("#pragma unroll\nfor (int x = 0; x < ", per_thread(x), "; ++x)"));
}

std::string CudaTileStages::target(const Operand& x) const {
  return cat("to + ", x.side == Side::kLeft ? 0 : right_at(), " + ", place(x, "row", "chunk"));
}

void CudaTileStages::copy(const Operand& x) {
  open_slots(x);
  std::string step = x.along_k ? "k0 + chunk * 8" : "k0 + row";
  bool whole = block_.covers_k(options_.depth);
  Expr k = block_.k_index(
      whole ? step : cat("(", step, " < ", block_.k_size(), " ? ", step, " : 0)"), false);
  Expr own = x.along_k ? block_.own_index(x.side, "row") : block_.own_chunk(x.side, "chunk * 8");
  auto read = c_.read_at(x.side, block_.operand_at(x.side, own, k), block_.emitter());
  LFARM_CHECK(read.has_value(), "chunks are copied from inputs");
  std::string from = cat("in", read->input, " + ", w_.text(read->offset));
  std::string needed = whole ? "" : cat(step, " < ", block_.k_size());
  if (x.along_k && block_.is_by_table(x.side)) {
    // Rows of other groups are not stored.
    needed += cat(needed.empty() ? "" : " && ", CudaRowRuns::is_of_run("row"));
  }
  if (needed.empty()) {
    w_.line(cat("lf_cp_async16(", target(x), ", ", from, ");"));
  } else {
    w_.line(cat("lf_cp_async16_zfill(", target(x), ", ", from, ", ", needed, " ? 16 : 0);"));
  }
  close_slots(x);
}

void CudaTileStages::compute(const Operand& x) {
  open_slots(x);
  w_.line("uint16_t h[8];");
  const bool is_whole = block_.covers_k(options_.depth);
  std::string place = "y";
  auto compute_one = [&](const std::string& step, const Expr& own, const Expr& k) {
    std::string value = block_.operand(x.side, own, k, false);
    if (!is_whole) value = cat(step, " < ", block_.k_size(), " ? ", value, " : 0");
    w_.line(cat("h[", place, "] = ", value, ";"));
  };
  const char* each = "#pragma unroll\nfor (int y = 0; y < 8; ++y)";
  if (!x.along_k) {
    const Expr k = block_.k_index("k0 + row", !is_whole);
    w_.open(false);
    compute_one("k0 + row", block_.own_index(x.side, "chunk * 8 + y"), k);
    w_.close(each);
  } else if (const Expr own = block_.own_index(x.side, "row"); block_.covers_k(kChunk)) {
    // What lies side by side in memory is loaded at once.
    const Expr first = block_.k_chunk("k0 / 8 + chunk", !is_whole);
    common::Team team;
    team.level = w_.depth();
    team.vector = kChunk;
    block_.emitter().set_team(team);
    const Expr k = block_.emitter().team().open_block(first);
    place = w_.text(k - first * Expr(kChunk));
    compute_one("k0 + chunk * 8", own, k);
    block_.emitter().team().close();
  } else {
    w_.open(false);
    compute_one("k0 + chunk * 8 + y", own, block_.k_index("k0 + chunk * 8 + y", true));
    w_.close(each);
  }
  auto pair = [](int y) { return cat("h[", y, "] | (uint32_t)h[", y + 1, "] << 16"); };
  w_.line(cat("next_", x.name, "[x] = make_uint4(", pair(0), ", ", pair(2), ", ", pair(4), ", ",
              pair(6), ");"));
  close_slots(x);
}

}  // namespace worker
