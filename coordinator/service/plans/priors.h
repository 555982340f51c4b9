// Priors: what earlier searches learned about kernels in general, per target and machine class,
// kept in the store so that the next search begins with it.
#pragma once

#include <string>
#include <string_view>

#include "cache/store/store.h"
#include "coordinator/search/genes/effects.h"

namespace coordinator::service {

// The store's names of priors begin with this. The number changes with the meaning of features and
// of the predictions that effects correct: old ones would be about something else.
inline constexpr std::string_view kPriorsPrefix = "effects-2/";

// As bytes; empty when they cannot be read, because wrong priors are worse than none.
std::string encode_effects(const EffectTable& table);
EffectTable decode_effects(std::string_view bytes);

// Empty while nothing was learned, or when what the store holds cannot be read. Thread-safe.
// `device`: see device_name().
EffectTable load_priors(cache::Store& store, const std::string& device);
// Merges what a finished search learned into the stored priors. Not to be called for one device by
// two threads at once.
common::Status merge_priors(cache::Store& store, const std::string& device,
                            const EffectTable& learned);

}  // namespace coordinator::service
