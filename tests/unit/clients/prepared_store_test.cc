// What plans compute of weights alone, kept for later processes: if these fail, a model computes
// with another model's weights, or each process packs gigabytes again.
#include "clients/runtime/model/prepared_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>
#include <optional>

#include "clients/runtime/model/prepared_file.h"
#include "common/runtime/device/devices.h"
#include "tests/unit/runtime/runtime_testing.h"

namespace clients {
namespace {

namespace fs = std::filesystem;
using common::Bytes;
using common::ByteView;
using common::Code;
using common::Digest;
using common::DType;
using common::Executor;
using common::HostTensor;
using common::InputKind;
using common::PlanMaker;

constexpr int64_t kElements = 3000;
using Values = std::vector<float>;

HostTensor weight_of(float value) {
  HostTensor t = HostTensor::zeros(DType::kFloat32, {kElements}).value();
  for (int64_t i = 0; i < kElements; ++i) t.set(i, value + static_cast<float>(i));
  return t;
}

class Prepared : public ::testing::Test {
 protected:
  Prepared() : device_(common::open_device("cpu", 1).value()) {}

  // out = x + factor * w, of which the product is computed once.
  std::unique_ptr<Executor> executor_of(int factor, const HostTensor& weight) {
    const std::string entry = common::cat("times", factor);
    const Bytes object = common::compile_object(
        common::cat("KERNEL(", entry, ") { const float* w = b[0]; float* out = b[1];",
                    " for (int i = 0; i < ", kElements, "; ++i) out[i] = ", factor, " * w[i]; }",
                    "KERNEL(add) { const float *x = b[0], *y = b[1]; float* out = b[2];",
                    " for (int i = 0; i < ", kElements, "; ++i) out[i] = x[i] + y[i]; }"));
    PlanMaker m;
    const int x = m.input({kElements}), w = m.input({kElements}, InputKind::kWeight);
    const int product = m.temporary({kElements}), out = m.output({kElements});
    m.call(m.kernel(entry), {w}, {product});
    m.call(m.kernel("add"), {x, product}, {out});
    common::Plan plan = m.finish(object);
    plan.key.target = device_->target();
    auto executor = Executor::load(
        plan, [&](const Digest&) { return common::Result<ByteView>(ByteView(object)); }, *device_);
    if (!executor.ok()) throw std::runtime_error(executor.error().message);
    EXPECT_TRUE((*executor)->bind_weight(1, weight).ok());
    return std::move(*executor);
  }

  // The second element of out for x = 0.
  static float second_of(Executor& executor) {
    std::vector<HostTensor> inputs = {HostTensor::zeros(DType::kFloat32, {kElements}).value()};
    auto run = executor.run(inputs);
    EXPECT_TRUE(run.ok());
    return run.ok() ? static_cast<float>(run->user.at(0).get(1)) : 0;
  }

  // Prepares such an executor and gives what it computes.
  float prepare(const PreparedStore& store, int factor, float weight, const FileIdentity& file) {
    auto executor = executor_of(factor, weight_of(weight));
    auto writer = store.prepare(*executor, file);
    EXPECT_TRUE(writer.ok());
    if (writer.ok() && *writer) (*writer)->finish();
    return second_of(*executor);
  }

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    if (!fs::exists(directory_)) return found;
    for (const auto& entry : fs::directory_iterator(directory_)) found.push_back(entry.path());
    return found;
  }

