#include "worker/codegen/cuda/attention/attention_warpgroups.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/base/check.h"
#include "common/lowering/body/function_body.h"
#include "worker/codegen/cuda/attention/attention_scores.h"

namespace worker {

using common::AttentionMap;
using common::cat;
using common::DType;
using common::Expr;
using common::GpuFunction;
using common::HalfAttention;
using common::Result;
using common::WarpgroupAttentionTiling;

namespace {

constexpr int64_t kWarp = 32, kGroupThreads = 128, kGroupRows = 64;
constexpr int64_t kStages = 2;
// Of a thread, where two warpgroups multiply and one copies: three have 168 each.
constexpr int64_t kCopyRegisters = 24, kMultiplyRegisters = 240;
constexpr int64_t kPattern = 1024;  // eight rows of 128 bytes, which are permuted alike
constexpr int64_t kBarrierBytes = 8;
constexpr int64_t kStep = 16;  // of k, that one product takes

// Each of two stages of keys and of values has two barriers: `full` counts the bytes that come,
// `empty` the warps that have multiplied them.
class WarpgroupAttention final : public CudaAttentionScores {
 public:
  WarpgroupAttention(const HalfAttention& attention, const WarpgroupAttentionTiling& tiling)
      : CudaAttentionScores(attention, {tiling.rows, tiling.keys, 1}),
        groups_(tiling.rows / kGroupRows) {
    for (Panel* panel : {&queries_, &keys_, &values_}) panel->in_groups = true;
  }

  Result<GpuFunction> run() {
    auto keys = common::attention_map(body_, form_, keys_, keys_.rows);
    auto values = common::attention_map(body_, form_, values_, values_.rows);
    LFARM_CHECK(keys && values, "verified");
    key_map_ = *std::move(keys);
    value_map_ = *std::move(values);
    GpuFunction function;
    function.block.threads = static_cast<int>(threads() + kGroupThreads);
    function.block.shared_bytes = declare_shared(writer_, shared_bytes(), kPattern);
    Expr units = begin();
    declare_memory();
    // Copies of queries are under way while the block's keys are found; computed ones wait until
    // the first keys are.
    if (is_copied(queries_)) load_queries();
    begin_barriers();
    if (!find_range(limits_at())) lines("__syncthreads();");
    // Shuffles tell the compiler that all lanes take the same steps, between which products may
    // run.
    if (is_limited_) {
      for (const char* x : {"lo", "hi", "from", "until"}) {
        lines(cat(x, " = __shfl_sync(0xffffffffu, ", x, ", 0);"));
      }
    }
    find_inner_blocks(0);
    lines(cat("const int steps = hi > lo ? (hi - lo + ", block_.keys - 1, ") / ", block_.keys,
              " : 0;\nint n0 = ", is_whole_ ? "lo" : "end < hi ? end : lo", ";"));
    produce();
    if (!is_copied(queries_)) load_queries();
    meet_queries();
    consume();
    store(true);
    LFARM_RETURN_IF_ERROR(emitter_.status());
    if (!flows_) return common::unsupported("an output mixes elements of the attention");
    function.maps = {key_map_.map, value_map_.map};
    function.body = finish_body(writer_, units, emitter_.scratch());
    return function;
  }

 private:
  // ---- shared memory: queries, stages of keys, stages of values, barriers, limits
  int64_t keys_at() const { return queries_.bytes(); }
  int64_t values_at() const { return keys_at() + kStages * keys_.bytes(); }
  int64_t barriers_at() const {
    int64_t results = 4 * block_.rows * (values_.padded() + 8);
    int64_t bytes = std::max(values_at() + kStages * values_.bytes(), results);
    return (bytes + kPattern - 1) / kPattern * kPattern;
  }
  int64_t limits_at() const { return barriers_at() + (4 * kStages + groups_ + 1) * kBarrierBytes; }
  int64_t shared_bytes() const { return barriers_at() + kPattern; }

  void declare_memory() {
    lines(
        cat("unsigned char* const queries = memory;\nuint64_t* const full_keys = "
            "(uint64_t*)(memory + ",
            barriers_at(), "), * const empty_keys = full_keys + ", kStages,
            ", * const full_values = empty_keys + ", kStages,
            ", * const empty_values = full_values + ", kStages, ", * const turns = empty_values + ",
            kStages, ", * const ready = turns + ", groups_, ";"));
  }

