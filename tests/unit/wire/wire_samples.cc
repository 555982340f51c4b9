#include "wire_samples.h"

#include "common/base/cat.h"
#include "common/ir/hlir/builder.h"

namespace common {

LoopAttr sample_loop() {
  GraphBuilder body({{1, 64}});
  NodeId carry = body.input(InputKind::kUser, DType::kFloat32, {Expr::symbol(0), 4}, "carry");
  NodeId weight = body.input(InputKind::kUser, DType::kFloat32, {4}, "weight");
  body.output(body.binary(BinaryOp::kMul, carry, weight));
  body.output(body.reduce(ReduceOp::kSum, carry, {0, 1}));
  LoopAttr loop;
  loop.body = std::make_shared<const Graph>(body.finish());
  loop.trip_count = 3;
  loop.carried = 1;
  loop.per_iteration = 1;
  loop.outputs = 1;
  return loop;
}

Graph sample_graph() {
  GraphBuilder b({{1, 64}});
  Expr s = Expr::symbol(0);
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {s, 4}, "x");
  NodeId w = b.input(InputKind::kWeight, DType::kFloat32, {6, 4}, "w·ß");
  NodeId ids = b.input(InputKind::kUser, DType::kInt64, {s}, "ids");
  NodeId state = b.input(InputKind::kState, DType::kFloat32, {6, 4}, "cache");
  NodeId product =
      b.raw({Op::kContract, DType::kFloat32, {s, 6}, {x, w}, ContractAttr{{0, 1}, {2, 1}, {0, 2}}});
  NodeId soft = b.raw({Op::kSoftmax, DType::kFloat32, {s, 6}, {product}, SoftmaxAttr{1, true}});
  NodeId norm = b.raw({Op::kNorm, DType::kFloat32, {s, 6}, {soft}, NormAttr{1, false, 1e-5}});
  b.output(b.fourier(soft, norm, {true, true, 5}));
  NodeId padded = b.pad(norm, 0, 2, floor_div(s, 2) + min(s, 7), -1.5);
  NodeId flat = b.reshape(padded, {(s + floor_div(s, 2) + min(s, 7) + 2) * 6});
  b.output(b.scan(ScanOp::kLogSumExp, flat, 0));
  b.output(b.sort_indices(product, 1, true));
  Expr i1 = Expr::index(1);
  NodeId rows = b.gather(w, {b.reshape(ids, {s, 1})}, {s, 4}, {{0, 0}, {-1, i1}});
  b.mutate(3,
           b.scatter(ScatterMode::kMax, state, rows, {b.reshape(ids, {s, 1})}, {{0, 0}, {-1, i1}}));
  NodeId iota = b.cast(b.iota(DType::kInt32, s), DType::kFloat32);
  b.output(b.select(b.binary(BinaryOp::kLess, iota, b.full(DType::kFloat32, {s}, 3)),
                    b.unary(UnaryOp::kErfinv, iota), b.reduce(ReduceOp::kMax, x, {1})));
  Bytes table(3 * 4);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::byte>(i * 11);
  b.output(b.constant(DType::kFloat32, {3}, table));
  Node loop{Op::kLoop, DType::kFloat32, {}, {x}, sample_loop()};
  for (int k = 0; k < 3; ++k) {
    loop.operands.push_back(b.input(InputKind::kWeight, DType::kFloat32, {4}, cat("layer", k)));
  }
  NodeId last = b.raw(loop);
  b.output(b.raw({Op::kLoopResult, DType::kFloat32, {s, 4}, {last}, LoopResultAttr{0}}));
  b.output(b.raw({Op::kLoopResult, DType::kFloat32, {}, {last}, LoopResultAttr{2}}));
  return b.finish();
}

// Two parts with the nests that a GPU's loops have.
Kernel horizontal_kernel() {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {32, 16}, "");
  b.output(b.unary(UnaryOp::kExp, x));
  b.output(b.reduce(ReduceOp::kSum, x, {1}));
  LoopNest each, sums;
  each.shared = plain_band({32, 16});
  each.grid = 2;
  sums.shared = plain_band({32});
  sums.grid = 1;
  sums.threads = {64, 1, 1, 4, 2, true};
  sums.reductions.walked = {1};
  each.groups.resize(1);
  sums.groups.resize(1);
  return {Template::kHorizontal, {}, b.finish(), {}, {each, sums}};
}

// A template's, with sizes of all kinds.
Kernel tiled_kernel() {
  GraphBuilder b({{1, 64}});
  const Expr s = Expr::symbol(0);
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {3, s}, "");
  b.output(b.sort_indices(x, 1, true));
  Kernel kernel{Template::kSort, {}, b.finish(), {}};
  kernel.tiling = Tiling{"sort", {{"packed", 1}, {"places", 64}, {"splits", min(4, s)}}};
  return kernel;
}

