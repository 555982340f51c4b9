// Goal: any acyclic body gives correct code, whatever it fuses.
// Method: random bodies over every kind of node that loops hold, compiled in batches and compared
// with the reference interpreter on random inputs. LFARM_FUZZ_SEED=n repeats one batch,
// LFARM_FUZZ_ROUNDS=n runs more.
#include "codegen_testing.h"
#include "common/ir/nest/transformations.h"
#include "common/lowering/loops/cpu_loops.h"
#include "common/lowering/loops/gpu_loops.h"
#include "convolution_case.h"

namespace testing_codegen {
namespace {

class BodyFuzzer {
 public:
  explicit BodyFuzzer(uint64_t seed) : random_(seed) {}

  // Adds one random kernel to the batch.
  void add(KernelBatch& batch) {
    symbolic_ = random_.chance(0.4);
    GraphBuilder b(symbolic_ ? std::vector<SymbolRange>{{0, 64}, {1, 64}}
                             : std::vector<SymbolRange>{});
    symbols_ = {static_cast<int64_t>(random_.below(7)),
                1 + static_cast<int64_t>(random_.below(40))};
    nodes_.clear();
    std::vector<HostTensor> inputs;
    size_t count = 1 + random_.below(3);
    for (size_t k = 0; k < count; ++k) {
      DType dtype = pick({DType::kFloat32, DType::kFloat32, DType::kFloat32, DType::kBfloat16,
                          DType::kInt32, DType::kInt64, DType::kBool, DType::kFloat64});
      Shape shape = random_shape();
      nodes_.push_back(b.input(InputKind::kUser, dtype, shape, "x"));
      inputs.push_back(random_tensor(random_, dtype, evaluate_shape(shape, symbols_), -2, 3));
    }
    if (symbolic_) {  // declares both symbols' values
      nodes_.push_back(
          b.input(InputKind::kUser, DType::kFloat32, {Expr::symbol(0), Expr::symbol(1)}, "s"));
      inputs.push_back(random_tensor(random_, DType::kFloat32, symbols_, -2, 3));
    }
    size_t steps = 1 + random_.below(9);
    for (size_t k = 0; k < steps; ++k) grow(b);
    b.output(nodes_.back());
    if (random_.chance(0.4)) b.output(nodes_[random_.below(nodes_.size())]);
    Schedule schedule;
    for (const ScheduleChoice& c : schedule_parameters(Template::kLoops)) {
      schedule.push_back({std::string(c.name), c.values[random_.below(c.values.size())]});
    }
    batch.add(Template::kLoops, schedule, b.finish(), std::move(inputs));
  }

 private:
  template <class T>
  T pick(std::initializer_list<T> values) {
    return *(values.begin() + random_.below(values.size()));
  }
  NodeId some() { return nodes_[random_.below(nodes_.size())]; }

  Shape random_shape() {
    Shape shape;
    size_t rank = random_.below(4);
    for (size_t k = 0; k < rank; ++k) {
      if (symbolic_ && random_.chance(0.4)) {
        shape.push_back(Expr::symbol(static_cast<int>(random_.below(2))));
      } else {
        shape.push_back(pick<int64_t>({1, 2, 3, 5, 8, 17, 40}));
      }
    }
    return shape;
  }

  // A node of arithmetic dtype made from `x`.
  NodeId computable(GraphBuilder& b, NodeId x, DType wanted) { return b.cast(x, wanted); }