  void begin_barriers() {
    lines(cat("if (tid == ", threads(), ") {\n", unrolled_loop("i", kStages),
              " {\nlf_barrier_init(full_keys + i, 1);\nlf_barrier_init(full_values + i, 1);\n"
              "lf_barrier_init(empty_keys + i, ",
              block_.warps(), ");\nlf_barrier_init(empty_values + i, ", block_.warps(), ");\n}\n",
              unrolled_loop("i", groups_), " lf_barrier_init(turns + i, ", kGroupThreads / kWarp,
              ");\nlf_barrier_init(ready, ", block_.warps(), ");\nlf_barrier_fence();\n}"));
  }

  void load_queries() {
    writer_.open(true);
    Source source{[this](const std::string& row) { return row_labels(row); }, ""};
    load(queries_, "queries", threads(), source);
    lines("lf_cp_async_commit();");
    writer_.close(cat("if (tid < ", threads(), ")"));
  }
  // Of the threads that multiply.
  void meet_queries() {
    lines(
        "lf_cp_async_wait<0>();\nlf_fence_async();\n__syncwarp();\n"
        "if (lane == 0) lf_barrier_arrive(ready);\nlf_barrier_wait(ready, 0);");
  }

  // The blocks of keys in turn: those behind the inner ones, those before them, the inner ones.
  std::string next_keys() const {
    std::string next = cat("n0 += ", block_.keys, ";");
    return is_whole_ ? next : cat(next, "\nif (n0 >= hi) n0 = lo;");
  }

  // ---- the warpgroup that copies, by one thread
  void produce() {
    writer_.open(true);
    if (groups_ == 2) lines(cat("lf_fewer_registers<", kCopyRegisters, ">();"));
    writer_.open(true);
    writer_.open(true);
    lines("const int slot = step % 2, parity = step / 2 % 2;");
    copy("keys", keys_, key_map_, 0);
    copy("values", values_, value_map_, 1);
    lines(next_keys());
    writer_.close("for (int step = 0; step < steps; ++step)");
    writer_.close(cat("if (tid == ", threads(), ")"));
    lines("return;");
    writer_.close(cat("if (tid >= ", threads(), ")"));
  }

  void copy(const char* name, const Panel& panel, const AttentionMap& map, int number) {
    lines(cat("if (step >= ", kStages, ") lf_barrier_wait(empty_", name,
              " + slot, parity ^ 1);\nlf_barrier_expect(full_", name, " + slot, ", panel.bytes(),
              ");"));
    std::string batch;
    for (size_t label : map.labels) {
      batch += cat(", (int)(", writer_.text(operands_.batch()[label]), ")");
    }
    const int64_t first = number == 0 ? keys_at() : values_at();
    for (int64_t group = 0; group < panel.groups(); ++group) {
      lines(cat("lf_copy_box(memory + ", first + group * panel.group_bytes(), " + slot * ",
                panel.bytes(), ", &map", number, ", full_", name, " + slot, ",
                group * kGroupBytes / 2, ", n0", batch, ");"));
    }
  }

  // ---- the warpgroups that multiply
  void consume() {
    if (groups_ == 2) lines(cat("lf_more_registers<", kMultiplyRegisters, ">();"));
    lines(cat("const int group = __shfl_sync(0xffffffffu, tid / ", kGroupThreads, ", 0);"));
    declare_sums();
    std::string size = cat("[", block_.keys / kStep, "][4]");
    lines(cat("uint32_t weights", size, splits_ ? cat(", rests", size) : "",
              ";\nconst uint64_t query_rows = lf_matrix(queries + group * ",
              kGroupRows * kGroupBytes, ", 16, ", kPattern, ", ", kGroupBytes,
              "), key_rows = lf_matrix(memory + ", keys_at(), ", 16, ", kPattern, ", ", kGroupBytes,
              "), value_rows = lf_matrix(memory + ", values_at(), ", ", values_.group_bytes(), ", ",
              kPattern, ", ", kGroupBytes, ");"));
    writer_.open(true);
    begin_keys();
    lines("int step = 1;");
    if (!is_whole_) {
      next_step(false);
      writer_.close(cat("for (const int inner = steps - (end - begin) / ", block_.keys,
                        "; step < inner; ++step)"));
    }
    next_step(true);
    writer_.close("for (; step < steps; ++step)");
    lines("const int slot = (steps - 1) % 2;");
    wait_full("values", "slot", "(steps - 1) / 2 % 2");
    lines("lf_wgmma_fence();");
    multiply_values("slot");
    lines("lf_wgmma_commit();\nlf_wgmma_wait<0>();\nlf_wgmma_done(sums);");
    writer_.close("if (steps > 0)");
  }

