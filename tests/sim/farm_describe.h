// Events and actions as lines of text: what a trace of the simulation shows, and what its digest is
// over.
#pragma once

#include <string>

#include "coordinator/farm/actions.h"
#include "coordinator/farm/events.h"

namespace sim {

std::string describe(const coordinator::farm::Event& event);
// Indented: actions stand below the event that they answer.
std::string describe(const coordinator::farm::Action& action);

}  // namespace sim
