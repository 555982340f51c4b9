#include "clients/generate/generator.h"

#include <algorithm>
#include <cmath>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/contains.h"
#include "common/ir/hlir/half.h"

namespace clients {
namespace {

using common::cat;
using common::HostTensor;
using common::Result;
using common::Status;
using common::TensorRef;
using Sequences = std::vector<std::vector<int64_t>>;

const common::GraphInput& input_of(const GeneratorProgram& program, int user) {
  int position = program.model->user_inputs[static_cast<size_t>(user)];
  return program.model->graph.inputs[static_cast<size_t>(position)];
}

// The width of a call: positions start to start + width - 1 of `batch` sequences.
struct Span {
  int64_t start = 0, width = 0, batch = 0;
};

Result<HostTensor> token_tensor(const GeneratorProgram& program, const Sequences& sequences,
                                const Span& span) {
  LFARM_ASSIGN_OR_RETURN(HostTensor tensor,
                         HostTensor::uninitialized(input_of(program, program.roles.tokens).dtype,
                                                   {span.batch, span.width}));
  for (int64_t b = 0; b < span.batch; ++b) {
    const int64_t* from = sequences[static_cast<size_t>(b)].data() + span.start;
    for (int64_t k = 0; k < span.width; ++k) tensor.set_int(b * span.width + k, from[k]);
  }
  return tensor;
}

// Every axis that is not 1 is one of positions or, the first of two, of sequences.
Result<HostTensor> position_tensor(const GeneratorProgram& program, const Span& span) {
  const common::GraphInput& input = input_of(program, program.roles.positions);
  std::vector<int64_t> sizes;
  for (size_t k = 0; k < input.shape.size(); ++k) {
    int64_t full = k + 1 == input.shape.size() ? span.width : span.batch;
    sizes.push_back(input.shape[k].is_constant(1) ? 1 : full);
  }
  LFARM_ASSIGN_OR_RETURN(HostTensor tensor, HostTensor::uninitialized(input.dtype, sizes));
  int64_t width = sizes.empty() ? 1 : sizes.back();
  for (int64_t k = 0; k < tensor.elements(); ++k) tensor.set_int(k, span.start + k % width);
  return tensor;
}

// Ones up to the last token of the call.
Result<HostTensor> mask_tensor(const GeneratorProgram& program, const Span& span) {
  const common::GraphInput& input = input_of(program, program.roles.mask);
  int64_t seen = span.start + span.width;
  int64_t length = input.shape[1].is_constant() ? input.shape[1].constant() : seen;
  LFARM_ASSIGN_OR_RETURN(HostTensor tensor, HostTensor::zeros(input.dtype, {span.batch, length}));
  for (int64_t k = 0; k < tensor.elements(); ++k) tensor.set_int(k, k % length < seen ? 1 : 0);
  return tensor;
}

// An index error of the positions' input says how long sequences may be; others are as they are.
common::Error explained(const GeneratorProgram& program, size_t tokens, common::Error error) {
  const int positions = program.roles.positions;
  if (error.code == common::Code::kOutOfRange && positions >= 0 &&
      error.message.starts_with(cat("input ", positions, " ("))) {
    error.message = cat("the model has no place for a sequence of ", tokens,
                        " tokens, the new ones included: ", error.message);
  }
  return error;
}

}  // namespace

Status check_run(const Roles& roles, const Sequences& prompts, const GenerateOptions& options) {
  LFARM_RETURN_IF_ERROR(check_sampling(options.sampling));
  if (prompts.empty() || prompts[0].empty()) return common::invalid_input("the prompt is empty");
  for (const auto& prompt : prompts) {
    if (prompt.size() == prompts[0].size()) continue;
    return common::invalid_input(cat("prompts of one batch have one length: ", prompts[0].size(),
                                     " and ", prompt.size(), " tokens differ"));
  }
  auto batch = static_cast<int64_t>(prompts.size());
  if (batch < roles.batch_least || batch > roles.batch_most) {
    const bool is_fixed = roles.batch_least == roles.batch_most;
    return common::invalid_input(
        cat("the model takes ", roles.batch_least, is_fixed ? "" : cat(" to ", roles.batch_most),
            roles.batch_most == 1 ? " sequence" : " sequences", ", not ", batch));
  }
  if (options.start != 0 && !roles.has_cache) {
    return common::invalid_input("the model keeps no tokens from call to call: begin at 0");
  }
  return {};
}

Generator::Generator(std::vector<GeneratorProgram> programs) : programs_(std::move(programs)) {
  LFARM_CHECK(!programs_.empty(), "a generator needs a program");
}

Status Generator::call(const GeneratorProgram& program, const Sequences& sequences, int64_t start,
                       int64_t width) {
  Span span{start, width, static_cast<int64_t>(sequences.size())};
  std::vector<HostTensor> tensors(program.model->user_inputs.size());
  auto at = [](int role) { return static_cast<size_t>(role); };
  const Roles& roles = program.roles;
  LFARM_ASSIGN_OR_RETURN(tensors[at(roles.tokens)], token_tensor(program, sequences, span));
  if (roles.positions >= 0) {
    LFARM_ASSIGN_OR_RETURN(tensors[at(roles.positions)], position_tensor(program, span));
  }
  if (roles.mask >= 0) {
    LFARM_ASSIGN_OR_RETURN(tensors[at(roles.mask)], mask_tensor(program, span));
  }
  std::vector<TensorRef> refs;
  for (const HostTensor& tensor : tensors) refs.push_back(common::ref_of(tensor));
  if (Status done = program.call(refs, outputs_); !done.ok()) {
    return explained(program, sequences[0].size(), done.error());
  }
  int place = program.model->user_outputs[at(roles.logits)].graph_output;
  logits_ = &outputs_.user[at(place)];
  return {};
}

Result<const GeneratorProgram*> Generator::widest(int64_t tokens) const {
  const GeneratorProgram* best = nullptr;
  bool best_is_ready = false;
  int64_t least = INT64_MAX, most = 0;
  for (const GeneratorProgram& program : programs_) {
    const Roles& roles = program.roles;
    least = std::min(least, roles.width_least);
    most = std::max(most, roles.width_most);
    bool fits = roles.width_least <= tokens && (roles.has_cache || tokens <= roles.width_most);
    if (!fits) continue;
    bool is_ready = !program.is_ready || program.is_ready();
    bool is_wider = best == nullptr || roles.width_most > best->roles.width_most;
    if (is_ready == best_is_ready ? is_wider : is_ready) {
      best = &program;
      best_is_ready = is_ready;
    }
  }
  if (best != nullptr) return best;
  return common::invalid_input(cat("the model takes ", least, " to ", most,
                                   programs_[0].roles.has_cache ? " tokens a call" : " tokens",
                                   ", and ", tokens, " are left"));
}

Status Generator::feed(const Sequences& sequences, int64_t start, int64_t chunk) {
  auto end = static_cast<int64_t>(sequences[0].size());
  if (!programs_[0].roles.has_cache) {
    LFARM_ASSIGN_OR_RETURN(const GeneratorProgram* program, widest(end));
    return call(*program, sequences, 0, end);
  }
  while (start < end) {
    int64_t wanted = chunk > 0 ? std::min(chunk, end - start) : end - start;
    LFARM_ASSIGN_OR_RETURN(const GeneratorProgram* program, widest(wanted));
    int64_t width = std::min(wanted, program->roles.width_most);
    LFARM_RETURN_IF_ERROR(call(*program, sequences, start, width));
    start += width;
  }
  return {};
}

std::span<const float> Generator::logits_of(size_t sequence) {
  const std::vector<int64_t>& sizes = logits_->sizes();
  int64_t words = sizes.back(), rows = sizes.size() == 3 ? sizes[1] : 1;
  int64_t first = ((static_cast<int64_t>(sequence) + 1) * rows - 1) * words;
  if (logits_->dtype() == common::DType::kFloat32) {
    return {reinterpret_cast<const float*>(logits_->data()) + first, static_cast<size_t>(words)};
  }
  row_.resize(static_cast<size_t>(words));
  const auto* halves = reinterpret_cast<const uint16_t*>(logits_->data());
  // get() of each element takes a millisecond for a vocabulary of 150,000 words.
  if (logits_->dtype() == common::DType::kBfloat16) {
    std::transform(halves + first, halves + first + words, row_.begin(),
                   common::float_from_bfloat16);
  } else if (logits_->dtype() == common::DType::kFloat16) {
    std::transform(halves + first, halves + first + words, row_.begin(), common::float_from_half);
  } else {
    for (int64_t k = 0; k < words; ++k) {
      row_[static_cast<size_t>(k)] = static_cast<float>(logits_->get(first + k));
    }
  }
  return row_;
}

Result<Generated> Generator::run(const Sequences& prompts, const GenerateOptions& options,
                                 const OnToken& on_token) {
  LFARM_RETURN_IF_ERROR(check_run(programs_[0].roles, prompts, options));
  common::SteadyClock clock;
  int64_t begin = clock.now_ns();
  Generated out;
  out.prompt_tokens = static_cast<int64_t>(prompts[0].size());
  out.sequences.resize(prompts.size());
  // With those of earlier runs, whose values only count as places.
  Sequences all(prompts.size());
  for (size_t b = 0; b < prompts.size(); ++b) {
    all[b].assign(static_cast<size_t>(options.start), 0);
    all[b].insert(all[b].end(), prompts[b].begin(), prompts[b].end());
  }
  std::vector<char> has_ended(prompts.size(), 0);
  int64_t fed = options.start;
  for (bool goes_on = true; goes_on && out.steps < options.tokens; ++out.steps) {
    LFARM_RETURN_IF_ERROR(feed(all, fed, options.chunk));
    fed = static_cast<int64_t>(all[0].size());
    goes_on = false;
    for (size_t b = 0; b < all.size(); ++b) {
      // A sequence that has ended is filled up with its last token.
      int64_t token = all[b].back();
      if (has_ended[b] == 0) {
        std::span<const float> logits = logits_of(b);
        token = choose_token(logits, options.sampling, b, static_cast<uint64_t>(fed));
        if (std::isnan(logits[static_cast<size_t>(token)])) {
          return common::invalid_input(
              cat("the model's logits after ", fed, " tokens are all NaN"));
        }
        out.sequences[b].push_back(token);
        bool is_wanted = !on_token || on_token(b, out.steps, token);
        has_ended[b] = !is_wanted || common::contains(options.stop, token) ? 1 : 0;
        goes_on = goes_on || has_ended[b] == 0;
      }
      all[b].push_back(token);
    }
    if (out.steps == 0) out.first_ns = clock.now_ns() - begin;
  }
  out.rest_ns = clock.now_ns() - begin - out.first_ns;
  return out;
}

}  // namespace clients
