// Fixtures shared by the tests of the store.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cache/store/store.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/random.h"

namespace cache {

// The value of a Result that must hold one; the test stops with the error's message otherwise.
template <class T>
T must(common::Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}
inline void must(const common::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.error().message);
}

inline common::Digest key(std::string_view name) { return common::digest_of(name); }

// Bytes that don't compress, the same for the same seed.
inline std::string noise(size_t size, uint64_t seed) {
  common::Random random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.next());
  return bytes;
}

inline NewPlan make_plan(std::string_view name, int64_t best_ns, std::vector<common::Digest> needs,
                         std::string bytes = "plan bytes") {
  NewPlan plan;
  plan.facts.key = key(name);
  plan.facts.graph_hash = key(common::cat("graph of ", name));
  plan.facts.plan_id = common::digest_of(common::cat(name, ' ', bytes));
  plan.facts.best_ns = best_ns;
  plan.bytes = std::move(bytes);
  plan.needs = std::move(needs);
  return plan;
}

class StoreTest : public testing::Test {
 protected:
  StoreTest() : scratch_(must(common::ScratchDirectory::create("store_test"))) {
    options_.wall_ns = [this] { return now_ns_ += 1000; };
    reopen();
  }
  // Closes the store and opens it again.
  void reopen() {
    store_.reset();
    store_ = must(Store::open(directory(), options_));
  }
  void pass_ms(int64_t ms) { now_ns_ += ms * 1'000'000; }
  std::string directory() const { return scratch_.path() + "/state"; }

  common::ScratchDirectory scratch_;
  std::atomic<int64_t> now_ns_{1'000'000'000};
  StoreOptions options_;
  std::unique_ptr<Store> store_;
};

}  // namespace cache
