// How a winner was made, kept beside it: with this any worker makes its machine code anew, whatever
// compiler it has.
#pragma once

#include <string>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace coordinator::service {

struct Recipe {
  common::Bytes payload;  // the finalist's encoded TaskPayload
  common::Bytes graph;    // that the payload names, encoded
};

// Whether a blob is one. Recipes hold models' graphs, so no client gets them.
bool is_recipe(common::ByteView blob);
std::string encode_recipe(const Recipe& recipe);
// kCorrupt when it is none, or its payload does not name its graph.
common::Result<Recipe> decode_recipe(common::ByteView blob);

}  // namespace coordinator::service