  common::ScratchDirectory folder_ = common::ScratchDirectory::create("lfarm-test").value();
  const std::string directory_ = folder_.path() + "/prepared";
  const PreparedStore store_{{.directory = directory_, .bytes_least = 1, .settled_ns = 0}};
  const FileIdentity file_{.device = 1, .inode = 2, .bytes = 3, .written_ns = 4, .changed_ns = 5};
  std::unique_ptr<common::Device> device_;
};

// Other weights under the same identity show where values come from.
TEST_F(Prepared, AreComputedByTheFirstProcessAndReadByOthers) {
  EXPECT_EQ(prepare(store_, 2, 10, file_), 22);
  ASSERT_EQ(files().size(), 1u);
  EXPECT_EQ(prepare(store_, 2, 20, file_), 22);
}

TEST_F(Prepared, AreOfOnePlanAndOneFile) {
  EXPECT_EQ(prepare(store_, 2, 10, file_), 22);
  for (int64_t FileIdentity::*time : {&FileIdentity::written_ns, &FileIdentity::changed_ns}) {
    FileIdentity other = file_;
    ++(other.*time);
    EXPECT_EQ(prepare(store_, 2, 20, other), 42);
  }
  EXPECT_EQ(files().size(), 3u);
  // A better plan of the same model takes the place.
  EXPECT_EQ(prepare(store_, 3, 20, file_), 63);
  EXPECT_EQ(prepare(store_, 3, 30, file_), 63);
  EXPECT_EQ(files().size(), 3u);
}

TEST_F(Prepared, ThatAreDamagedAreComputedAgain) {
  prepare(store_, 2, 10, file_);
  const std::string path = files().at(0), whole = common::read_file(path).value();
  for (size_t size : {size_t{0}, size_t{1}, size_t{60}, whole.size() - 1}) {
    fs::resize_file(path, size);
    EXPECT_EQ(prepare(store_, 2, 20, file_), 42) << size << " bytes";
    ASSERT_EQ(common::read_file(path)->size(), whole.size());
  }
  for (size_t at : {0, 8, 16, 48, 56, 64, 72}) {  // magic, format, plan, count, place, size, hash
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    ASSERT_TRUE(common::write_file_atomic(path, common::as_bytes(damaged)).ok());
    EXPECT_EQ(prepare(store_, 2, 20, file_), 42) << "byte " << at;
  }
}

TEST_F(Prepared, AreNotKeptOfAFileThatMayStillChange) {
  const PreparedStore store(
      {.directory = directory_, .bytes_least = 1, .settled_ns = int64_t{4} << 60});
  EXPECT_EQ(prepare(store, 2, 10, file_), 22);
  EXPECT_TRUE(files().empty());
}

TEST_F(Prepared, OfAPlanThatIsReplacedSoonLeaveNothing) {
  auto executor = executor_of(2, weight_of(10));
  auto writer = store_.prepare(*executor, file_);
  ASSERT_TRUE(writer.ok() && *writer);
  writer->reset();
  EXPECT_TRUE(files().empty());
}

TEST_F(Prepared, StayWithinTheBounds) {
  const PreparedStore small({.directory = directory_, .bytes_least = 1 << 20, .settled_ns = 0});
  EXPECT_EQ(prepare(small, 2, 10, file_), 22);
  EXPECT_TRUE(files().empty());
  // Two files of 12 kB fit, the one used longest ago goes.
  const PreparedStore store(
      {.directory = directory_, .bytes_max = 30'000, .bytes_least = 1, .settled_ns = 0});
  for (uint64_t inode : {10, 11, 10, 12}) {
    FileIdentity file = file_;
    file.inode = inode;
    prepare(store, 2, static_cast<float>(inode), file);
    ::usleep(20'000);  // of the file system's clock
  }
  EXPECT_EQ(files().size(), 2u);
  FileIdentity first = file_;
  first.inode = 10;
  EXPECT_EQ(prepare(store, 2, 99, first), 22);
}

TEST_F(Prepared, AreComputedWhereTheDirectoryCannotBe) {
  const std::string plain = folder_.path() + "/plain";
  ASSERT_TRUE(common::write_file_atomic(plain, {}).ok());
  for (const std::string& directory : {std::string(), plain + "/prepared"}) {
    const PreparedStore store({.directory = directory, .bytes_least = 1, .settled_ns = 0});
    EXPECT_EQ(prepare(store, 2, 10, file_), 22);
  }
}

TEST_F(Prepared, FilesNameThePlanTheyAreOf) {
  const std::string path = folder_.path() + "/values";
  const Bytes first(100, std::byte{1}), second(5000, std::byte{2});
  const std::vector<ByteView> values = {first, second, {}};
  const Digest plan = common::digest_of("a plan"), other = common::digest_of("another");
  ASSERT_TRUE(write_prepared(path, plan, values, [] { return false; }).ok());
  auto file = common::MappedFile::open(path).value();
  auto read = prepared_values(file->bytes(), plan);
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->size(), values.size());
  for (size_t k = 0; k < values.size(); ++k) {
    EXPECT_TRUE(
        std::equal((*read)[k].begin(), (*read)[k].end(), values[k].begin(), values[k].end()));
  }
  EXPECT_EQ(prepared_values(file->bytes(), other).error().code, Code::kInvalidInput);
  EXPECT_EQ(prepared_values(file->bytes().first(file->bytes().size() - 5001), plan).error().code,
            Code::kCorrupt);
  EXPECT_FALSE(write_prepared(path + "2", plan, values, [] { return true; }).ok());
  EXPECT_FALSE(fs::exists(path + "2"));
}

}  // namespace
}  // namespace clients
