// Where a scatter's updates go, in emitted code.
#pragma once

#include "common/lowering/body/body_emitter.h"

namespace common {

struct ScatterPlace {
  Indices position;  // in the output
  StoreGuard guard;  // under which it exists
};

// Of the update at `indices`, one expression per axis of the updates. Emits the positions that the
// scatter reads.
ScatterPlace scatter_place(BodyEmitter& emitter, const Node& scatter, const Indices& indices);

}  // namespace common
