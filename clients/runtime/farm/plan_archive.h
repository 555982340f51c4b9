// Plans as one file with all that they need, to be carried to where the farm cannot be reached.
//
// The file is a row of parts: signed plans, the objects that they name, and the lists of what their
// farms have revoked. Plans and lists bear their farm's signature and a plan names its objects by
// their digests, so that nothing in the file has to be taken on the word of who wrote it. Numbers
// are little-endian:
//
//   header  "LFARMPLN", u32 version, u32 0
//   part    u32 kind, u32 0, u64 bytes, digest of the content; content, zeros up to 8 bytes
//   end     u32 0, u32 0, u64 number of parts, digest of all parts' headers; the file ends here
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/result.h"

namespace clients {

inline constexpr uint32_t kPlanArchiveVersion = 1;
inline constexpr size_t kArchivePartsMax = 65'536;

enum class ArchivePartKind : uint32_t { kPlan = 1, kObject = 2, kRevocations = 3 };

struct ArchivePart {
  ArchivePartKind kind{};
  common::Digest digest;
  uint64_t offset = 0;  // of the content
  uint64_t bytes = 0;
};

// Writes beside `path` and takes its name when all is there. Holds one part at a time. Not
// thread-safe.
class PlanArchiveWriter {
 public:
  static common::Result<PlanArchiveWriter> create(const std::string& path);
  PlanArchiveWriter(PlanArchiveWriter&& other) noexcept = default;
  PlanArchiveWriter& operator=(PlanArchiveWriter&&) = delete;
  // What was not finished leaves nothing behind.
  ~PlanArchiveWriter();

  bool has(const common::Digest& digest) const { return known_.contains(digest); }
  // A part that is there already is left out.
  common::Status add(ArchivePartKind kind, common::ByteView content);
  common::Status finish();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  PlanArchiveWriter(std::string path, std::string temporary, std::FILE* file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(file) {}
  common::Status write(common::ByteView bytes);
  std::string path_, temporary_;
  std::unique_ptr<std::FILE, Close> file_;
  std::unordered_set<common::Digest> known_;
  common::Hasher headers_;
  uint64_t parts_ = 0;
};

// What a file holds, known without reading its parts. Thread-safe.
class PlanArchive {
 public:
  // Reads into `to`, all of it, what begins at `offset`.
  using ReadAt = std::function<common::Status(uint64_t offset, std::span<std::byte> to)>;

  // kInvalidInput: not such a file; kUnsupported: of another version; kCorrupt: cut off or damaged.
  // `path` names the file in messages.
  static common::Result<PlanArchive> open(const std::string& path);
  static common::Result<PlanArchive> parse(const std::string& path, uint64_t bytes, ReadAt read);

  // The parts of a kind, in the file's order.
  std::vector<ArchivePart> parts(ArchivePartKind kind) const;
  // Null when there is none of that kind and digest.
  const ArchivePart* find(ArchivePartKind kind, const common::Digest& digest) const;
  // kCorrupt when the content does not have its digest.
  common::Result<common::Bytes> read(const ArchivePart& part) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  ReadAt read_;
  std::vector<ArchivePart> parts_;
  std::unordered_map<common::Digest, size_t> index_;  // of every part
};

}  // namespace clients
