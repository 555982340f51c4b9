// Code of the kAttention template against the reference interpreter.
#include "codegen_testing.h"
#include "common/ir/hlir/attention_form.h"

namespace testing_codegen {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// kAdded: the window, as what is added to scores.
enum class Mask { kNone, kCausal, kWindow, kAdded, kBias, kGiven, kGivenSafe };

// One attention over [heads, rows, keys]. Sizes of 0 stand for the symbol of that name.
struct Attention {
  int64_t groups = 2, members = 1;
  int64_t rows = 5, keys = 7;
  int64_t depth = 16, width = 16;
  Mask mask = Mask::kNone;
  DType dtype = DType::kFloat32;
  bool symbolic = false;
  bool growing = false;  // the number of keys alone is symbolic
  double soft_cap = 0;
  bool rounded = false;     // scores and probabilities through bfloat16
  bool transposed = false;  // keys are stored along the sequence
  bool half = false;        // queries, keys and values are bfloat16
  bool epilogue = false;
};

class Builder {
 public:
  explicit Builder(const Attention& a)
      : a_(a),
        b_(a.symbolic  ? std::vector<SymbolRange>{{0, 1024}, {0, 1024}}
           : a.growing ? std::vector<SymbolRange>{{0, 4096}}
                       : std::vector<SymbolRange>{}) {}

  Graph build() {
    Expr rows = a_.symbolic ? Expr::symbol(0) : Expr(a_.rows);
    Expr keys = a_.symbolic ? Expr::symbol(1) : a_.growing ? Expr::symbol(0) : Expr(a_.keys);
    DType stored = a_.half ? DType::kBfloat16 : a_.dtype;
    NodeId q = input(stored, {a_.groups, a_.members, rows, a_.depth});
    NodeId k = a_.transposed ? input(stored, {a_.groups, a_.depth, keys})
                             : input(stored, {keys, a_.groups, a_.depth});
    NodeId v = input(stored, {a_.groups, keys, a_.width});
    // 0 group, 1 member, 2 row, 3 key, 4 depth or width
    Shape shape{a_.groups, a_.members, rows, keys};
    NodeId scores =
        b_.raw({Op::kContract,
                a_.dtype,
                shape,
                {q, k},
                ContractAttr{{0, 1, 2, 4},
                             a_.transposed ? std::vector<int>{0, 4, 3} : std::vector<int>{3, 0, 4},
                             {0, 1, 2, 3}}});
    if (a_.rounded) scores = round(scores);
    scores = b_.binary(BinaryOp::kMul, scores, b_.scalar(a_.dtype, 0.3));
    if (a_.soft_cap != 0) {
      NodeId cap = b_.scalar(a_.dtype, a_.soft_cap);
      scores = b_.binary(BinaryOp::kMul,
                         b_.unary(UnaryOp::kTanh, b_.binary(BinaryOp::kDiv, scores, cap)), cap);
    }
    scores = masked(scores, rows, keys);
    NodeId p = b_.raw({Op::kSoftmax, a_.dtype, shape, {scores}, SoftmaxAttr{3, false}});
    if (a_.mask == Mask::kGivenSafe) {
      NodeId top = b_.reduce(ReduceOp::kMax, scores, {3}, true);
      NodeId none = b_.binary(BinaryOp::kEqual, top, b_.scalar(a_.dtype, -kInfinity));
      p = b_.select(none, b_.scalar(a_.dtype, 0), p);
    }
    if (a_.rounded) p = round(p);
    NodeId out = b_.raw({Op::kContract,
                         a_.dtype,
                         {a_.groups, a_.members, rows, a_.width},
                         {p, v},
                         ContractAttr{{0, 1, 2, 3}, {0, 3, 4}, {0, 1, 2, 4}}});
    if (a_.epilogue) {
      NodeId gate = input(a_.dtype, {a_.groups, a_.members, rows, a_.width});
      out = b_.binary(BinaryOp::kAdd, b_.unary(UnaryOp::kTanh, out), gate);
    }
    b_.output(out);
    return b_.finish();
  }

  std::vector<HostTensor> values(Random& random, double high = 2) const {
    std::vector<HostTensor> tensors;
    std::vector<int64_t> symbols{a_.rows, a_.keys};
    if (a_.growing) symbols = {a_.keys};
    for (size_t k = 0; k < shapes_.size(); ++k) {
      tensors.push_back(
          random_tensor(random, dtypes_[k], evaluate_shape(shapes_[k], symbols), -high, high));
    }
    return tensors;
  }

