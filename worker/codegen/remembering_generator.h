// A code generator that writes each kernel once: searches come back to the same kernels in most of
// their candidates.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "common/base/digest.h"
#include "worker/codegen/generator.h"

namespace worker {

// Gives what `generator` gives. Keeps the latest texts, at most `text_bytes_max` of them, by the
// kernels' fingerprints. Thread-safe if `generator` is.
class RememberingGenerator final : public CodeGenerator {
 public:
  explicit RememberingGenerator(std::unique_ptr<const CodeGenerator> generator,
                                size_t text_bytes_max = size_t{32} << 20);
  std::string_view language() const override { return generator_->language(); }
  std::string preamble() const override { return preamble_; }
  std::string preamble_for(std::string_view texts) const override {
    return generator_->preamble_for(texts);
  }
  common::Result<KernelSource> generate(const common::Kernel& kernel) const override;

 private:
  const std::unique_ptr<const CodeGenerator> generator_;
  const std::string preamble_;
  const size_t text_bytes_max_;
  mutable std::mutex mutex_;  // guards what follows
  mutable std::map<common::Digest, KernelSource> sources_;
  mutable std::deque<common::Digest> oldest_first_;
  mutable size_t text_bytes_ = 0;
};

}  // namespace worker
