// Files of plans: if these fail, a damaged or foreign file is taken for plans, or a good one is
// not.
#include "clients/runtime/farm/plan_archive.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/base/cat.h"
#include "common/base/files.h"

namespace clients {
namespace {

using common::Code;

class PlanArchiveTest : public testing::Test {
 protected:
  PlanArchiveTest() : scratch_(common::ScratchDirectory::create("lfarm-archive").value()) {}
  std::string path(const std::string& name) const { return scratch_.path() + "/" + name; }
  static common::Bytes bytes(const std::string& text) {
    return common::to_bytes(common::as_bytes(text));
  }
  // Parts of odd and of whole sizes.
  std::string written() {
    auto writer = PlanArchiveWriter::create(path("file"));
    EXPECT_TRUE(writer.ok());
    EXPECT_TRUE(writer->add(ArchivePartKind::kPlan, bytes("a plan")).ok());
    EXPECT_TRUE(writer->add(ArchivePartKind::kObject, bytes("12345678")).ok());
    EXPECT_TRUE(writer->add(ArchivePartKind::kObject, bytes("12345678")).ok());
    EXPECT_TRUE(writer->add(ArchivePartKind::kRevocations, bytes("a list")).ok());
    EXPECT_FALSE(common::file_exists(path("file")));
    EXPECT_TRUE(writer->finish().ok());
    return common::read_file(path("file")).value();
  }
  std::string save(const std::string& content) {
    std::ofstream(path("other"), std::ios::binary | std::ios::trunc) << content;
    return path("other");
  }
  // Why nothing of the file can be used; nothing when all of it can.
  static std::optional<common::Error> trouble(const std::string& path) {
    auto archive = PlanArchive::open(path);
    if (!archive.ok()) return archive.error();
    for (auto kind :
         {ArchivePartKind::kPlan, ArchivePartKind::kObject, ArchivePartKind::kRevocations}) {
      std::vector<ArchivePart> parts = archive->parts(kind);
      for (const ArchivePart& part : parts) {
        auto content = archive->read(part);
        if (!content.ok()) return content.error();
      }
    }
    return std::nullopt;
  }

 private:
  common::ScratchDirectory scratch_;
};

TEST_F(PlanArchiveTest, WhatGoesInComesOut) {
  written();
  auto archive = PlanArchive::open(path("file"));
  ASSERT_TRUE(archive.ok()) << archive.error().message;
  ASSERT_EQ(archive->parts(ArchivePartKind::kPlan).size(), 1u);
  ASSERT_EQ(archive->parts(ArchivePartKind::kObject).size(), 1u);
  const ArchivePart* object =
      archive->find(ArchivePartKind::kObject, common::digest_of("12345678"));
  ASSERT_NE(object, nullptr);
  EXPECT_EQ(archive->read(*object).value(), bytes("12345678"));
  EXPECT_EQ(archive->find(ArchivePartKind::kPlan, common::digest_of("12345678")), nullptr);
}

TEST_F(PlanArchiveTest, WhatWasNotFinishedLeavesNothing) {
  {
    auto writer = PlanArchiveWriter::create(path("file"));
    ASSERT_TRUE(writer->add(ArchivePartKind::kPlan, bytes("a plan")).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(std::filesystem::path(path("file")).parent_path()));
}

TEST_F(PlanArchiveTest, EveryCutAndEveryFlippedBitIsSeen) {
  std::string good = written();
  ASSERT_FALSE(trouble(save(good)));
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_TRUE(trouble(save(good.substr(0, size)))) << "cut after " << size;
  }
  EXPECT_TRUE(trouble(save(good + std::string(8, '\0'))));
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    auto error = trouble(save(bad));
    ASSERT_TRUE(error) << "bit " << bit;
    EXPECT_EQ(error->message.find('\n'), std::string::npos);
  }
}

TEST_F(PlanArchiveTest, OtherFilesAndVersionsAreNamed) {
  auto other = trouble(save("PK\3\4 and so on, as a model begins"));
  ASSERT_TRUE(other);
  EXPECT_EQ(other->code, Code::kInvalidInput);
  EXPECT_NE(other->message.find("is no file of plans"), std::string::npos) << other->message;
  std::string newer = written();
  newer[8] = 2;
  auto version = trouble(save(newer));
  ASSERT_TRUE(version);
  EXPECT_EQ(version->code, Code::kUnsupported);
  EXPECT_NE(version->message.find("is of version 2"), std::string::npos) << version->message;
  EXPECT_EQ(trouble(path("nowhere"))->code, Code::kInvalidInput);
}

}  // namespace
}  // namespace clients