 private:
  NodeId input(DType dtype, Shape shape) {
    shapes_.push_back(shape);
    dtypes_.push_back(dtype);
    return b_.input(InputKind::kUser, dtype, std::move(shape), "x");
  }
  NodeId round(NodeId x) { return b_.cast(b_.cast(x, DType::kBfloat16), a_.dtype); }
  NodeId position(const Expr& size, int axis, const Shape& shape) {
    NodeId iota = b_.iota(DType::kInt64, size);
    View view{shape, {Expr::index(axis)}, {}, 0};
    return b_.view(iota, view);
  }
  NodeId masked(NodeId scores, const Expr& rows, const Expr& keys) {
    Shape shape{rows, keys};
    NodeId hidden = b_.scalar(a_.dtype, -kInfinity);
    NodeId row = position(rows, 0, shape), key = position(keys, 1, shape);
    switch (a_.mask) {
      case Mask::kNone:
        return scores;
      case Mask::kCausal: {
        // The last row sees all keys.
        NodeId offset = b_.binary(BinaryOp::kSub, b_.size_scalar(DType::kInt64, keys),
                                  b_.size_scalar(DType::kInt64, rows));
        NodeId until = b_.binary(BinaryOp::kAdd, row, offset);
        return b_.select(b_.binary(BinaryOp::kLessEqual, key, until), scores, hidden);
      }
      case Mask::kAdded:
      case Mask::kWindow: {
        NodeId near = b_.binary(BinaryOp::kLess, b_.binary(BinaryOp::kSub, row, key),
                                b_.scalar_int(DType::kInt64, 3));
        NodeId seen = b_.binary(BinaryOp::kAnd, near, b_.binary(BinaryOp::kLessEqual, key, row));
        if (a_.mask == Mask::kAdded) {
          NodeId lowest = b_.scalar(a_.dtype, std::numeric_limits<float>::lowest());
          NodeId mask = b_.select(seen, b_.scalar(a_.dtype, 0), lowest);
          return b_.binary(BinaryOp::kAdd, scores, mask);
        }
        return b_.select(b_.unary(UnaryOp::kNot, seen), hidden, scores);
      }
      case Mask::kBias:
        return b_.binary(BinaryOp::kAdd, scores, input(a_.dtype, {rows, keys}));
      default:
        return b_.select(input(DType::kBool, {a_.groups, 1, rows, keys}), scores, hidden);
    }
  }

  const Attention& a_;
  GraphBuilder b_;
  std::vector<Shape> shapes_;
  std::vector<DType> dtypes_;
};

void add(KernelBatch& batch, Random& random, const Attention& attention, Schedule schedule = {}) {
  Builder builder(attention);
  Graph body = builder.build();
  ASSERT_TRUE(attention_form(canonical(body)).has_value()) << print(body);
  batch.add(Template::kAttention, std::move(schedule), body, builder.values(random));
}

void compile_and_check(KernelBatch& batch) {
  batch.compile();
  for (size_t k = 0; k < batch.size() && !testing::Test::HasFatalFailure(); ++k) {
    batch.check(k, 2e-5);
    batch.check(k, 2e-5, 3);
  }
}

// Every mask at every size, and each with every schedule.
TEST(CodegenAttention, SizesAndMasks) {
  Random random(61);
  KernelBatch batch;
  bool as_given = false;
  for (Mask mask : {Mask::kNone, Mask::kCausal, Mask::kWindow, Mask::kAdded, Mask::kBias,
                    Mask::kGiven, Mask::kGivenSafe}) {
    for (auto [rows, keys] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {1, 37}, {3, 300}, {17, 5}, {70, 70}, {33, 259}, {0, 3}, {3, 0}}) {
      Attention a;
      a.rows = rows;
      a.keys = keys;
      a.mask = mask;
      as_given = !as_given;
      if (as_given) add(batch, random, a);
      a.members = 3;
      if (as_given) add(batch, random, a, {{"keys", 32}});
      a.symbolic = true;
      if (!as_given) add(batch, random, a, {{"keys", 32}, {"rows", 16}});
      if (!as_given) add(batch, random, a, {{"online", 0}, {"rows", 16}});
    }
    as_given = !as_given;
  }
  compile_and_check(batch);
}

