#include "common/schedule/attention/gpu_attention_tiling.h"

#include "common/schedule/attention/decode_attention.h"
#include "common/schedule/attention/flash_attention.h"
#include "common/schedule/attention/skinny_attention.h"
#include "common/schedule/attention/threads_attention.h"

namespace common {

std::optional<Tiling> choose_gpu_attention_tiling(const Graph& body, const Schedule& schedule,
                                                  int64_t processors, bool has_warpgroups) {
  auto form = attention_form(body);
  if (!form) return std::nullopt;
  auto half = half_attention(body, *form);
  if (half) {
    auto decode = choose_decode_attention(*half, schedule, processors);
    if (decode) return to_tiling(*decode);
  }
  auto skinny = choose_skinny_attention(half ? half->body : body, half ? half->form : *form,
                                        schedule, processors);
  if (skinny) return to_tiling(*skinny);
  if (half) {
    auto flash = choose_flash_attention(*half, schedule, processors, has_warpgroups);
    if (flash) return flash;
  }
  auto threads = choose_threads_attention(body, *form, schedule, processors);
  return threads ? std::optional(to_tiling(*threads)) : std::nullopt;
}

}  // namespace common