  void grow(GraphBuilder& b) {
    NodeId x = some();
    switch (random_.below(11)) {
      case 0:
        nodes_.push_back(b.unary(pick({UnaryOp::kTanh, UnaryOp::kNeg, UnaryOp::kAbs,
                                       UnaryOp::kSigmoid, UnaryOp::kFloor, UnaryOp::kErf}),
                                 computable(b, x, DType::kFloat32)));
        return;
      case 1:
      case 2: {
        NodeId y = some();
        if (!b.broadcast(b.shape(x), b.shape(y))) y = x;
        DType dtype = pick({DType::kFloat32, DType::kFloat32, DType::kFloat64, DType::kInt32});
        nodes_.push_back(b.binary(
            pick({BinaryOp::kAdd, BinaryOp::kSub, BinaryOp::kMin, BinaryOp::kMax, BinaryOp::kMul}),
            small(b, x, dtype), small(b, y, dtype)));
        return;
      }
      case 3: {
        NodeId y = some();
        if (!b.broadcast(b.shape(x), b.shape(y))) y = x;
        NodeId c = b.binary(BinaryOp::kLess, computable(b, x, DType::kInt32),
                            computable(b, y, DType::kInt32));
        nodes_.push_back(b.select(c, small(b, x, DType::kFloat32), small(b, y, DType::kFloat32)));
        return;
      }
      case 4:
        nodes_.push_back(b.cast(x, pick({DType::kBfloat16, DType::kFloat16, DType::kInt64,
                                         DType::kFloat32, DType::kBool})));
        return;
      case 5:
        reduce(b, x);
        return;
      case 6:
        gather(b, x);
        return;
      case 7:
        if (b.rank(x) == 0) return;
        nodes_.push_back(
            b.raw({Op::kSoftmax,
                   DType::kFloat32,
                   b.shape(x),
                   {small(b, x, DType::kFloat32)},
                   SoftmaxAttr{static_cast<int>(random_.below(static_cast<uint64_t>(b.rank(x)))),
                               random_.chance(0.3)}}));
        return;
      case 8:
        // Integers below 7, so that more than one word and counter are asked for.
        x = small(b, x, DType::kInt64);
        nodes_.push_back(b.philox(pick({DType::kInt64, DType::kFloat32}), x,
                                  b.scalar_int(DType::kInt64, 5), x, x));
        return;
      default:
        view(b, x);
    }
  }

  // The values stay small, so that no path overflows an integer or loses all digits.
  NodeId small(GraphBuilder& b, NodeId x, DType dtype) {
    if (is_float(dtype)) return b.unary(UnaryOp::kSin, b.cast(x, dtype));
    NodeId wide = b.cast(x, DType::kInt32);
    return b.cast(b.binary(BinaryOp::kMod, wide, b.scalar_int(DType::kInt32, 7)), dtype);
  }

  void reduce(GraphBuilder& b, NodeId x) {
    std::vector<int> axes;
    for (int k = 0; k < b.rank(x); ++k) {
      if (random_.chance(0.5)) axes.push_back(k);
    }
    if (axes.empty()) return;
    ReduceOp op = pick({ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kSum,
                        ReduceOp::kArgmax, ReduceOp::kAny});
    if (op == ReduceOp::kArgmax) axes.resize(1);
    DType dtype = op == ReduceOp::kAny ? DType::kBool : pick({DType::kFloat32, DType::kInt32});
    // Distinct integers: float ties after rounding would make arg reductions ambiguous.
    if (op == ReduceOp::kArgmax) dtype = DType::kInt32;
    NodeId operand = op == ReduceOp::kAny ? b.cast(x, dtype) : small(b, x, dtype);
    nodes_.push_back(b.reduce(op, operand, axes, random_.chance(0.5)));
  }

  void gather(GraphBuilder& b, NodeId x) {
    if (b.rank(x) == 0) return;
    for (const Expr& size : b.shape(x)) {
      if (b.bounds().lower(size) < 1) return;  // nothing to gather from
    }
    NodeId index = some();
    Shape shape = b.shape(index);
    std::vector<Coordinate> coordinates;
    for (int k = 0; k < b.rank(x); ++k) {
      if (k > 0 && random_.chance(0.5)) {
        coordinates.push_back({-1, Expr(0)});
      } else {
        coordinates.push_back({0, 0});
      }
    }
    nodes_.push_back(b.gather(x, {small(b, index, DType::kInt32)}, shape, coordinates));
  }

