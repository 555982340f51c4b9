// Generation of tokens: if these fail, prompts reach the model in wrong pieces or at wrong
// positions, sampling leaves its bounds, or sequences do not end where they should.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "clients/cli/models/prompt_file.h"
#include "clients/generate/generator.h"
#include "clients/generate/programs.h"
#include "clients/generate/sampler.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/verify.h"

namespace clients {
namespace {

using common::DType;
using common::Expr;
using common::HostTensor;
using common::InputKind;
using Sequences = std::vector<std::vector<int64_t>>;

// ---- The choice of a token -------------------------------------------------------------------

TEST(Sampler, GreedyTakesTheFirstGreatest) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(choose_token(std::vector<float>{1, 5, 5, 2}, {}, 0, 0), 1);
  EXPECT_EQ(choose_token(std::vector<float>{kNan, -3, kNan, -2}, {}, 0, 0), 3);
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(choose_token(std::vector<float>{kNan, kLeast, kLeast}, {}, 0, 0), 1);
  EXPECT_EQ(choose_token(std::vector<float>(70, kNan), {}, 0, 0), 0);
  // Wherever it lies in a long row, and whatever else does.
  for (size_t place = 0; place < 150; ++place) {
    std::vector<float> logits(150, -2);
    for (size_t k = place; k < logits.size(); k += 37) logits[k] = 4;
    for (size_t k = 5; k < logits.size(); k += 11) logits[k] = k == place ? 4 : kNan;
    EXPECT_EQ(choose_token(logits, {}, 0, 0), static_cast<int64_t>(place));
  }
}

std::map<int64_t, int> counts(const std::vector<float>& logits, const Sampling& sampling,
                              uint64_t draws) {
  std::map<int64_t, int> out;
  for (uint64_t k = 0; k < draws; ++k) ++out[choose_token(logits, sampling, 0, k)];
  return out;
}

// Probabilities 0.1, 0.2, 0.3, 0.4, within 4 deviations of so many draws.
TEST(Sampler, DrawsByTheSoftmax) {
  constexpr int kDraws = 20'000;
  std::vector<float> logits;
  for (double p : {0.1, 0.2, 0.3, 0.4}) logits.push_back(static_cast<float>(std::log(p)));
  Sampling sampling{1, 0, 1, 7};
  auto seen = counts(logits, sampling, kDraws);
  for (int64_t k = 0; k < 4; ++k) {
    double p = 0.1 * static_cast<double>(k + 1);
    EXPECT_NEAR(seen[k], kDraws * p, 4 * std::sqrt(kDraws * p * (1 - p))) << k;
  }
}

TEST(Sampler, KeepsToTheMostProbable) {
  std::vector<float> logits = {0, 3, 1, 2};
  auto two = counts(logits, {1, 2, 1, 1}, 500);
  EXPECT_EQ(two.size(), 2U);
  EXPECT_TRUE(two.contains(1) && two.contains(3));
  // The probabilities are 0.64, 0.24, 0.09 and 0.03.
  auto most = counts(logits, {1, 0, 0.8, 1}, 500);
  EXPECT_EQ(most.size(), 2U);
  EXPECT_EQ(counts(logits, {1, 0, 0.1, 1}, 100).size(), 1U);
  // A low temperature makes the greatest certain.
  EXPECT_EQ(counts(logits, {0.01, 0, 1, 1}, 200).size(), 1U);
}

TEST(Sampler, DependsOnSeedSequenceAndPosition) {
  std::vector<float> logits(1000, 0.0F);
  Sampling sampling{1, 0, 1, 3};
  int64_t token = choose_token(logits, sampling, 2, 5);
  EXPECT_EQ(choose_token(logits, sampling, 2, 5), token);
  EXPECT_NE(choose_token(logits, sampling, 3, 5), token);
  EXPECT_NE(choose_token(logits, sampling, 2, 6), token);
  sampling.seed = 4;
  EXPECT_NE(choose_token(logits, sampling, 2, 5), token);
}

TEST(Sampler, RefusesValuesOutOfRange) {
  EXPECT_FALSE(check_sampling({-1, 0, 1, 0}).ok());
  EXPECT_FALSE(check_sampling({1, -2, 1, 0}).ok());
  EXPECT_FALSE(check_sampling({1, 0, 0, 0}).ok());
  EXPECT_FALSE(check_sampling({1, 0, 1.5, 0}).ok());
  EXPECT_TRUE(check_sampling({}).ok());
}

// ---- The model's inputs ----------------------------------------------------------------------

constexpr int64_t kWords = 50;

// ids [batch, s0] and pos [s0] to logits [batch, s0, words]; keys and values as a state.
Model language_model(common::SymbolRange width, int64_t batch = 1, bool has_cache = true) {
  common::GraphBuilder b({width});
  Expr s = Expr::symbol(0);
  Model model;
  auto input = [&](InputKind kind, DType dtype, const common::Shape& shape, const char* name) {
    model.weights.emplace_back();
    model.weight_names.emplace_back();
    return b.input(kind, dtype, shape, name);
  };
  auto ids = input(InputKind::kUser, DType::kInt64, {batch, s}, "input_ids");
  input(InputKind::kUser, DType::kInt64, {s}, "cache_position");
  if (has_cache) input(InputKind::kState, DType::kFloat32, {batch, 2, 8, 4}, "k");
  b.output(b.expand(b.reshape(b.cast(ids, DType::kFloat32), {batch, s, 1}), {batch, s, kWords}));
  model.graph = b.finish();
  model.user_inputs = {0, 1};
  model.user_outputs.push_back({0, false, {}});
  return model;
}

TEST(Roles, AreFoundByTypeAndName) {
  Roles roles = roles_of(language_model({1, 16}, 3)).value();
  EXPECT_EQ(roles.tokens, 0);
  EXPECT_EQ(roles.positions, 1);
  EXPECT_EQ(roles.mask, -1);
  EXPECT_EQ(roles.logits, 0);
  EXPECT_EQ(std::pair(roles.width_least, roles.width_most), std::pair(int64_t{1}, int64_t{16}));
  EXPECT_EQ(std::pair(roles.batch_least, roles.batch_most), std::pair(int64_t{3}, int64_t{3}));
  EXPECT_TRUE(roles.has_cache);
}

TEST(Roles, SayWhatIsNoLanguageModel) {
  Model model = language_model({1, 16});
  model.graph.inputs[0].dtype = DType::kFloat32;
  auto roles = roles_of(model);
  ASSERT_FALSE(roles.ok());
  EXPECT_NE(roles.error().message.find("\"input_ids\" is f32"), std::string::npos)
      << roles.error().message;
}

TEST(Parts, AModelOfAnyWidthHasAPlanForOneToken) {
  auto parts = parts_of(std::make_shared<const Model>(language_model({1, 16}))).value();
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].roles.width_most, 1);
  EXPECT_EQ(parts[1].roles.width_least, 2);
  EXPECT_EQ(parts[1].roles.width_most, 16);
  EXPECT_EQ(parts_of(std::make_shared<const Model>(language_model({2, 16}))).value().size(), 1U);
}

