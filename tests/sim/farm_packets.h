// Messages of the simulation as envelopes of the real codec, to be damaged on their way.
#pragma once

#include <optional>

#include "common/base/random.h"
#include "farm_scene.h"

namespace sim {

struct Damaged {
  bool decodes = false;        // the decoder took the bytes for a message
  std::optional<Event> event;  // what it would have said, where it is one that matters
};

// The event's message with one bit flipped.
Damaged damage_on_the_way(const Event& event, common::Random& random);

}  // namespace sim