TEST(CodegenAttention, Forms) {
  Random random(62);
  KernelBatch batch;
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (int64_t rows : {1, 4, 30}) {
      Attention a;
      a.dtype = dtype;
      a.rows = rows;
      a.keys = 45;
      a.depth = 20;
      a.width = 24;
      add(batch, random, a);
      a.soft_cap = 1.5;
      a.epilogue = true;
      a.mask = Mask::kBias;
      add(batch, random, a);
      a.transposed = true;
      a.members = 2;
      add(batch, random, a);
      a.half = dtype == DType::kFloat32;
      a.width = 64;
      add(batch, random, a);
    }
  }
  compile_and_check(batch);
}

// Decoding: blocks share the keys of few rows. Every mask with every number of keys, and each with
// every way to share.
TEST(CodegenAttention, SharedKeys) {
  Random random(67);
  KernelBatch batch;
  bool first = true;
  for (int64_t keys : {0, 1, 127, 128, 129, 700, 2500}) {
    for (Mask mask : {Mask::kNone, Mask::kCausal, Mask::kWindow, Mask::kGivenSafe}) {
      Attention a;
      a.rows = 1;
      a.members = 3;
      a.keys = keys;
      a.mask = mask;
      a.half = true;
      a.width = 32;
      a.growing = true;
      if (first) add(batch, random, a);
      if (!first) add(batch, random, a, {{"splits", 4}});
      a.growing = keys < 700;
      a.rows = 2;
      a.groups = 1;
      a.epilogue = true;
      if (first) add(batch, random, a, {{"splits", 32}});
      if (!first) add(batch, random, a, {{"online", 0}, {"splits", 4}});
      first = !first;
    }
    first = !first;
  }
  compile_and_check(batch);
  // As many blocks as a GPU has room for, where nobody says how many.
  if (runs_on_gpu()) {
    EXPECT_EQ(batch.at(0).source.entry.units.evaluate(std::vector<int64_t>{5}), 128);
  }
}

TEST(CodegenAttention, EveryScheduleValue) {
  Random random(63);
  KernelBatch batch;
  for (const ScheduleChoice& choice : schedule_parameters(Template::kAttention)) {
    for (int64_t value : choice.values) {
      Attention a;
      a.rows = 150;
      a.keys = 530;
      a.mask = Mask::kCausal;
      Schedule schedule{{std::string(choice.name), value}};
      add(batch, random, a, schedule);
      a.symbolic = true;
      add(batch, random, a, schedule);
    }
  }
  compile_and_check(batch);
}

// Half-precision queries, keys and values, rounded or not on the way to the product. Every mask at
// every size, and each with every schedule.
TEST(CodegenAttention, HalfPrecision) {
  Random random(68);
  KernelBatch batch;
  bool as_given = false;
  for (Mask mask : {Mask::kNone, Mask::kCausal, Mask::kWindow, Mask::kGivenSafe}) {
    for (auto [rows, keys] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 37}, {17, 5}, {70, 70}, {33, 259}, {0, 3}, {3, 0}}) {
      Attention a;
      a.half = true;
      a.mask = mask;
      a.rows = rows;
      a.keys = keys;
      a.depth = rows % 2 == 0 ? 24 : 64;
      a.width = rows % 2 == 0 ? 40 : 80;
      as_given = !as_given;
      if (as_given) add(batch, random, a);
      a.members = 3;
      if (as_given) add(batch, random, a, {{"block_keys", 32}});
      a.symbolic = true;
      if (!as_given) add(batch, random, a, {{"block_rows", 32}});
      a.transposed = true;
      if (!as_given) add(batch, random, a, {{"block_rows", 64}, {"online", 0}});
    }
    as_given = !as_given;
  }
  batch.compile();
  for (size_t k = 0; k < batch.size() && !testing::Test::HasFatalFailure(); ++k) {
    batch.check(k, 1e-4);
  }
}

// Scores and probabilities that are rounded to bfloat16 take the same steps as the reference takes.
TEST(CodegenAttention, RoundedProbabilities) {
  Random random(64);
  KernelBatch batch;
  for (Mask mask : {Mask::kNone, Mask::kCausal, Mask::kGivenSafe}) {
    Attention a;
    a.rows = 19;
    a.keys = 200;
    a.rounded = true;
    a.mask = mask;
    add(batch, random, a);
    a.rows = 2;
    add(batch, random, a);
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) batch.check(k, 1.0 / 128);
}