// The next token depends on no others.
TEST(Parts, TheLastTokensLogitsAreReturned) {
  auto parts = parts_of(std::make_shared<const Model>(language_model({1, 16}, 2))).value();
  const common::Shape last{2, 1, kWords};
  for (const WidthPart& part : parts) {
    const common::Graph& graph = part.model->graph;
    EXPECT_TRUE(common::verify(graph).ok());
    EXPECT_EQ(graph.node(graph.outputs[0].node).shape, last);
  }
  const WidthPart& one = parts[0];
  EXPECT_EQ(with_last_logits(one.model, one.roles), one.model);
  Model named = language_model({1, 16});
  named.graph_hash = common::Digest{};  // as the farm knows it
  auto known = std::make_shared<const Model>(std::move(named));
  EXPECT_EQ(with_last_logits(known, roles_of(*known).value()), known);
}

// ---- Runs ------------------------------------------------------------------------------------

// Programs whose calls are noted: the logits prefer the token after the last one of each sequence.
class Noted {
 public:
  explicit Noted(const std::vector<common::SymbolRange>& widths, int64_t batch = 1,
                 bool has_cache = true) {
    for (const common::SymbolRange& width : widths) {
      auto model = std::make_shared<const Model>(language_model(width, batch, has_cache));
      programs_.push_back({model, roles_of(*model).value(),
                           [this](std::span<const common::TensorRef> inputs,
                                  common::RunOutputs& outputs) { return call(inputs, outputs); }});
    }
  }

  common::Result<Generated> run(const Sequences& prompts, const GenerateOptions& options,
                                const OnToken& on_token = {}) {
    return Generator(programs_).run(prompts, options, on_token);
  }

