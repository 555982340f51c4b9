#include "worker/codegen/remembering_generator.h"

namespace worker {

RememberingGenerator::RememberingGenerator(std::unique_ptr<const CodeGenerator> generator,
                                           size_t text_bytes_max)
    : generator_(std::move(generator)),
      preamble_(generator_->preamble()),
      text_bytes_max_(text_bytes_max) {}

common::Result<KernelSource> RememberingGenerator::generate(const common::Kernel& kernel) const {
  common::Digest fingerprint = common::code_fingerprint(kernel);
  {
    std::lock_guard lock(mutex_);
    if (auto it = sources_.find(fingerprint); it != sources_.end()) return it->second;
  }
  LFARM_ASSIGN_OR_RETURN(KernelSource source, generator_->generate(kernel));
  std::lock_guard lock(mutex_);
  if (sources_.emplace(fingerprint, source).second) {
    oldest_first_.push_back(fingerprint);
    text_bytes_ += source.text.size();
  }
  while (text_bytes_ > text_bytes_max_) {
    auto oldest = sources_.find(oldest_first_.front());
    text_bytes_ -= oldest->second.text.size();
    sources_.erase(oldest);
    oldest_first_.pop_front();
  }
  return source;
}

}  // namespace worker
