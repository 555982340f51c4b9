// How long calls take.
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>
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

// Milliseconds that each of `count` calls took.
template <class Body>
std::vector<double> samples(int count, Body&& body) {
  common::SteadyClock clock;
  std::vector<double> all;
  for (int k = 0; k < count; ++k) {
    int64_t start_ns = clock.now_ns();
    body(k);
    all.push_back(static_cast<double>(clock.now_ns() - start_ns) * 1e-6);
  }
  return all;
}

// The median, the 99th percentile and the worst of samples, of which there is at least one.
inline nlohmann::ordered_json spread(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return {{"median_ms", samples[samples.size() / 2]},
          {"p99_ms", samples[samples.size() - 1 - samples.size() / 100]},
          {"worst_ms", samples.back()}};
}

// The spread of `count` calls.
template <class Body>
nlohmann::ordered_json timed(int count, Body&& body) {
  return spread(samples(count, std::forward<Body>(body)));
}

// The calls of several clients at the same time. `make` gives the call of the client of that
// number, in a thread of its own.
using Call = std::function<void(int)>;
inline nlohmann::ordered_json timed_together(int clients, int calls,
                                             const std::function<Call(int)>& make) {
  std::vector<double> all;
  std::exception_ptr failure;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int client = 0; client < clients; ++client) {
    threads.emplace_back([&, client] {
      try {
        std::vector<double> own = samples(calls, make(client));
        std::lock_guard lock(mutex);
        all.insert(all.end(), own.begin(), own.end());
      } catch (...) {
        std::lock_guard lock(mutex);
        failure = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  return spread(all);
}

}  // namespace bench
