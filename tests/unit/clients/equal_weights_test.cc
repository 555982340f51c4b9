// Weights that two archives share: if these fail, a program computes with another model's weights,
// or gigabytes are compared again at each start.
#include "clients/generate/equal_weights.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "clients/pt2/archive/file_identity.h"
#include "common/base/files.h"
#include "common/ir/hlir/builder.h"

namespace clients {
namespace {

namespace fs = std::filesystem;
using common::DType;
using Pairs = std::vector<EqualWeight>;

constexpr int64_t kBytes = 4;

// A model whose weights "a", "b", ... are `kBytes` bytes each of the file, one after the other.
Model model_of(const std::string& path) {
  Model model;
  model.file = common::MappedFile::open(path).value();
  common::GraphBuilder b;
  common::NodeId last = -1;
  for (size_t at = 0; at < model.file->bytes().size(); at += kBytes) {
    std::string name(1, static_cast<char>('a' + model.weights.size()));
    last = b.input(common::InputKind::kWeight, DType::kUint8, {kBytes}, name);
    model.weights.push_back(StoredTensor{
        ScalarType::kUint8, {kBytes}, {1}, 0, model.file->bytes().subspan(at, kBytes), model.file});
    model.weight_names.push_back(name);
  }
  b.output(last);
  model.graph = b.finish();
  return model;
}

class Archives : public ::testing::Test {
 protected:
  Archives() {
    write(first_, "aaaabbbbcccc");
    write(second_, "aaaaXXXXcccc");
    remembered_ = {folder_.path() + "/weights", {}, {}, 0};
  }

  // Until the system's clock has gone on: with another identity than before.
  static void write(const std::string& path, const std::string& content) {
    auto before = file_identity(path);
    do {
      int fd = ::open(path.c_str(), O_WRONLY | O_CREAT, 0600);
      ASSERT_EQ(::pwrite(fd, content.data(), content.size(), 0),
                static_cast<ssize_t>(content.size()));
      ::close(fd);
    } while (file_identity(path) == before);
  }

  Pairs equal() {
    remembered_.from = file_identity(first_).value();
    remembered_.to = file_identity(second_).value();
    return equal_weights(model_of(first_), model_of(second_), remembered_);
  }

  std::vector<std::string> answers() const {
    std::vector<std::string> all;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(remembered_.directory, error)) {
      all.push_back(entry.path().string());
    }
    return all;
  }

  common::ScratchDirectory folder_ = common::ScratchDirectory::create("lfarm-equal").value();
  const std::string first_ = folder_.path() + "/decode", second_ = folder_.path() + "/prompt";
  RememberedComparison remembered_;
};

TEST_F(Archives, AreComparedByNameTypeAndContent) {
  Model from = model_of(first_), to = model_of(second_);
  EXPECT_EQ(equal_weights(from, to), (Pairs{{0, 0}, {2, 2}}));
  std::swap(to.weights[0], to.weights[2]);
  std::swap(to.weight_names[0], to.weight_names[2]);
  EXPECT_EQ(equal_weights(from, to), (Pairs{{2, 0}, {0, 2}}));
  to.weights[0]->sizes = {2, 2};
  to.weights[0]->strides = {2, 1};
  EXPECT_EQ(equal_weights(from, to), (Pairs{{0, 2}}));
}

TEST_F(Archives, AreComparedOnce) {
  EXPECT_EQ(equal(), (Pairs{{0, 0}, {2, 2}}));
  ASSERT_EQ(answers().size(), 1);
  EXPECT_EQ(equal(), (Pairs{{0, 0}, {2, 2}}));
  // What is kept is what is answered.
  ASSERT_TRUE(common::write_file_atomic(answers()[0], common::as_bytes("001")).ok());
  EXPECT_EQ(equal(), (Pairs{{2, 2}}));
}

TEST_F(Archives, AreComparedAgainOnceAFileChangesInPlace) {
  equal();
  FileIdentity before = file_identity(second_).value();
  write(second_, "YYYYXXXXcccc");
  EXPECT_EQ(equal(), (Pairs{{2, 2}}));
  // Programs may set the time at which a file was written last.
  timespec times[2] = {{0, UTIME_OMIT},
                       {before.written_ns / 1'000'000'000, before.written_ns % 1'000'000'000}};
  ASSERT_EQ(::utimensat(AT_FDCWD, second_.c_str(), times, 0), 0);
  ASSERT_EQ(file_identity(second_)->written_ns, before.written_ns);
  EXPECT_EQ(equal(), (Pairs{{2, 2}}));
}

TEST_F(Archives, WhatChangedJustNowIsNotRemembered) {
  remembered_.settled_ns = kSettledNs;
  EXPECT_EQ(equal(), (Pairs{{0, 0}, {2, 2}}));
  EXPECT_TRUE(answers().empty());
}

TEST_F(Archives, DamagedAnswersCountAsNone) {
  equal();
  for (const char* text : {"", "10", "1011", "1x1"}) {
    ASSERT_TRUE(common::write_file_atomic(answers().at(0), common::as_bytes(text)).ok());
    EXPECT_EQ(equal(), (Pairs{{0, 0}, {2, 2}})) << text;
  }
}

TEST_F(Archives, FewAnswersAreKept) {
  for (size_t k = 0; k < kComparisonsMax + 3; ++k) {
    remembered_.from.inode = k;
    remembered_.to = file_identity(second_).value();
    equal_weights(model_of(first_), model_of(second_), remembered_);
  }
  EXPECT_EQ(answers().size(), kComparisonsMax);
}

}  // namespace
}  // namespace clients
