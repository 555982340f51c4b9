#include "common/runtime/executor/index_checks.h"

#include <atomic>
#include <cstring>

namespace common {
namespace {

constexpr uint64_t kRunsOnTheirWayMax = 64;
// The runs in graphs of the caller's, which have one entry behind those of the others.
constexpr uint64_t kCaptured = UINT64_MAX;
constexpr size_t kEntries = kRunsOnTheirWayMax + 1;

size_t place_of(uint64_t run) {
  return static_cast<size_t>(run == kCaptured ? kRunsOnTheirWayMax : run % kRunsOnTheirWayMax);
}

// What a value holds until it arrives; no check gives it.
constexpr int64_t kNotThere = INT64_MIN;

// The device writes it meanwhile.
int64_t load(const std::byte* value) {
  auto* word = reinterpret_cast<int64_t*>(const_cast<std::byte*>(value));
  return std::atomic_ref<int64_t>(*word).load(std::memory_order_acquire);
}

}  // namespace

IndexChecks::~IndexChecks() {
  if (seen_ != asked_) (void)device_->synchronise();
}

void IndexChecks::describe(const std::vector<GraphOutput>& outputs, Device& device, size_t band) {
  device_ = &device;
  band_ = band;
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o].kind == OutputKind::kCheck) {
      checks_.push_back({static_cast<int>(o), outputs[o].limit});
    }
  }
  values_.assign(checks_.size(), kNoPosition);
}

size_t IndexChecks::entry_bytes() const { return checks_.size() * kBufferAlignment; }

std::byte* IndexChecks::entry(uint64_t run) const {
  return host_.get() + place_of(run) * entry_bytes();
}

Status IndexChecks::make_room(std::vector<std::byte*>& outputs) {
  if (checks_.empty()) return {};
  if (memory_.data() == nullptr) {
    LFARM_ASSIGN_OR_RETURN(memory_, GuardedMemory::allocate(*device_, entry_bytes(), band_));
    bool is_host = device_->uses_host_memory();
    symbols_.resize(is_host ? 1 : kEntries);
    if (!is_host) {
      LFARM_ASSIGN_OR_RETURN(host_, device_->allocate_host(kEntries * entry_bytes()));
    }
  }
  for (size_t k = 0; k < checks_.size(); ++k) {
    outputs[static_cast<size_t>(checks_[k].output)] = memory_.data() + k * kBufferAlignment;
  }
  return {};
}

Status IndexChecks::fetch(std::span<const int64_t> symbols) {
  if (checks_.empty()) return {};
  if (host_ == nullptr) {
    symbols_[0].assign(symbols.begin(), symbols.end());
    return {};
  }
  if (device_->is_capturing()) return fetch_captured(symbols);
  look(false);
  if (asked_ - seen_ == kRunsOnTheirWayMax) {
    LFARM_RETURN_IF_ERROR(device_->synchronise());
    look(true);
  }
  std::byte* values = entry(asked_);
  clear(values);
  symbols_[place_of(asked_)].assign(symbols.begin(), symbols.end());
  LFARM_RETURN_IF_ERROR(device_->copy_out_later(values, memory_.data(), entry_bytes()));
  ++asked_;
  return {};
}

// Every replay writes there.
Status IndexChecks::fetch_captured(std::span<const int64_t> symbols) {
  std::byte* values = entry(kCaptured);
  clear(values);
  symbols_[place_of(kCaptured)].assign(symbols.begin(), symbols.end());
  has_captured_ = true;
  return device_->copy_out_later(values, memory_.data(), entry_bytes());
}

void IndexChecks::clear(std::byte* values) const {
  for (size_t k = 0; k < checks_.size(); ++k) {
    std::memcpy(values + k * kBufferAlignment, &kNotThere, sizeof kNotThere);
  }
}

std::span<const int64_t> IndexChecks::take_values() {
  if (checks_.empty()) return {};
  if (host_ == nullptr) {
    look_at(memory_.data(), symbols_[0], seen_);
  } else {
    look(true);
  }
  return values_;
}

std::optional<FailedCheck> IndexChecks::take_failed() {
  if (host_ != nullptr) look(false);
  std::optional<FailedCheck> failed = failed_;
  if (failed) failed->is_last = host_ == nullptr || failed_run_ + 1 == asked_;
  failed_.reset();
  return failed;
}

Status IndexChecks::check_bands() const { return memory_.check(*device_, "the checks' values"); }

bool IndexChecks::has_arrived(uint64_t run) const {
  for (size_t k = 0; k < checks_.size(); ++k) {
    if (load(entry(run) + k * kBufferAlignment) == kNotThere) return false;
  }
  return true;
}

void IndexChecks::look(bool is_done) {
  if (has_captured_ && has_arrived(kCaptured)) {
    look_at(entry(kCaptured), symbols_[place_of(kCaptured)], kCaptured);
    clear(entry(kCaptured));
  }
  for (; seen_ != asked_ && (is_done || has_arrived(seen_)); ++seen_) {
    look_at(entry(seen_), symbols_[place_of(seen_)], seen_);
  }
}

void IndexChecks::look_at(const std::byte* values, std::span<const int64_t> symbols, uint64_t run) {
  for (size_t k = 0; k < checks_.size(); ++k) {
    values_[k] = load(values + k * kBufferAlignment);
    if (values_[k] == kNoPosition || failed_) continue;
    failed_ = FailedCheck{checks_[k].output, values_[k], checks_[k].limit.evaluate(symbols), true};
    failed_run_ = run;
  }
}

}  // namespace common