  void view(GraphBuilder& b, NodeId x) {
    int rank = b.rank(x);
    if (rank == 0) {
      nodes_.push_back(b.expand(x, random_shape()));
      return;
    }
    int axis = static_cast<int>(random_.below(static_cast<uint64_t>(rank)));
    const Expr size = b.shape(x)[static_cast<size_t>(axis)];
    switch (random_.below(7)) {
      case 0: {
        std::vector<int> order(static_cast<size_t>(rank));
        for (int k = 0; k < rank; ++k) order[static_cast<size_t>(k)] = (k + axis + 1) % rank;
        nodes_.push_back(b.permute(x, order));
        return;
      }
      case 1:
        nodes_.push_back(b.pad(x, axis, pick<int64_t>({0, 1, 2}), pick<int64_t>({0, 1, 3}),
                               b.dtype(x) == DType::kBool ? 1 : 0.5));
        return;
      case 2:  // reversed
        nodes_.push_back(b.view(x, view_slice(b.shape(x), axis, size - 1, size, -1)));
        return;
      case 3:
        nodes_.push_back(b.unsqueeze(x, axis));
        return;
      case 4:
        nodes_.push_back(b.reshape(x, {element_count(b.shape(x))}));
        return;
      case 5:
        nodes_.push_back(b.concat({x, x}, axis));
        return;
      default:
        if (size.is_constant() && size.constant() >= 3) {
          nodes_.push_back(
              b.view(x, view_unfold(b.shape(x), axis, Expr((size.constant() - 3) / 2 + 1), 3, 2)));
        }
    }
  }

  Random random_;
  bool symbolic_ = false;
  std::vector<int64_t> symbols_;
  std::vector<NodeId> nodes_;
};

// Batches of 100 random kernels from seed `first` on: `prepare(seed, batch)` may change them before
// they are compiled.
template <class Prepare>
void check_batches(uint64_t first, Prepare prepare) {
  const char* given = std::getenv("LFARM_FUZZ_SEED");
  const char* rounds = std::getenv("LFARM_FUZZ_ROUNDS");
  if (given != nullptr) first = std::strtoull(given, nullptr, 10);
  uint64_t count = rounds != nullptr ? std::strtoull(rounds, nullptr, 10) : 4;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    KernelBatch batch;
    BodyFuzzer fuzzer(seed);
    for (int k = 0; k < 100; ++k) fuzzer.add(batch);
    prepare(seed, batch);
    batch.compile();
    ASSERT_FALSE(::testing::Test::HasFatalFailure()) << "LFARM_FUZZ_SEED=" << seed;
    for (size_t k = 0; k < batch.size(); ++k) {
      batch.check(k, 2e-5);
      batch.check(k, 2e-5, 3);
      ASSERT_FALSE(::testing::Test::HasFailure())
          << "repeat with LFARM_FUZZ_SEED=" << seed << " (kernel " << k
          << ") tests/test_codegen_fuzz";
    }
  }
}

// Goal: windows that the copy engine brings are those of the body, whatever their sizes.
// Method: random convolutions with random blocks for compute capability 9.0a.
ConvolutionCase random_convolution(Random& random) {
  auto below = [&](uint64_t count) { return static_cast<int64_t>(random.below(count)); };
  ConvolutionCase c;
  c.axes.resize(static_cast<size_t>(1 + below(3)));
  for (ConvolutionCase::Axis& axis : c.axes) {
    axis.taps = 1 + below(4);
    axis.stride = 1 + below(3);
    axis.dilation = 1 + below(3);
    axis.padding = below(4);
    axis.behind = below(4);
    const int64_t reach = axis.dilation * (axis.taps - 1) + 1;
    axis.size = std::max<int64_t>(1, reach - axis.padding - axis.behind) + below(9);
  }
  c.dtype = random.chance(0.5) ? DType::kBfloat16 : DType::kFloat16;
  c.images = below(4);
  c.channels = 8 * (1 + below(12));
  c.columns = 8 * (3 + below(12));
  c.weight_across = random.chance(0.5);
  c.has_epilogue = random.chance(0.5);
  c.is_symbolic = c.images > 0 && random.chance(0.3);
  return c;
}

TEST(CodegenFuzz, RandomConvolutions) {
  if (!runs_on_gpu()) GTEST_SKIP() << "a CPU has no copy engine";
  const char* rounds = std::getenv("LFARM_FUZZ_ROUNDS");
  const char* given = std::getenv("LFARM_FUZZ_SEED");
  uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 301;
  uint64_t count = rounds != nullptr ? std::strtoull(rounds, nullptr, 10) : 2;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Random random(seed);
    KernelBatch batch("cuda-sm_90a");
    std::vector<std::string> cases;
    for (int k = 0; k < 12; ++k) {
      ConvolutionCase c = random_convolution(random);
      const int64_t block = random.chance(0.5) ? 64064 : 128128;
      const int64_t clusters = random.chance(0.5) ? 1 : 2;
      add_convolution(batch, random, c, {{"clusters", clusters}, {"warpgroups", block}});
      cases.push_back(print(c));
    }
    batch.compile();
    ASSERT_FALSE(::testing::Test::HasFatalFailure()) << "LFARM_FUZZ_SEED=" << seed;
    for (size_t k = 0; k < batch.size(); ++k) {
      batch.check(k, 1e-2);
      ASSERT_FALSE(::testing::Test::HasFailure())
          << cases[k] << "\nrepeat with LFARM_FUZZ_SEED=" << seed
          << " tests/test_codegen_fuzz_cuda";
    }
  }
}

