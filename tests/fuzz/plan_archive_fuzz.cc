// Goal: whatever lies in a file of plans, it is a list of parts within the file or an error, found
// without reading the parts. Method: files of some parts, damaged. Parts must not overlap, must lie
// in the file, and what read() gives must have its digest.
#include <algorithm>
#include <cstring>

#include "clients/runtime/farm/plan_archive.h"
#include "common/base/check.h"
#include "common/base/files.h"
#include "tests/fuzz/fuzz.h"

namespace {

std::string archive_of(const std::vector<std::string>& contents) {
  auto scratch = common::ScratchDirectory::create("lfarm-archive-fuzz").value();
  std::string path = scratch.path() + "/file";
  auto writer = clients::PlanArchiveWriter::create(path);
  LFARM_CHECK(writer.ok(), "no writer");
  uint32_t kind = 0;
  for (const std::string& content : contents) {
    auto added = writer->add(static_cast<clients::ArchivePartKind>(kind++ % 3 + 1),
                             common::as_bytes(content));
    LFARM_CHECK(added.ok(), added.error().message);
  }
  LFARM_CHECK(writer->finish().ok(), "no file");
  return common::read_file(path).value();
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  return {archive_of({}), archive_of({"plan"}),
          archive_of({"plan", "object", "list", "another plan", std::string(300, 'x')})};
}

size_t fuzz::heap_bytes_max() { return size_t{8} << 20; }

void fuzz::one_input(common::ByteView bytes) {
  auto archive = clients::PlanArchive::parse(
      "file", bytes.size(), [bytes](uint64_t offset, std::span<std::byte> to) -> common::Status {
        LFARM_CHECK(offset <= bytes.size() && to.size() <= bytes.size() - offset,
                    "a read beyond the file");
        if (!to.empty()) std::memcpy(to.data(), bytes.data() + offset, to.size());
        return {};
      });
  if (!archive.ok()) return;
  std::vector<clients::ArchivePart> all;
  for (auto kind : {clients::ArchivePartKind::kPlan, clients::ArchivePartKind::kObject,
                    clients::ArchivePartKind::kRevocations}) {
    for (const clients::ArchivePart& part : archive->parts(kind)) all.push_back(part);
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.offset < b.offset; });
  uint64_t end = 0;
  for (const clients::ArchivePart& part : all) {
    LFARM_CHECK(part.offset >= end && part.bytes <= bytes.size() - part.offset, "parts overlap");
    end = part.offset + part.bytes;
    auto content = archive->read(part);
    if (!content.ok()) continue;
    LFARM_CHECK(common::digest_of(*content) == part.digest, "content without its digest");
  }
}