  // A program is ready after so many calls.
  void make_ready_after(size_t program, size_t calls_before) {
    programs_[program].is_ready = [this, calls_before] { return calls.size() >= calls_before; };
  }

  // What logits are instead of 0 and 1, and an error instead of any: from the call of a position
  // on.
  struct Broken {
    int64_t position = INT64_MAX;
    common::Status status;
  };
  Broken broken;

  // First position and width of each call.
  std::vector<std::pair<int64_t, int64_t>> calls;
  Sequences fed;  // what each sequence was given, over all calls

 private:
  common::Status call(std::span<const common::TensorRef> inputs, common::RunOutputs& outputs) {
    int64_t batch = inputs[0].sizes[0], width = inputs[0].sizes[1];
    const auto* ids = reinterpret_cast<const int64_t*>(inputs[0].data);
    const auto* positions = reinterpret_cast<const int64_t*>(inputs[1].data);
    EXPECT_EQ(inputs[1].sizes[0], width);
    for (int64_t k = 0; k < width; ++k) EXPECT_EQ(positions[k], positions[0] + k);
    calls.emplace_back(positions[0], width);
    const bool is_broken = positions[0] >= broken.position;
    if (is_broken && !broken.status.ok()) return broken.status;
    fed.resize(static_cast<size_t>(batch));
    HostTensor logits = HostTensor::zeros(DType::kFloat32, {batch, width, kWords}).value();
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t k = 0; k < width; ++k) {
        int64_t id = ids[b * width + k];
        fed[static_cast<size_t>(b)].push_back(id);
        logits.set((b * width + k) * kWords + (id + 1) % kWords, 1);
      }
    }
    for (int64_t k = 0; is_broken && k < logits.elements(); ++k) logits.set(k, std::nan(""));
    outputs.user.assign(1, logits);
    return {};
  }

  std::vector<GeneratorProgram> programs_;
};

using Calls = std::vector<std::pair<int64_t, int64_t>>;

TEST(Generator, ReadsAPromptAtOnceAndThenTokenByToken) {
  Noted model({{1, 1}, {2, 16}});
  auto made = model.run({{5, 6, 7}}, {4, {}, {}, 0, 0}).value();
  EXPECT_EQ(made.sequences, (Sequences{{8, 9, 10, 11}}));
  EXPECT_EQ(model.calls, (Calls{{0, 3}, {3, 1}, {4, 1}, {5, 1}}));
  EXPECT_EQ(model.fed, (Sequences{{5, 6, 7, 8, 9, 10}}));
  EXPECT_EQ(made.steps, 4);
}

TEST(Generator, BeginsWithTheProgramsThatAreReady) {
  Noted model({{1, 1}, {2, 16}});
  model.make_ready_after(1, 2);
  auto made = model.run({{5, 6, 7, 8, 9}}, {2, {}, {}, 0, 0}).value();
  EXPECT_EQ(made.sequences, (Sequences{{10, 11}}));
  EXPECT_EQ(model.calls, (Calls{{0, 1}, {1, 1}, {2, 3}, {5, 1}}));
}

TEST(Generator, WaitsWhereNoReadyProgramFits) {
  Noted model({{1, 1}, {2, 16}});
  model.make_ready_after(0, 1);  // the only one that takes a token alone
  auto made = model.run({{5}}, {2, {}, {}, 0, 0}).value();
  EXPECT_EQ(model.calls, (Calls{{0, 1}, {1, 1}}));
}

TEST(Generator, CutsAPromptIntoChunks) {
  std::vector<int64_t> prompt(11);
  for (size_t k = 0; k < prompt.size(); ++k) prompt[k] = static_cast<int64_t>(k);
  Noted asked({{1, 1}, {2, 16}});
  ASSERT_TRUE(asked.run({prompt}, {1, {}, {}, 4, 0}).ok());
  EXPECT_EQ(asked.calls, (Calls{{0, 4}, {4, 4}, {8, 3}}));
  Noted narrow({{1, 1}, {2, 5}});
  ASSERT_TRUE(narrow.run({prompt}, {1, {}, {}, 0, 0}).ok());
  EXPECT_EQ(narrow.calls, (Calls{{0, 5}, {5, 5}, {10, 1}}));
  Noted single({{1, 1}});
  ASSERT_TRUE(single.run({prompt}, {1, {}, {}, 0, 0}).ok());
  EXPECT_EQ(single.calls.size(), 11U);
  EXPECT_EQ(single.fed[0], prompt);
}