  void wait_full(const char* name, const char* slot, const char* parity) {
    lines(cat("lf_barrier_wait(full_", name, " + ", slot, ", ", parity, ");"));
  }
  void release(const char* name, const char* slot) {
    lines(cat("if (lane == 0) lf_barrier_arrive(empty_", name, " + ", slot, ");"));
  }
  std::string flat(const char* name, int64_t count) const {
    return cat("float(&", name, "s)[", count, "] = *(float(*)[", count, "])", name, ";");
  }

  // The first step, which has no products before it.
  void begin_keys() {
    lines(flat("sum", width_tiles() * 4));
    writer_.open(false);
    wait_full("keys", "0", "0");
    lines(cat("float dot[1][", key_tiles(), "][4];\n", flat("dot", key_tiles() * 4),
              "\nlf_wgmma_fence();"));
    multiply_keys("0");
    lines("lf_wgmma_commit();\nlf_wgmma_wait<0>();\nlf_wgmma_done(dots);");
    release("keys", "0");
    weigh(Pass::kOnline, is_whole_);
    pack();
    writer_.close("");
  }

  // Opens the scope of a loop over steps: the scores of a step, then the former step's values.
  void next_step(bool inside) {
    writer_.open(true);
    lines(cat("const int slot = step % 2, former = slot ^ 1;\n", next_keys(), "\nfloat dot[1][",
              key_tiles(), "][4];\n", flat("dot", key_tiles() * 4)));
    wait_full("keys", "slot", "step / 2 % 2");
    // Of two warpgroups one begins its products while the other computes exponentials.
    if (groups_ == 2) {
      lines("if (step + group > 1) lf_barrier_wait(turns + group, (step + group) % 2);");
    }
    lines("lf_wgmma_fence();");
    multiply_keys("slot");
    lines("lf_wgmma_commit();");
    wait_full("values", "former", "(step - 1) / 2 % 2");
    multiply_values("former");
    lines("lf_wgmma_commit();");
    if (groups_ == 2) lines("if (lane == 0) lf_barrier_arrive(turns + (group ^ 1));");
    lines("lf_wgmma_wait<1>();\nlf_wgmma_done(dots);");
    release("keys", "slot");
    weigh(Pass::kOnline, inside);
    lines("lf_wgmma_wait<0>();\nlf_wgmma_done(sums);");
    release("values", "former");
    turn_sums();
    pack();
  }

  static std::string product(DType type) {
    return type == DType::kFloat16 ? "lf_wgmma_f16" : "lf_wgmma_bf16";
  }

  // Rows of k lie in groups of 64.
  void multiply_keys(const char* slot) {
    const std::string name = product(body_.node(operands_.queries()).dtype);
    auto at = [](const Panel& panel, int64_t k) {
      return (k * kStep * 2 / kGroupBytes * panel.group_bytes() + k * kStep * 2 % kGroupBytes) / 16;
    };
    for (int64_t k = 0; k < queries_.padded() / kStep; ++k) {
      lines(cat(name, "<0, 0, ", k == 0 ? 0 : 1, ">(dots, query_rows + ", at(queries_, k),
                ", key_rows + ", slot, " * ", keys_.bytes() / 16, " + ", at(keys_, k), ");"));
    }
  }

  void multiply_values(const char* slot) {
    const std::string name = cat(product(dtype_), "_registers<1>(sums, ");
    for (int64_t k = 0; k < block_.keys / kStep; ++k) {
      for (bool is_rest : {false, true}) {
        if (is_rest && !splits_) continue;
        lines(cat(name, is_rest ? "rests" : "weights", "[", k, "], value_rows + ", slot, " * ",
                  values_.bytes() / 16, " + ", k * kStep * kGroupBytes / 16, ");"));
      }
    }
  }

  // Keeps the step's probabilities until they are multiplied.
  void pack() {
    writer_.open(false);
    lines(packed());
    lines(cat(unrolled_loop("e", 4), " weights[k][e] = a[0][e]",
              splits_ ? ", rests[k][e] = rest[0][e];" : ";"));
    writer_.close(unrolled_loop("k", block_.keys / kStep));
  }

  int64_t groups_;
  AttentionMap key_map_, value_map_;
};

}  // namespace

Result<GpuFunction> emit_cuda_attention_warpgroups(const HalfAttention& attention,
                                                   const WarpgroupAttentionTiling& tiling) {
  LFARM_RETURN_IF_ERROR(common::verify(tiling, attention));
  return WarpgroupAttention(attention, tiling).run();
}

}  // namespace worker