Program sample_program() {
  GraphBuilder body({{1, 128}});
  Expr t = Expr::symbol(0);
  NodeId a = body.input(InputKind::kUser, DType::kFloat32, {t}, "");
  NodeId b = body.input(InputKind::kUser, DType::kFloat32, {t}, "");
  body.output(body.binary(BinaryOp::kAdd, a, b));
  Program program;
  Expr s = Expr::symbol(0);
  program.symbols = {{1, 64}};
  program.inputs = {{InputKind::kUser, DType::kFloat32, {2 * s}, "a"},
                    {InputKind::kWeight, DType::kFloat32, {2 * s}, "b"}};
  program.outputs = {{OutputKind::kUser, -1, -1}};
  program.buffers = {{BufferKind::kInput, 0, DType::kFloat32, {2 * s}},
                     {BufferKind::kInput, 1, DType::kFloat32, {2 * s}},
                     {BufferKind::kTemporary, 0, DType::kFloat32, {2 * s}},
                     {BufferKind::kOutput, 0, DType::kFloat32, {2 * s}}};
  program.kernels = {{Template::kLoops, {{"unroll", 4}, {"vector", 8}}, body.finish(), {}}};
  // All that a nest can say of such a body.
  LoopNest nest;
  nest.shared = plain_band({t});
  nest.groups = {{{}, AccumulatorBlock{0, 64}}};
  nest.blocks_in_grid = true;
  nest.reductions.staged = {0, 2};
  nest.simd = 8;
  nest.unroll = 4;
  nest.dot_products = true;
  nest.threads = {64, 2, 1, 4, 1, true};
  program.kernels[0].nest = std::move(nest);
  program.kernels.push_back(horizontal_kernel());
  program.kernels.push_back(tiled_kernel());
  program.calls = {{0, {0, 1}, {2}, {2 * s}}, {0, {2, 1}, {3}, {2 * s}}};
  return program;
}

PlanKernel sample_code(int object) {
  PlanKernel kernel;
  kernel.fingerprint = digest_of(cat("kernel", object));
  kernel.object = object;
  kernel.entry.name = cat("kernel_", object);
  kernel.entry.block = {256, 8, 4096};
  kernel.entry.waits = true;
  kernel.entry.maps = {{0, DType::kBfloat16, 128, Expr(8), {{Expr(64), 1, 64}, {3, 64, 128}}}};
  kernel.entry.units = floor_div(Expr::symbol(0) + 63, 64);
  kernel.entry.scratch_bytes = 4 * Expr::symbol(0);
  kernel.in_place_inputs = {1};
  kernel.predicted_ns = 900;
  kernel.measured_ns = 1100;
  return kernel;
}

PlanKernel sample_gemm() {
  PlanKernel kernel;
  kernel.fingerprint = digest_of("gemm");
  kernel.library = true;
  kernel.algorithm = 5;
  kernel.gemm.m = Expr::symbol(0);
  kernel.gemm.n = 16;
  kernel.gemm.k = 8;
  kernel.gemm.a = {0, 0, 8, 1};
  kernel.gemm.b = {4 * Expr::symbol(0), 0, 16, 1};
  kernel.gemm.out = {0, 0, 16, 1};
  return kernel;
}

Plan sample_plan() {
  Program program = sample_program();
  Plan plan;
  plan.key = {digest_of("graph"), {"cpu-x86_64-avx512"}, "strict", "1"};
  plan.symbols = program.symbols;
  plan.inputs = program.inputs;
  plan.outputs = program.outputs;
  plan.buffers = program.buffers;
  plan.calls = program.calls;
  plan.calls[1].kernel = 1;
  plan.objects = {digest_of("object")};
  plan.kernels = {sample_code(0), sample_gemm()};
  plan.provenance = {.best_ns = 1200,
                     .baseline_ns = 3400,
                     .speedup = {2.48, 2.41, 2.53},
                     .disturbed = 0.25,
                     .prediction = {1100, "measured", 0.75, 0.5, 412},
                     .search = {57, 9, 64, 8'000, true},
                     .created_ns = 1'700'000'000'000'000'000,
                     .farm = "farm-1",
                     .worker = "worker-7",
                     .machine = "AMD EPYC 7763, L2 512 KiB, L3 32 MiB, 2 threads",
                     .toolchain = "clang 14",
                     .second_worker = "worker-8",
                     .tenant = "team-a",
                     .submitter = "0123456789ab",
                     .origin = {digest_of("origin"), {}, "farm-2", "0"}};
  plan.provenance.origin.signer.fill(std::byte{3});
  return plan;
}

TaskPayload sample_payload() {
  TaskPayload payload;
  payload.kind = TaskKind::kFinalist;
  payload.graph = digest_of("graph");
  payload.program = sample_program();
  payload.verify.sizes = {{32}, {1}, {64}};
  payload.verify.seeds = {7, UINT64_MAX};
  payload.measure.give_up_ns = 5'000'000;
  payload.measure.threads = 4;
  payload.verify.always = 2;
  payload.measure.sizes = {{{32}, 0.75}, {{64}, 0.25}};
  payload.rivals = {sample_program()};
  return payload;
}

TaskReport sample_report() {
  TaskReport report;
  report.kernels = {sample_code(0), sample_gemm(), sample_code(1)};
  report.objects = {digest_of("a"), digest_of("b")};
  report.kernel_ns = {100, 200, 300};
  report.total_ns = 620;
  report.spread_ns = 15;
  report.runs = 10;
  report.compile_ms = 12.5;
  report.kernels_compiled = 1;
  report.max_error = 3e-7;
  report.detail = "vectorised";
  report.rivals = {{250, 10, 2.48, 2.41, 2.53}};
  report.disturbed = 0.25;
  report.pace = 1.02;
  report.toolchain = "clang 14";
  return report;
}

}  // namespace common
