// Remembers compiled kernels by the content that made them, so that nothing is compiled twice.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/plan/plan.h"

namespace worker {

// A kernel's code: an entry in a shared object that other kernels may share.
struct CompiledKernel {
  common::EntryPoint entry;
  common::Digest object;
};

inline constexpr size_t kKernelCacheBytes = size_t{256} << 20;

// Where the key lies that entries on the disk are authenticated with: who can write files, but does
// not have it, cannot put a kernel of its own there.
enum class KernelCacheKey : uint8_t {
  kOnDisk,    // in the directory, so that later runs read the kernels of this one
  kInMemory,  // with this cache alone: for where candidates can read the worker's files
};

// In memory, bounded by bytes, the least recently used objects first out; and in a directory when
// one is given, from where other processes and later runs read. Thread-safe.
class KernelCache {
 public:
  // An empty `directory` keeps the cache in memory only. The directory is made when it is missing.
  explicit KernelCache(std::string directory = "", size_t max_bytes = kKernelCacheBytes,
                       KernelCacheKey key = KernelCacheKey::kOnDisk);

  // A kernel whose object is at hand. Entries on disk that are damaged, or that somebody without
  // the key has written, count as missing.
  std::optional<CompiledKernel> find(const common::Digest& key);
  // The bytes of an object that `find` or `insert` named; null when it was evicted since.
  std::shared_ptr<const common::Bytes> object(const common::Digest& digest);
  // Adds kernels that one compiler run made. A directory that cannot be written is reported once
  // in the log and costs only the persistence.
  void insert(const std::map<common::Digest, CompiledKernel>& kernels,
              const std::shared_ptr<const common::Bytes>& object);

 private:
  struct Object {
    std::shared_ptr<const common::Bytes> bytes;
    std::list<common::Digest>::iterator place;  // in oldest_first_
  };

  std::shared_ptr<const common::Bytes> object_locked(const common::Digest& digest);
  void store_locked(const common::Digest& digest, std::shared_ptr<const common::Bytes> bytes);
  void find_key();
  std::optional<CompiledKernel> read_entry(const common::Digest& key);

  std::mutex mutex_;
  std::string directory_;
  common::Digest key_;
  size_t max_bytes_;
  size_t bytes_ = 0;
  bool reported_ = false;
  std::map<common::Digest, CompiledKernel> kernels_;
  std::map<common::Digest, Object> objects_;
  std::list<common::Digest> oldest_first_;  // by last use
};

}  // namespace worker
