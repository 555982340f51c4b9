// What a graph input's name says of the weight or state behind it: its name in the module, and the
// line of the model's source that reads it.
//
//   origin_text({"layers.0.up.weight", "model.py:12"})  "layers.0.up.weight at model.py:12"
#pragma once

#include <string>
#include <string_view>

namespace common {

struct TensorOrigin {
  std::string tensor;  // "layers.0.up.weight"
  std::string source;  // "model.py:12"; empty where nobody knows
  friend bool operator==(const TensorOrigin&, const TensorOrigin&) = default;
};

std::string origin_text(const TensorOrigin& origin);
// What origin_text() was made of; of any other name, the name.
TensorOrigin parse_origin(std::string_view name);

}  // namespace common