TEST(CodegenFuzz, RandomBodies) {
  check_batches(101, [](uint64_t, KernelBatch&) {});
}

// Goal: any legal nest computes what its body says.
// Method: random transformations of the nests of random bodies. What the verifier takes and the
// lowering does not refuse is compiled and compared like the others.
class NestFuzzer {
 public:
  NestFuzzer(uint64_t seed, int* changed) : random_(seed), changed_(changed) {}

  void change(Kernel& kernel, Machine machine) {
    Graph body = nest_body(kernel.body, *kernel.nest);
    LoopNest nest = random_.chance(0.5) ? plain_loops(body) : *kernel.nest;
    for (int step = 0; step < 6; ++step) {
      auto next = is_gpu(machine) && random_.chance(0.3) ? bind_threads(nest, body, some_threads())
                  : is_gpu(machine) && random_.chance(0.1) ? in_squares(body)
                                                           : transformed(nest, body);
      if (!next.ok()) continue;
      auto legal = printable(*next, body, machine);
      if (legal) nest = std::move(*legal);
    }
    if (nest == *kernel.nest) return;
    // One loop an axis is no nest of a GPU's, on which threads alone compute one element.
    if (!printable(nest, body, machine)) return;
    kernel.nest = std::move(nest);
    ++*changed_;
  }

 private:
  // The nest without what makes no difference; empty where it cannot be printed.
  static std::optional<LoopNest> printable(const LoopNest& nest, const Graph& body,
                                           Machine machine) {
    if (is_gpu(machine)) {
      GpuLoops loops(body, nest);
      if (!loops.run().ok() || !lower_gpu_loops(body, loops.used()).ok()) return std::nullopt;
      return loops.used();
    }
    CpuLoops loops(body, nest, {});
    if (!loops.run().ok() || !lower_cpu_loops(body, loops.used()).ok()) return std::nullopt;
    return loops.used();
  }

  ThreadGroup some_threads() {
    int64_t threads = int64_t{1} << random_.below(9);
    return {threads,
            threads > 1 && random_.chance(0.3) ? 4 : 1,
            threads > 1 && random_.chance(0.1) ? 3 : 1,
            int64_t{1} << random_.below(3),
            threads > 1 && random_.chance(0.3) ? 1 + static_cast<int64_t>(random_.below(4)) : 1,
            threads > 1 && random_.chance(0.3)};
  }

