#include "common/schedule/kernels/tiled_product.h"

#include <algorithm>
#include <utility>

#include "common/ir/expr/index.h"
#include "common/ir/hlir/attention_form.h"
#include "common/ir/llir/grouped_form.h"
#include "common/ir/nest/lower_structure.h"
#include "common/ir/tiled/grouped_loops.h"
#include "common/ir/tiled/softmax_blocks.h"
#include "common/lowering/body/contraction.h"
#include "common/schedule/attention/decode_attention.h"
#include "common/schedule/attention/decode_blocks.h"
#include "common/schedule/attention/flash_attention.h"
#include "common/schedule/attention/skinny_attention.h"
#include "common/schedule/attention/threads_attention.h"
#include "common/schedule/grouped_blocks.h"
#include "common/schedule/kernels/attention_tiling.h"
#include "common/schedule/kernels/register_tiling.h"
#include "common/schedule/products/mma_tiling.h"
#include "common/schedule/products/skinny_tiling.h"
#include "common/schedule/products/thread_tiling.h"
#include "common/schedule/products/warpgroup_tiling.h"
#include "common/schedule/template_fit.h"

namespace common {
namespace {

// Of an instruction of tensor cores: mma.sync m16n8k16, and wgmma's k.
constexpr int64_t kMmaRows = 16, kMmaColumns = 8, kMmaDepth = 16;

ProductLoops loops_of(const MmaTiling& t) {
  return {
      {t.rows, t.tall, kMmaRows}, {t.columns, t.wide, kMmaColumns}, {t.depth, kMmaDepth}, t.splits};
}
ProductLoops loops_of(const ThreadTiling& t) {
  return {{t.rows, t.tall}, {t.columns, t.wide}, {t.depth}, t.splits};
}
ProductLoops loops_of(const WarpgroupTiling& t) {
  return {{t.rows, kWarpgroupRows}, {t.columns}, {kWarpgroupDepth, kMmaDepth}, t.splits};
}
ProductLoops loops_of(const SkinnyTiling& t, const Contraction& product) {
  const SkinnyReads reads = skinny_reads(product);
  const std::vector<int64_t> few = {reads.few_count}, many = {t.rows};
  const bool few_rows = reads.few == Side::kLeft;
  return {few_rows ? few : many, few_rows ? many : few, {t.step(reads)}, t.splits};
}
ProductLoops loops_of(const RegisterTiling& t, const Contraction& product, const VectorUnit& unit) {
  const int64_t step = tile_steps(product, unit).length;
  ProductLoops loops{{t.group, t.mc, t.mr}, {t.nc, t.nr}, {t.kc * step, step}, 1};
  loops.rows_outermost = t.rows_outermost;
  return loops;
}

template <class T>
std::optional<T> read_as(const Tiling& tiling) {
  if (tiling.form != T::kForm) return std::nullopt;
  auto read = from_tiling<T>(tiling);
  return read.ok() ? std::optional<T>(*read) : std::nullopt;
}

std::optional<ProductLoops> block_loops(const Tiling& tiling) {
  if (auto t = read_as<MmaTiling>(tiling)) return loops_of(*t);
  if (auto t = read_as<ThreadTiling>(tiling)) return loops_of(*t);
  if (auto t = read_as<WarpgroupTiling>(tiling)) return loops_of(*t);
  return std::nullopt;
}

std::optional<ProductLoops> product_loops(const Tiling& tiling, const Contraction& product,
                                          const NestMachine& machine) {
  if (auto loops = block_loops(tiling)) return loops;
  if (auto t = read_as<SkinnyTiling>(tiling)) return loops_of(*t, product);
  if (auto t = read_as<RegisterTiling>(tiling)) return loops_of(*t, product, machine.unit);
  return std::nullopt;
}

// Rows, and keys of a step.
std::optional<ProductLoops> attention_loops(const Tiling& tiling) {
  ProductLoops loops;
  if (auto t = read_as<AttentionTiling>(tiling)) {
    loops.rows = {t->rows};
    loops.depth = {t->keys};
  } else if (auto t = read_as<FlashAttentionTiling>(tiling)) {
    loops.rows = {t->rows, kMmaRows * t->tiles};
    loops.depth = {t->keys, kMmaDepth};
    loops.one_row_label = t->one_label;
  } else if (auto t = read_as<WarpgroupAttentionTiling>(tiling)) {
    loops.rows = {t->rows, kWarpgroupRows};
    loops.depth = {t->keys, kMmaDepth};
    loops.one_row_label = t->one_label;
  } else if (auto t = read_as<ThreadsAttentionTiling>(tiling)) {
    loops.rows = {t->rows};
    loops.depth = {t->keys};
  } else if (auto t = read_as<DecodeAttentionTiling>(tiling)) {
    loops.rows = {kFewRows};
    loops.depth = {t->warps * kDecodeWarpKeys, kDecodeWarpKeys};
    loops.parts = t->splits;
  } else if (auto t = read_as<SkinnyAttentionTiling>(tiling)) {
    loops.rows = {kFewRows};
    loops.depth = {t->threads / t->group * t->ahead, t->ahead};
    loops.parts = t->splits;
  } else {
    return std::nullopt;
  }
  return loops;
}

std::optional<TiledProduct> tiled_attention(const Kernel& kernel) {
  auto form = attention_form(kernel.body);
  auto loops = attention_loops(*kernel.tiling);
  if (!form || !loops) return std::nullopt;
  const Expr width = form->size(form->columns);
  if (!width.is_constant()) return std::nullopt;
  loops->columns = {std::max<int64_t>(width.constant(), 1)};
  // Where the product's last axis is one of the rows, these are the columns of the TileProblem.
  const TileProblem problem = tile_problem(kernel.body, kernel.body.node(form->product));
  if (!std::is_permutation(problem.m.begin(), problem.m.end(), form->rows.begin(),
                           form->rows.end())) {
    if (loops->one_row_label) return std::nullopt;
    std::swap(loops->rows, loops->columns);
  }
  RewrittenBody rewritten =
      with_softmax_in_blocks(kernel.body, form->softmax, loops->depth[0], loops->parts);
  const NodeId product = rewritten.node_of[at(form->product)];
  return TiledProduct{std::move(rewritten.body), {product}, *std::move(loops), {}};
}

// Of two products one after the other.
std::optional<TiledProduct> tiled_pair(const Graph& body, const Tiling& tiling) {
  auto pair = paired_products(body);
  auto t = read_as<WarpgroupTiling>(tiling);
  if (!pair || !t) return std::nullopt;
  return TiledProduct{std::move(pair->body), {pair->first, pair->second}, loops_of(*t), {}};
}

std::optional<TiledProduct> tiled_groups(Graph body, NodeId product, const Tiling& tiling) {
  auto form = grouped_form(body, product);
  auto loops = block_loops(tiling);
  if (!form || !loops) return std::nullopt;
  const Expr span = grouped_span(group_product(body, *form).rows, loops->rows[0]);
  loops->rows = {1};
  return TiledProduct{std::move(body), {product}, *std::move(loops), span};
}

}  // namespace

LoopedNodes TiledProduct::looped() const {
  if (!span) return looped_products(body, products, loops);
  return looped_groups(body, *grouped_form(body, products[0]), {*span, loops});
}

std::optional<TiledProduct> tiled_product(const Kernel& kernel, const NestMachine& machine) {
  if (!kernel.tiling) return std::nullopt;
  if (kernel.form == Template::kAttention) return tiled_attention(kernel);
  if (kernel.form != Template::kTile) return std::nullopt;
  Graph body = lower_structure(kernel.body, Kept::kContractions);
  const NodeId id = only_contraction(body);
  if (id < 0) return tiled_pair(body, *kernel.tiling);
  if (has_row_order(body.node(id))) return tiled_groups(std::move(body), id, *kernel.tiling);
  auto loops = product_loops(*kernel.tiling, Contraction(body, id), machine);
  if (!loops) return std::nullopt;
  return TiledProduct{std::move(body), {id}, *std::move(loops), {}};
}

}  // namespace common