TEST(Generator, GivesAModelWithoutACacheEverything) {
  Noted model({{2, 16}}, 1, false);
  auto made = model.run({{5, 6}}, {3, {}, {}, 0, 0}).value();
  EXPECT_EQ(made.sequences, (Sequences{{7, 8, 9}}));
  EXPECT_EQ(model.calls, (Calls{{0, 2}, {0, 3}, {0, 4}}));
}

TEST(Generator, EndsSequencesOneByOne) {
  Noted model({{1, 16}}, 2);
  auto made = model.run({{5, 6}, {20, 21}}, {6, {}, {8, 25}, 0, 0}).value();
  EXPECT_EQ(made.sequences, (Sequences{{7, 8}, {22, 23, 24, 25}}));
  Noted told({{1, 16}});
  auto stopped =
      told.run({{5, 6}}, {6, {}, {}, 0, 0}, [](size_t, int64_t step, int64_t) { return step < 1; });
  EXPECT_EQ(stopped.value().sequences, (Sequences{{7, 8}}));
}

TEST(Generator, GoesOnFromAnEarlierRun) {
  Noted model({{1, 16}});
  ASSERT_TRUE(model.run({{5, 6}}, {1, {}, {}, 0, 7}).ok());
  EXPECT_EQ(model.calls, (Calls{{7, 2}}));
}

TEST(Generator, RefusesWhatNoProgramTakes) {
  auto message = [](const common::Result<Generated>& made) {
    return made.ok() ? "" : made.error().message;
  };
  EXPECT_EQ(message(Noted({{1, 16}}).run({}, {})), "the prompt is empty");
  EXPECT_EQ(message(Noted({{1, 16}}, 2).run({{1}}, {})), "the model takes 2 sequences, not 1");
  EXPECT_EQ(message(Noted({{1, 16}}, 2).run({{1, 2}, {1}}, {})),
            "prompts of one batch have one length: 2 and 1 tokens differ");
  EXPECT_EQ(message(Noted({{2, 16}}).run({{1}}, {})),
            "the model takes 2 to 16 tokens a call, and 1 are left");
}

TEST(Generator, SaysWhereLogitsAreNaN) {
  for (double temperature : {0.0, 1.0}) {
    Noted model({{1, 16}});
    model.broken.position = 2;
    GenerateOptions options;
    options.sampling.temperature = temperature;
    auto made = model.run({{5, 6}}, options);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().message, "the model's logits after 3 tokens are all NaN");
  }
}

TEST(Generator, SaysThatASequenceIsTooLong) {
  auto message = [](const std::string& said) {
    Noted model({{1, 16}});
    model.broken = {2, common::Error{common::Code::kOutOfRange, said}};
    return model.run({{5, 6}}, {}).error().message;
  };
  const std::string of_a_position =
      "input 1 ('cache_position'): index 2 at position 0 is outside of [0, 2)";
  EXPECT_EQ(
      message(of_a_position),
      "the model has no place for a sequence of 3 tokens, the new ones included: " + of_a_position);
  const std::string of_a_token =
      "input 0 ('input_ids'): index 7 at position 0 is outside of [0, 7)";
  EXPECT_EQ(message(of_a_token), of_a_token);
}

// ---- Files -----------------------------------------------------------------------------------

TEST(PromptFile, TakesTextAndJson) {
  EXPECT_EQ(parse_prompts("1, 2 3\n\n4 5,6\n").value(), (Sequences{{1, 2, 3}, {4, 5, 6}}));
  EXPECT_EQ(parse_prompts(" [1,\n 2]").value(), (Sequences{{1, 2}}));
  EXPECT_EQ(parse_prompts("[[1], [2]]").value(), (Sequences{{1}, {2}}));
  EXPECT_EQ(parse_prompts("1 two 3").error().message, "\"two\" is no token id");
  for (const char* text : {"[1, \"x\"]", "[1.5, 2]", "[[1], 2]", "[[1], [2.0]]", "[true]", "[1",
                           "[9223372036854775808]", "[[[1]]]"}) {
    EXPECT_FALSE(parse_prompts(text).ok()) << text;
  }
  EXPECT_FALSE(parse_prompts("").ok());
}

}  // namespace
}  // namespace clients
