// How long calls take.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace bench {

template <class T>
T must(common::Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}
inline void must(const common::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.error().message);
}

// Milliseconds: the median and the worst of `count` calls.
template <class Body>
nlohmann::ordered_json timed(int count, Body&& body) {
  common::SteadyClock clock;
  std::vector<double> all;
  for (int k = 0; k < count; ++k) {
    int64_t start_ns = clock.now_ns();
    body(k);
    all.push_back(static_cast<double>(clock.now_ns() - start_ns) * 1e-6);
  }
  std::sort(all.begin(), all.end());
  return {{"median_ms", all[all.size() / 2]}, {"worst_ms", all.back()}};
}

}  // namespace bench