// What is not finite reaches the rows that the unfused computation lets it reach.
TEST(CodegenAttention, SpecialValues) {
  Random random(65);
  KernelBatch batch;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (double special : {kNan, kInfinity, -kInfinity}) {
    for (size_t input : {0, 1, 2, 3}) {
      for (int64_t rows : {2, 20}) {
        Attention a;
        a.rows = rows;
        a.keys = 90;
        a.mask = Mask::kBias;
        Builder builder(a);
        Graph body = builder.build();
        std::vector<HostTensor> inputs = builder.values(random);
        inputs[input].set(7, special);
        inputs[input].set(inputs[input].elements() - 3, special);
        if (input == 3) {
          // A whole row, and only the keys of the first block of another.
          for (int64_t k = 0; k < 90; ++k) inputs[3].set(k, special);
          for (int64_t k = 0; k < 40; ++k) inputs[3].set(90 + k, special);
        }
        for (int64_t online : {1, 0}) {
          batch.add(Template::kAttention, {{"keys", 32}, {"online", online}}, body, inputs);
        }
      }
    }
  }
  compile_and_check(batch);
}

// The same for half-precision operands, whose probabilities are multiplied in two parts: neither
// may be 0 or turn its sign where a value is infinite. Few rows and many, whole and cut blocks of
// keys, blocks that share keys.
TEST(CodegenAttention, SpecialValuesInHalfPrecision) {
  Random random(71);
  KernelBatch batch;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (double special : {kNan, kInfinity, -kInfinity}) {
    for (size_t input : {0, 1, 2}) {
      for (int64_t rows : {2, 20}) {
        for (bool rounded : {false, true}) {
          Attention a;
          a.groups = 1;
          a.rows = rows;
          a.keys = rows == 2 ? 300 : 90;
          a.width = 32;
          a.half = true;
          a.rounded = rounded;
          Builder builder(a);
          Graph body = builder.build();
          std::vector<HostTensor> inputs = builder.values(random);
          inputs[input].set(7, special);
          inputs[input].set(inputs[input].elements() - 3, special);
          for (int64_t online : {1, 0}) {
            batch.add(Template::kAttention, {{"block_keys", 32}, {"online", online}}, body, inputs);
          }
          batch.add(Template::kAttention, {{"splits", 4}}, body, inputs);
        }
      }
    }
  }
  batch.compile();
  for (size_t k = 0; k < batch.size() && !testing::Test::HasFatalFailure(); ++k) {
    batch.check(k, 1.0 / 128);
  }
}

// A row without a visible key is NaN, or 0 where the model says so; other rows are not touched.
TEST(CodegenAttention, HiddenRows) {
  Random random(66);
  KernelBatch batch;
  for (Mask mask : {Mask::kGiven, Mask::kGivenSafe}) {
    for (int64_t online : {1, 0}) {
      Attention a;
      a.rows = 9;
      a.keys = 70;
      a.mask = mask;
      Builder builder(a);
      Graph body = builder.build();
      std::vector<HostTensor> inputs = builder.values(random);
      for (int64_t k = 0; k < 3 * 70; ++k) inputs[3].set_int(k, 0);
      for (int64_t k = 4 * 70; k < 4 * 70 + 64; ++k) inputs[3].set_int(k, 0);
      batch.add(Template::kAttention, {{"keys", 32}, {"online", online}}, body, inputs);
    }
  }
  compile_and_check(batch);
}

// What only some sizes show: rows whose greatest score comes late, for which earlier sums are
// scaled again; rows beyond the last that a block must not read; blocks whose rows all see nothing;
// operands that do not fit beside each other at first.
TEST(CodegenAttention, SizesThatAreHardOnGpus) {
  if (!runs_on_gpu()) GTEST_SKIP() << "a CPU has no such blocks";
  Random random(69);
  KernelBatch batch;
  for (bool half : {false, true}) {
    Attention late;
    late.rows = 2;
    late.keys = 1500;
    late.depth = late.width = 64;
    late.half = half;
    late.groups = 1;
    add(batch, random, late);
  }
  Attention cut;
  cut.groups = 1;
  cut.rows = 33;
  cut.keys = 20;
  cut.depth = cut.width = 136;
  add(batch, random, cut);
  Attention large;
  large.groups = 1;
  large.dtype = DType::kFloat64;
  large.rows = large.keys = 70;
  large.depth = large.width = 200;
  add(batch, random, large, {{"block_rows", 64}});
  for (int64_t online : {1, 0}) {
    Attention hidden;
    hidden.rows = 70;
    hidden.keys = 5;
    hidden.mask = Mask::kWindow;
    Builder builder(hidden);
    Graph body = builder.build();
    batch.add(Template::kAttention, {{"online", online}}, body, builder.values(random));
  }
  compile_and_check(batch);
}