  Result<LoopNest> in_squares(const Graph& body) {
    LoopNest plain = plain_loops(body);
    auto side = [&] { return static_cast<int64_t>(1 + random_.below(12)); };
    auto nest =
        cut_squares(plain, body, random_.below(plain.shared.extents.size() + 1), side(), side());
    if (!nest.ok()) return nest;
    return bind_threads(*nest, body,
                        {int64_t{64} << random_.below(3), 1, 1, int64_t{1} << random_.below(3)});
  }

  NodeId some_node(const Graph& body) {
    return static_cast<NodeId>(random_.below(body.nodes.size()));
  }

  Result<LoopNest> transformed(const LoopNest& nest, const Graph& body) {
    int group = static_cast<int>(random_.below(nest.groups.size()));
    BandOf band{random_.chance(0.5) ? -1 : group};
    size_t loops = band.in(nest).extents.size();
    switch (random_.below(11)) {
      case 0:
        return split(nest, body, band, random_.below(loops + 1),
                     static_cast<int64_t>(2 + random_.below(7)));
      case 1:
        return fuse(nest, body, band, random_.below(loops + 1));
      case 2: {
        std::vector<size_t> order(loops);
        for (size_t k = 0; k < loops; ++k) order[k] = k;
        for (size_t k = loops; k > 1; --k) std::swap(order[k - 1], order[random_.below(k)]);
        return reorder(nest, body, band, order);
      }
      case 3:
        return bind_grid(nest, body, random_.below(nest.shared.extents.size() + 1),
                         random_.chance(0.5));
      case 4:
        return block(nest, body, group, random_.below(4),
                     static_cast<int64_t>(1 + random_.below(40)));
      case 5:
        return transpose(nest, body);
      case 6:
        return vectorise(nest, body, int64_t{4} << random_.below(3),
                         int64_t{1} << random_.below(3));
      case 7:
        return fuse_reductions(nest, body, some_node(body), some_node(body));
      case 8:
        return flatten(nest, body, some_node(body));
      case 9:
        return walk(nest, body, some_node(body));
      default:
        return stage(nest, body, some_node(body));
    }
  }

  Random random_;
  int* changed_;
};

TEST(CodegenFuzz, RandomNests) {
  check_batches(501, [](uint64_t seed, KernelBatch& batch) {
    int changed = 0;
    NestFuzzer nests(seed, &changed);
    batch.change_nests([&](Kernel& kernel, Machine machine) { nests.change(kernel, machine); });
    EXPECT_GT(changed, 30);
  });
}

// Goal: products of halves are right whatever the sizes, the orders of memory and the schedule.
// Method: random products with up to two axes of batches, for the machine whose warpgroups
// multiply.
class ProductFuzzer {
 public:
  explicit ProductFuzzer(uint64_t seed) : random_(seed) {}

  void add(KernelBatch& batch) {
    // Labels: the batches', then rows, columns and the summed axis.
    const int batches = static_cast<int>(random_.below(3));
    sizes_.clear();
    for (int k = 0; k < batches; ++k) sizes_.push_back(1 + static_cast<int64_t>(random_.below(3)));
    for (int k = 0; k < 3; ++k) sizes_.push_back(some_size());
    const int rows = batches, columns = batches + 1, depth = batches + 2;
    symbolic_ = random_.chance(0.3) ? rows : -1;
    GraphBuilder b(symbolic_ >= 0 ? std::vector<SymbolRange>{{1, 300}}
                                  : std::vector<SymbolRange>{});
    dtype_ = random_.chance(0.5) ? DType::kBfloat16 : DType::kFloat16;
    std::vector<HostTensor> inputs;
    std::vector<int> left = order(batches, rows, depth), right = order(batches, columns, depth);
    NodeId x = operand(b, left, inputs), y = operand(b, right, inputs);
    std::vector<int> out;
    for (int label = 0; label <= columns; ++label) out.push_back(label);
    NodeId sum =
        b.raw({Op::kContract, DType::kFloat32, shape(out), {x, y}, ContractAttr{left, right, out}});
    if (random_.chance(0.3)) sum = b.unary(UnaryOp::kTanh, sum);
    b.output(random_.chance(0.5) ? b.cast(sum, dtype_) : sum);
    batch.add(Template::kTile, schedule(), b.finish(), std::move(inputs));
  }

