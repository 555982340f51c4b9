// Makes a message that quotes an archive fit for a terminal and a log, whatever its names hold.
#pragma once

#include <string>
#include <utility>

#include "common/base/result.h"

namespace clients {

inline constexpr size_t kMessageBytesMax = 2000;

// Control characters become '?', and what is beyond kMessageBytesMax is cut off.
inline common::Error one_line(common::Error error) {
  if (error.message.size() > kMessageBytesMax) {
    error.message.resize(kMessageBytesMax);
    error.message += "...";
  }
  for (char& c : error.message) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return error;
}

template <class Value>
common::Result<Value> one_line(common::Result<Value> result) {
  if (result.ok()) return result;
  return one_line(result.error());
}

}  // namespace clients
