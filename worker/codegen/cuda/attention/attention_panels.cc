#include "worker/codegen/cuda/attention/attention_panels.h"

#include <numeric>

#include "common/base/cat.h"
#include "common/base/check.h"
#include "common/base/divide_up.h"
#include "common/lowering/body/plain_read.h"

namespace worker {

using common::cat;
using common::Expr;

namespace {

constexpr int64_t kBankChunks = 8;  // 16 bytes each: all banks
constexpr int64_t kWarp = 32;
constexpr int64_t kComputedRows = 4;    // of a warp, whose loads are under way together
constexpr int64_t kComputedUnroll = 2;  // chunks whose elements a loop computes in a step

}  // namespace

// Rows whose chunks are a multiple of only `group` banks' apart meet after 8 / group of them.
std::string CudaAttentionPanels::Panel::turn(const std::string& row) const {
  int64_t group = std::gcd(chunks(), kBankChunks);
  return cat("(", row, ") % 8 / ", kBankChunks / group);
}

std::string CudaAttentionPanels::Panel::place(const std::string& row,
                                              const std::string& chunk) const {
  if (!in_groups) {
    return cat(row, " * ", row_bytes(), " + ((", chunk, " ^ ", turn(row), ") * 16)");
  }
  const int64_t chunks = kGroupBytes / 16;
  return cat(chunk, " / ", chunks, " * ", group_bytes(), " + ", row, " * ", kGroupBytes, " + (",
             chunk, " ^ ", row, ") % ", chunks, " * 16");
}

bool CudaAttentionPanels::is_copied(const Panel& panel) const {
  return lies_in_runs(panel, common::kHalfChunk);
}

void CudaAttentionPanels::load(const Panel& panel, const std::string& to, int64_t threads,
                               const Source& source) {
  if (panel.in_groups && !is_copied(panel)) return compute_rows(panel, to, threads, source);
  int64_t chunks = panel.chunks(), count = panel.rows * chunks;
  int64_t steps = common::divide_up(count, threads);
  writer_.open(false);
  // Where a thread's chunks have the same place in their rows, so that they differ by constants.
  lines(threads % chunks == 0 ? cat("const int row = tid / ", chunks, " + x * ", threads / chunks,
                                    ", chunk = tid % ", chunks, ";")
                              : cat("const int row = (tid + x * ", threads, ") / ", chunks,
                                    ", chunk = (tid + x * ", threads, ") % ", chunks, ";"));
  writer_.open(count % threads != 0);
  std::vector<Expr> at = source.at("row");
  std::string target = cat(to, " + ", panel.place("row", "chunk"));
  std::string valid = source.valid;
  if (panel.length != panel.padded()) {
    valid = cat(valid, valid.empty() ? "" : " & ", "chunk * 8 < ", panel.length);
  }
  bool copied = is_copied(panel);
  copied ? copy_chunk(panel, target, at, valid) : compute_chunk(panel, target, at, valid);
  writer_.close(count % threads != 0 ? cat("if (row < ", panel.rows, ")") : "");
  std::string loop = cat("for (int x = 0; x < ", steps, "; ++x)");
  writer_.close(copied ? unrolled_loop("x", steps)
                       : cat("#pragma unroll ", kComputedUnroll, "\n", loop));
}

void CudaAttentionPanels::copy_chunk(const Panel& panel, const std::string& target,
                                     const std::vector<Expr>& at, const std::string& valid) {
  bool is_whole = panel.length == panel.padded();
  std::string name = writer_.fresh("d");
  lines(cat("const int ", name, " = ",
            is_whole ? "chunk * 8" : cat("chunk * 8 < ", panel.length, " ? chunk * 8 : 0"), ";"));
  Expr position = Expr::index(writer_.bind_index(name, panel.length, writer_.depth()));
  auto read = common::plain_read(panel.node, panel.at(operands_, at, position), emitter_);
  std::string from = cat("in", read->input, " + ", writer_.text(read->offset));
  lines(valid.empty()
            ? cat("lf_cp_async16(", target, ", ", from, ");")
            : cat("lf_cp_async16_zfill(", target, ", ", from, ", ", valid, " ? 16 : 0);"));
}

void CudaAttentionPanels::compute_rows(const Panel& panel, const std::string& to, int64_t threads,
                                       const Source& source) {
  LFARM_CHECK(source.valid.empty(), "all rows are there");
  const int64_t warps = threads / kWarp;
  writer_.open(false);
  lines(cat("const int row = x * ", warps, " + tid / ", kWarp, ";"));
  std::vector<Expr> at = source.at("row");
  writer_.open(false);
  lines(cat("const int place = y * ", kWarp, " + tid % ", kWarp, ";"));
  const bool is_whole = panel.length % kWarp == 0;
  writer_.open(!is_whole);
  Expr position = inner_index("place", panel.length);
  common::CodeValue x = emitter_.value(panel.node, panel.at(operands_, at, position));
  lines(cat("lf_store_shared2(", to, " + ", panel.place("row", "place / 8"), " + place % 8 * 2, ",
            is_whole ? x.text : cat("place < ", panel.length, " ? ", x.text, " : 0"), ");"));
  writer_.close(is_whole ? "" : cat("if (place < ", panel.padded(), ")"));
  writer_.close(unrolled_loop("y", common::divide_up(panel.padded(), kWarp)));
  writer_.close(cat("#pragma unroll ", kComputedRows, "\nfor (int x = 0; x < ", panel.rows / warps,
                    "; ++x)"));
}

void CudaAttentionPanels::compute_chunk(const Panel& panel, const std::string& target,
                                        const std::vector<Expr>& at, const std::string& valid) {
  lines("uint4 q = make_uint4(0, 0, 0, 0);");
  writer_.open(!valid.empty());
  lines("uint16_t h[8];");
  writer_.open(false);
  Expr position = inner_index("chunk * 8 + y", panel.length);
  common::CodeValue x = emitter_.value(panel.node, panel.at(operands_, at, position));
  lines(cat("h[y] = ",
            panel.length % common::kHalfChunk == 0
                ? x.text
                : cat("chunk * 8 + y < ", panel.length, " ? ", x.text, " : 0"),
            ";"));
  writer_.close(unrolled_loop("y", common::kHalfChunk));
  lines(cat("q = ", kPackedChunk, ";"));
  writer_.close(valid.empty() ? "" : cat("if (", valid, ")"));
  lines(cat("*(uint4*)(", target, ") = q;"));
}

}  // namespace worker
