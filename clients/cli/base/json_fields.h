// Fields of JSON objects that another process wrote, whatever kinds of values it put there.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace clients {

// The integer called `name`, or 0 where there is none that int64_t holds.
template <class Json>
int64_t integer_in(const Json& object, const char* name) {
  auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) return 0;
  bool fits = !found->is_number_unsigned() ||
              found->template get<uint64_t>() <= std::numeric_limits<int64_t>::max();
  return fits ? found->template get<int64_t>() : 0;
}

// Texts as they are, other values as JSON writes them.
template <class Json>
std::string text_of(const Json& value) {
  return value.is_string() ? value.template get<std::string>() : value.dump();
}

}  // namespace clients
