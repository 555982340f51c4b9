// Tokens from a language model, one after another: a prompt in few wide calls, then a call a token.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "clients/generate/roles.h"
#include "clients/generate/sampler.h"
#include "clients/pt2/translate.h"
#include "common/base/result.h"
#include "common/runtime/executor/executor.h"

namespace clients {

// One call of an instance of the model, as PlanInstance::run and LiveInstance::run make it.
using ModelCall = std::function<common::Status(std::span<const common::TensorRef> user_inputs,
                                               common::RunOutputs& outputs)>;

// A way to compute the model for some widths. All programs of a generator share one state.
struct GeneratorProgram {
  std::shared_ptr<const Model> model;
  Roles roles;
  ModelCall call;
  // Whether a call can begin now; null: always. A call of a program that is not ready waits until
  // it is, and is made only where no ready program takes the tokens.
  std::function<bool()> is_ready = nullptr;
};

struct GenerateOptions {
  int64_t tokens = 16;  // at most, for each sequence
  Sampling sampling;
  std::vector<int64_t> stop;  // a sequence ends with one of these
  int64_t chunk = 0;          // of a prompt, in one call at most; 0: as much as a program takes
  int64_t start = 0;          // position of the prompt's first token, after those of earlier runs
};

struct Generated {
  std::vector<std::vector<int64_t>> sequences;  // new tokens, the one that ended it included
  int64_t prompt_tokens = 0;                    // of each sequence
  int64_t first_ns = 0;                         // from the start to the first token
  int64_t rest_ns = 0;                          // for the other tokens
  int64_t steps = 0;                            // tokens of the longest sequence
};

// Told of each token as it is chosen; false ends the sequence.
using OnToken = std::function<bool(size_t sequence, int64_t step, int64_t token)>;

// kInvalidInput when a model with these roles cannot run the prompts with the options.
common::Status check_run(const Roles& roles, const std::vector<std::vector<int64_t>>& prompts,
                         const GenerateOptions& options);

// One thread at a time.
class Generator {
 public:
  // `programs` are not empty and agree in batch and roles' meaning.
  explicit Generator(std::vector<GeneratorProgram> programs);

  // `prompts` [batch][length], of one length of at least 1. kInvalidInput when no program takes so
  // many sequences or tokens, or all logits are NaN; kOutOfRange when the model has no place for so
  // long a sequence; and what the model itself says of a token that is none of its words.
  common::Result<Generated> run(const std::vector<std::vector<int64_t>>& prompts,
                                const GenerateOptions& options, const OnToken& on_token);

 private:
  // Positions start to start + width - 1 of all sequences through the model.
  common::Status call(const GeneratorProgram& program,
                      const std::vector<std::vector<int64_t>>& sequences, int64_t start,
                      int64_t width);
  // Everything from `start` on, in calls as wide as programs and `chunk` allow.
  common::Status feed(const std::vector<std::vector<int64_t>>& sequences, int64_t start,
                      int64_t chunk);
  // Of the programs that can take `tokens` tokens, the one with the widest calls; of those that are
  // ready where there is one.
  common::Result<const GeneratorProgram*> widest(int64_t tokens) const;
  // The logits after the last call's last token.
  std::span<const float> logits_of(size_t sequence);

  std::vector<GeneratorProgram> programs_;
  common::RunOutputs outputs_;
  const common::HostTensor* logits_ = nullptr;
  std::vector<float> row_;
};

}  // namespace clients
