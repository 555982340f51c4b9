// What searches learned about kernels on a target and machine class in general, kept in the store
// beside the measurements it came from, so that every job's search helps the next one's.
#pragma once

#include <string>
#include <string_view>

#include "cache/store/store.h"
#include "coordinator/search/effects.h"

namespace coordinator::service {

// The store's names of lessons begin with this. The number changes with the meaning of features and
// of the predictions that effects correct: old lessons would be about something else.
inline constexpr std::string_view kLessonsPrefix = "effects-2/";

// As bytes; empty when they cannot be read, because some lessons may be worse than none.
std::string encode_effects(const EffectTable& table);
EffectTable decode_effects(std::string_view bytes);

// Empty while nothing was learned, or when what the store holds cannot be read. Thread-safe.
// `device`: see device_name().
EffectTable load_lessons(cache::Store& store, const std::string& device);
// Merges a finished search's lessons into what is kept. Not to be called for one device by two
// threads at once.
common::Status keep_lessons(cache::Store& store, const std::string& device,
                            const EffectTable& learned);

}  // namespace coordinator::service
