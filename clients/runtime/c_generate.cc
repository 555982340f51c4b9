// The C interface's generation of tokens (include/lfarm.h).
#include <memory>
#include <span>
#include <vector>

#include "clients/generate/generator.h"
#include "clients/generate/programs.h"
#include "clients/runtime/c_handles.h"

using clients::guarded;
using common::Status;

namespace {

clients::GenerateOptions options_of(const lfarm_generation& given) {
  clients::GenerateOptions options;
  options.tokens = given.tokens;
  options.sampling = {given.temperature, given.top_k, given.top_p, given.seed};
  options.stop.assign(given.stop, given.stop + given.stop_count);
  options.chunk = given.chunk;
  options.start = given.start;
  return options;
}

}  // namespace

void lfarm_generation_init(lfarm_generation* options) {
  clients::GenerateOptions plain;
  *options = {sizeof *options,
              plain.tokens,
              plain.sampling.temperature,
              plain.sampling.top_k,
              plain.sampling.top_p,
              plain.sampling.seed,
              nullptr,
              0,
              plain.chunk,
              plain.start};
}

lfarm_status lfarm_generator_create(lfarm_model* model, lfarm_instance** instance,
                                    lfarm_error** error) {
  return guarded(error, [&]() -> Status {
    LFARM_ASSIGN_OR_RETURN(clients::Roles roles, clients::roles_of(*model->model));
    lfarm_model last = *model;
    last.model = clients::with_last_logits(model->model, roles);
    return clients::make_instance(last, clients::width_ranges(*model->model, roles), instance);
  });
}

lfarm_status lfarm_generate(lfarm_instance* instance, const int64_t* prompts, size_t batch,
                            size_t length, const lfarm_generation* options,
                            lfarm_token_callback on_token, void* context, lfarm_error** error) {
  return guarded(error, [&]() -> Status {
    LFARM_ASSIGN_OR_RETURN(clients::Roles roles, clients::roles_of(*instance->model));
    std::vector<std::vector<int64_t>> sequences;
    for (size_t b = 0; b < batch; ++b) {
      sequences.emplace_back(prompts + b * length, prompts + (b + 1) * length);
    }
    lfarm_generation plain;
    lfarm_generation_init(&plain);
    clients::Generator generator(
        {{instance->model, roles,
          [instance](std::span<const common::TensorRef> inputs, common::RunOutputs& outputs) {
            return instance->instance->run(inputs, outputs);
          }}});
    auto made = generator.run(sequences, options_of(options != nullptr ? *options : plain),
                              [&](size_t sequence, int64_t step, int64_t token) {
                                return on_token(context, sequence, step, token) != 0;
                              });
    return made.ok() ? Status() : made.error();
  });
}