 private:
  int64_t some_size() {
    auto size = static_cast<int64_t>(1 + random_.below(280));
    return random_.chance(0.7) ? (size + 7) / 8 * 8 : size;
  }
  Shape shape(const std::vector<int>& labels) const {
    Shape shape;
    for (int label : labels) {
      shape.push_back(label == symbolic_ ? Expr::symbol(0)
                                         : Expr(sizes_[static_cast<size_t>(label)]));
    }
    return shape;
  }
  // The labels in an order of memory; batches mostly come first.
  std::vector<int> order(int batches, int own, int depth) {
    std::vector<int> labels;
    for (int label = 0; label < batches; ++label) labels.push_back(label);
    labels.push_back(own);
    labels.push_back(depth);
    if (random_.chance(0.5)) std::swap(labels[labels.size() - 1], labels[labels.size() - 2]);
    if (batches > 0 && random_.chance(0.3)) std::swap(labels[0], labels[labels.size() - 2]);
    return labels;
  }
  NodeId operand(GraphBuilder& b, const std::vector<int>& labels, std::vector<HostTensor>& inputs) {
    std::vector<int64_t> sizes;
    for (int label : labels) sizes.push_back(sizes_[static_cast<size_t>(label)]);
    inputs.push_back(random_tensor(random_, dtype_, sizes));
    return b.input(InputKind::kUser, dtype_, shape(labels), "x");
  }
  Schedule schedule() {
    Schedule schedule;
    for (const ScheduleChoice& choice : schedule_parameters(Template::kTile)) {
      if (!choice.is_on(Machine::kGpuWarpgroups) || random_.chance(0.5)) continue;
      schedule.push_back(
          {std::string(choice.name), choice.values[random_.below(choice.values.size())]});
    }
    std::sort(schedule.begin(), schedule.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    return schedule;
  }

  Random random_;
  std::vector<int64_t> sizes_;
  int symbolic_ = -1;
  DType dtype_ = DType::kBfloat16;
};

TEST(CodegenFuzz, RandomProducts) {
  if (!runs_on_gpu()) GTEST_SKIP() << "a CPU has no warpgroups";
  const char* given = std::getenv("LFARM_FUZZ_SEED");
  const char* rounds = std::getenv("LFARM_FUZZ_ROUNDS");
  uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 301;
  uint64_t count = rounds != nullptr ? std::strtoull(rounds, nullptr, 10) : 2;
  size_t boxes = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    KernelBatch batch("cuda-sm_90a");
    ProductFuzzer fuzzer(seed);
    for (int k = 0; k < 30; ++k) fuzzer.add(batch);
    batch.compile();
    ASSERT_FALSE(::testing::Test::HasFatalFailure()) << "LFARM_FUZZ_SEED=" << seed;
    for (size_t k = 0; k < batch.size(); ++k) {
      boxes += batch.at(k).source.entry.maps.empty() ? 0 : 1;
      batch.check(k, 3e-4);
      ASSERT_FALSE(::testing::Test::HasFailure())
          << "repeat with LFARM_FUZZ_SEED=" << seed << " (kernel " << k
          << ") tests/test_codegen_fuzz_cuda";
    }
  }
  EXPECT_TRUE(given != nullptr || boxes > 0) << "no kernel copies by tensor maps";
}

}  // namespace
}  // namespace testing_codegen
