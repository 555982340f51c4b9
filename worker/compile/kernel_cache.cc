#include "worker/compile/kernel_cache.h"

#include <sstream>
#include <vector>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/secret_file.h"

namespace worker {

using common::Bytes;
using common::cat;
using common::Digest;
using common::Status;

namespace {

constexpr size_t kMaxKeyFileBytes = 128;
constexpr size_t kMaxEntryBytes = size_t{1} << 20;
constexpr size_t kMaxObjectBytes = size_t{64} << 20;

constexpr size_t kEntryLines = 5;  // without the tensor maps

// One field a line: object, entry, units, scratch bytes, the block of threads and its two flags,
// tensor maps.
std::string entry_text(const CompiledKernel& kernel) {
  const common::EntryPoint& entry = kernel.entry;
  std::string maps;
  for (const common::TensorMap& map : entry.maps) maps += cat(print(map), "\n");
  return cat(kernel.object.hex(), "\n", entry.name, "\n", entry.units.text(), "\n",
             entry.scratch_bytes.text(), "\n", entry.block.threads, " ", entry.block.units, " ",
             entry.block.shared_bytes, " ", entry.waits ? 1 : 0, " ",
             entry.starts_from_bases ? 1 : 0, "\n", maps);
}

// The entry's text under its name, as nobody without the key can tell it.
std::string seal_of(const Digest& cache_key, const Digest& name, std::string_view text) {
  return common::keyed_digest_of(cache_key, common::as_bytes(cat(name.hex(), "\n", text))).hex();
}

std::optional<CompiledKernel> parse_entry(const std::string& text) {
  std::vector<std::string> lines;
  size_t start = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', start)) {
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  if (lines.size() < kEntryLines) return std::nullopt;
  auto object = Digest::parse(lines[0]);
  auto units = common::parse_expr(lines[2]);
  auto scratch = common::parse_expr(lines[3]);
  common::BlockShape block;
  std::istringstream numbers(lines[4]);
  bool waits = false, starts_from_bases = false;
  numbers >> block.threads >> block.units >> block.shared_bytes >> waits >> starts_from_bases;
  if (!object || !units.ok() || !scratch.ok() || !numbers) return std::nullopt;
  CompiledKernel kernel{{lines[1], *units, *scratch, block, waits, starts_from_bases}, *object};
  for (size_t k = kEntryLines; k < lines.size(); ++k) {
    auto map = common::parse_tensor_map(lines[k]);
    if (!map) return std::nullopt;
    kernel.entry.maps.push_back(*std::move(map));
  }
  return kernel;
}

}  // namespace

KernelCache::KernelCache(std::string directory, size_t max_bytes, KernelCacheKey key)
    : directory_(std::move(directory)), key_(common::random_key()), max_bytes_(max_bytes) {
  if (!directory_.empty() && key == KernelCacheKey::kOnDisk) find_key();
}

// Without one that can be kept, entries are of use to this cache alone.
void KernelCache::find_key() {
  std::string path = cat(directory_, "/key");
  if (common::make_directories(directory_).ok()) {
    (void)common::create_secret_file(path, cat(key_.hex(), "\n"));  // where there is none yet
  }
  auto text = common::read_secret_file(path, kMaxKeyFileBytes);
  if (!text.ok()) return;
  auto kept = Digest::parse(text->substr(0, text->find('\n')));
  if (kept) key_ = *kept;
}

std::optional<CompiledKernel> KernelCache::read_entry(const Digest& key) {
  if (directory_.empty()) return std::nullopt;
  auto text = common::read_file(cat(directory_, "/", key.hex(), ".kernel"), kMaxEntryBytes);
  if (!text.ok()) return std::nullopt;
  // The seal stands on the first line.
  size_t end = text->find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string entry = text->substr(end + 1);
  if (text->substr(0, end) != seal_of(key_, key, entry)) return std::nullopt;
  return parse_entry(entry);
}

std::optional<CompiledKernel> KernelCache::find(const Digest& key) {
  std::lock_guard lock(mutex_);
  std::optional<CompiledKernel> kernel;
  if (auto it = kernels_.find(key); it != kernels_.end()) {
    kernel = it->second;
  } else {
    kernel = read_entry(key);
  }
  if (!kernel || object_locked(kernel->object) == nullptr) return std::nullopt;
  kernels_[key] = *kernel;
  return kernel;
}

std::shared_ptr<const Bytes> KernelCache::object(const Digest& digest) {
  std::lock_guard lock(mutex_);
  return object_locked(digest);
}

std::shared_ptr<const Bytes> KernelCache::object_locked(const Digest& digest) {
  if (auto it = objects_.find(digest); it != objects_.end()) {
    oldest_first_.splice(oldest_first_.end(), oldest_first_, it->second.place);
    return it->second.bytes;
  }
  if (directory_.empty()) return nullptr;
  auto text = common::read_file(cat(directory_, "/", digest.hex(), ".so"), kMaxObjectBytes);
  if (!text.ok() || common::digest_of(*text) != digest) return nullptr;
  auto bytes = std::make_shared<const Bytes>(common::to_bytes(common::as_bytes(*text)));
  store_locked(digest, bytes);
  return bytes;
}

void KernelCache::store_locked(const Digest& digest, std::shared_ptr<const Bytes> bytes) {
  if (objects_.count(digest) != 0) return;
  bytes_ += bytes->size();
  objects_[digest] = {std::move(bytes), oldest_first_.insert(oldest_first_.end(), digest)};
  while (bytes_ > max_bytes_ && oldest_first_.size() > 1) {
    Digest victim = oldest_first_.front();
    oldest_first_.pop_front();
    bytes_ -= objects_[victim].bytes->size();
    objects_.erase(victim);
    for (auto it = kernels_.begin(); it != kernels_.end();) {
      it = it->second.object == victim ? kernels_.erase(it) : std::next(it);
    }
  }
}

void KernelCache::insert(const std::map<Digest, CompiledKernel>& kernels,
                         const std::shared_ptr<const Bytes>& object) {
  std::lock_guard lock(mutex_);
  Digest digest = common::digest_of(*object);
  store_locked(digest, object);
  for (const auto& [key, kernel] : kernels) kernels_[key] = kernel;
  if (directory_.empty()) return;
  // The object first: an entry never names an object that is not there yet.
  Status status = common::make_directories(directory_);
  if (status.ok()) {
    status = common::write_file_atomic(cat(directory_, "/", digest.hex(), ".so"), *object);
  }
  for (const auto& [key, kernel] : kernels) {
    if (!status.ok()) break;
    std::string entry = entry_text(kernel);
    std::string sealed = cat(seal_of(key_, key, entry), "\n", entry);
    status = common::write_file_atomic(cat(directory_, "/", key.hex(), ".kernel"),
                                       common::as_bytes(sealed));
  }
  if (!status.ok() && !reported_) {
    reported_ = true;
    common::log_warning(cat("compiled kernels are not kept: ", status.error().message));
  }
}

}  // namespace worker
