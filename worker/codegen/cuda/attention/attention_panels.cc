#include "worker/codegen/cuda/attention/attention_panels.h"

#include <numeric>

#include "common/base/cat.h"
#include "common/base/divide_up.h"
#include "common/lowering/body/plain_read.h"

namespace worker {

using common::cat;
using common::Expr;

namespace {

constexpr int64_t kChunk = 8;           // elements of 16 bytes
constexpr int64_t kBankChunks = 8;      // 16 bytes each: all banks
constexpr int64_t kComputedUnroll = 2;  // chunks whose elements a loop computes in a step

}  // namespace

// Rows whose chunks are a multiple of only `group` banks' apart meet after 8 / group of them.
std::string CudaAttentionPanels::Panel::turn(const std::string& row) const {
  int64_t group = std::gcd(chunks(), kBankChunks);
  return cat("(", row, ") % 8 / ", kBankChunks / group);
}

bool CudaAttentionPanels::is_copied(const Panel& panel) const {
  return lies_in_runs(panel.node, panel.length, panel.at, panel.labels, kChunk);
}

void CudaAttentionPanels::load(const Panel& panel, const std::string& to, int64_t threads,
                               const Source& source) {
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
  std::string target =
      cat(to, " + row * ", panel.row_bytes(), " + ((chunk ^ ", panel.turn("row"), ") * 16)");
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

void CudaAttentionPanels::compute_chunk(const Panel& panel, const std::string& target,
                                        const std::vector<Expr>& at, const std::string& valid) {
  lines("uint4 q = make_uint4(0, 0, 0, 0);");
  writer_.open(!valid.empty());
  lines("uint16_t h[8];");
  writer_.open(false);
  Expr position = inner_index("chunk * 8 + y", panel.length);
  common::CodeValue x = emitter_.value(panel.node, panel.at(operands_, at, position));
  lines(cat("h[y] = ",
            panel.length % kChunk == 0
                ? x.text
                : cat("chunk * 8 + y < ", panel.length, " ? ", x.text, " : 0"),
            ";"));
  writer_.close(unrolled_loop("y", kChunk));
  lines(cat("q = ", kPackedChunk, ";"));
  writer_.close(valid.empty() ? "" : cat("if (", valid, ")"));
  lines(cat("*(uint4*)(", target, ") = q;"));
}

}  // namespace worker