// Keys that no row of a block sees are not read: what they hold does not matter.
TEST(CodegenAttention, LeavesOutHiddenKeys) {
  Random random(67);
  for (Mask mask : {Mask::kCausal, Mask::kWindow, Mask::kAdded}) {
    KernelBatch batch;
    Attention a;
    a.rows = a.keys = 256;
    a.groups = 1;
    a.mask = mask;
    Builder builder(a);
    Graph body = builder.build();
    std::vector<HostTensor> inputs = builder.values(random);
    Schedule schedule{{"keys", 32}, {"rows", 32}};
    batch.add(Template::kAttention, schedule, body, inputs);
    std::vector<HostTensor> poisoned;
    for (const HostTensor& t : inputs) poisoned.push_back(t.clone().value());
    for (int64_t k = 200 * a.width; k < 256 * a.width; ++k) {
      poisoned[2].set(k, std::numeric_limits<double>::quiet_NaN());
    }
    batch.add(Template::kAttention, schedule, body, std::move(poisoned));
    batch.compile();
    if (!batch.runs()) continue;
    std::vector<HostTensor> clean = batch.run(0, 1), hidden = batch.run(1, 1);
    for (int64_t k = 0; k < 192 * a.width; ++k) ASSERT_EQ(clean[0].get(k), hidden[0].get(k)) << k;
    EXPECT_TRUE(std::isnan(hidden[0].get(255 * a.width)));
  }
}

TEST(AttentionForm, NamesWhatItFinds) {
  Attention a;
  a.members = 3;
  a.mask = Mask::kWindow;
  Graph body = Builder(a).build();
  auto form = attention_form(body);
  ASSERT_TRUE(form.has_value());
  EXPECT_EQ(form->batch.size(), 1U);
  EXPECT_EQ(form->rows.size(), 2U);
  EXPECT_EQ(form->size(form->rows), Expr(15));
  EXPECT_EQ(form->label_size[static_cast<size_t>(form->key)], Expr(7));
  EXPECT_EQ(form->first.size(), 1U);
  EXPECT_EQ(form->last.size(), 1U);
  EXPECT_TRUE(form->scales_rows);
  a.rounded = true;
  form = attention_form(Builder(a).build());
  ASSERT_TRUE(form.has_value());
  EXPECT_FALSE(form->scales_rows);
  EXPECT_TRUE(form->keeps_zero);
}

// Rows that see no key at all spread over all of them, where hiding is but adding.
TEST(AttentionForm, AnAddedMaskHidesOnlyFromRowsThatSeeSomething) {
  Attention a;
  a.mask = Mask::kAdded;
  a.rows = a.keys = 7;
  auto form = attention_form(Builder(a).build());
  ASSERT_TRUE(form.has_value());
  EXPECT_EQ(form->first.size(), 1U);
  EXPECT_EQ(form->last.size(), 1U);
  a.rows = 12;
  form = attention_form(Builder(a).build());
  ASSERT_TRUE(form.has_value());
  EXPECT_TRUE(form->first.empty());
  EXPECT_TRUE(form->last.empty());
}

// A softmax along the rows, or of what is no contraction, is not attention.
TEST(AttentionForm, RefusesWhatIsNone) {
  for (bool contraction : {true, false}) {
    GraphBuilder b;
    auto input = [&] { return b.input(InputKind::kUser, DType::kFloat32, {8, 8}, "x"); };
    auto product = [&](NodeId x, NodeId y) {
      return b.raw(
          {Op::kContract, DType::kFloat32, {8, 8}, {x, y}, ContractAttr{{0, 2}, {2, 1}, {0, 1}}});
    };
    NodeId scores = contraction ? product(input(), input()) : input();
    NodeId p = b.raw(
        {Op::kSoftmax, DType::kFloat32, {8, 8}, {scores}, SoftmaxAttr{contraction ? 0 : 1, false}});
    b.output(product(p, input()));
    Graph body = b.finish();
    EXPECT_FALSE(attention_form(body).has_value());
    // On GPUs such a kernel is computed by loops.
    auto runner = make_runner("");
    bool is_cpu = runner->generator().language() == "c";
    Kernel kernel{Template::kAttention, {}, canonical(body), {}};
    kernel.nest = kernel_nest(kernel, runner->machine()).value();
    EXPECT_NE(runner->generator().generate(kernel).ok(), is_cpu);
  }
}

}  // namespace
}  // namespace testing_codegen
