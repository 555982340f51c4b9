// The reader and writer of .npy files: what NumPy writes is read, what it would not write is
// refused, and no damage makes the reader leave the file.
#include "clients/cli/models/npy.h"

#include <gtest/gtest.h>

#include <cstring>

#include "common/base/files.h"
#include "common/base/random.h"

namespace clients {
namespace {

using common::Bytes;
using common::DType;
using common::HostTensor;

// A file of version `major` with this header text and these elements.
Bytes npy(std::string header, std::string_view elements, int major = 1) {
  header += '\n';
  std::string file = "\x93NUMPY";
  file += static_cast<char>(major);
  file += '\0';
  size_t length_bytes = major == 1 ? 2 : 4;
  for (size_t i = 0; i < length_bytes; ++i) file += static_cast<char>(header.size() >> (8 * i));
  file += header;
  file += elements;
  return common::to_bytes(common::as_bytes(file));
}

template <class T>
std::string elements(std::initializer_list<T> values) {
  std::string out;
  for (T value : values) out.append(reinterpret_cast<const char*>(&value), sizeof value);
  return out;
}

common::Result<HostTensor> read(const Bytes& file, DType dtype, bool complex = false) {
  auto array = parse_npy(file);
  if (!array.ok()) return array.error();
  return tensor_from_npy(*array, dtype, complex);
}

std::string refusal(const Bytes& file, DType dtype = DType::kFloat32, bool complex = false) {
  auto tensor = read(file, dtype, complex);
  return tensor.ok() ? "accepted" : tensor.error().message;
}

TEST(Npy, ReadsWhatNumPyWrites) {
  Bytes file = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }      ",
                   elements<float>({1, 2, 3, 4, 5, 6}));
  auto tensor = read(file, DType::kFloat32);
  ASSERT_TRUE(tensor.ok()) << tensor.error().message;
  EXPECT_EQ(tensor->sizes(), (std::vector<int64_t>{2, 3}));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(tensor->get(i), i + 1);
}

TEST(Npy, ReadsVersionsTwoAndThree) {
  for (int major : {2, 3}) {
    Bytes file = npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }",
                     elements<int64_t>({-7}), major);
    auto tensor = read(file, DType::kInt64);
    ASSERT_TRUE(tensor.ok()) << tensor.error().message;
    EXPECT_EQ(tensor->get_int(0), -7);
  }
}

TEST(Npy, ReadsScalarsAndEmptyArrays) {
  auto scalar =
      read(npy("{'descr': '<i8', 'fortran_order': False, 'shape': (), }", elements<int64_t>({42})),
           DType::kInt64);
  ASSERT_TRUE(scalar.ok());
  EXPECT_TRUE(scalar->sizes().empty());
  EXPECT_EQ(scalar->get_int(0), 42);
  auto empty =
      read(npy("{'descr': '<f8', 'fortran_order': True, 'shape': (0, 5), }", ""), DType::kFloat64);
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->elements(), 0);
}

TEST(Npy, TurnsFortranOrderRowMajor) {
  // [[0, 1, 2], [3, 4, 5]] column by column.
  auto tensor = read(npy("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }",
                         elements<int32_t>({0, 3, 1, 4, 2, 5})),
                     DType::kInt32);
  ASSERT_TRUE(tensor.ok());
  for (int i = 0; i < 6; ++i) EXPECT_EQ(tensor->get_int(i), i);
  auto deep = read(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2, 2), }",
                       elements<uint8_t>({0, 4, 2, 6, 1, 5, 3, 7})),
                   DType::kUint8);
  ASSERT_TRUE(deep.ok());
  for (int i = 0; i < 8; ++i) EXPECT_EQ(deep->get_int(i), i);
}

TEST(Npy, TakesBfloat16AsItsBits) {
  Bytes file = npy("{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }",
                   elements<uint16_t>({0x3f80, 0xc000}));
  auto tensor = read(file, DType::kBfloat16);
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->get(0), 1);
  EXPECT_EQ(tensor->get(1), -2);
  EXPECT_NE(refusal(file, DType::kFloat16).find("uint16[2] where float16"), std::string::npos);
}

TEST(Npy, TakesComplexNumbersAsPairs) {
  Bytes file = npy("{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }",
                   elements<float>({1, 2, 3, 4}));
  auto tensor = read(file, DType::kFloat32, true);
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->sizes(), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(tensor->get(3), 4);
  EXPECT_NE(refusal(file), "accepted");
}

TEST(Npy, MakesAnyTrueByteOne) {
  auto tensor = read(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }",
                         elements<uint8_t>({0, 1, 255})),
                     DType::kBool);
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->bytes()[2], std::byte{1});
  EXPECT_EQ(tensor->bytes()[0], std::byte{0});
}

TEST(Npy, RefusesInOneClause) {
  const std::string f4 = elements<float>({1, 2});
  EXPECT_EQ(refusal(common::to_bytes(common::as_bytes("PK\3\4 not an array"))),
            "it is no .npy file");
  EXPECT_EQ(refusal(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", f4)),
            "it is big-endian; save it as little-endian");
  EXPECT_EQ(refusal(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", f4)),
            "its elements are records, not numbers");
  EXPECT_EQ(refusal(npy("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", f4)),
            "its header is malformed: descr is too short");
  EXPECT_EQ(refusal(npy("{'descr': '<U4', 'fortran_order': False, 'shape': (2,), }", f4)),
            "its elements are of type '<U4', not numbers");
  EXPECT_EQ(refusal(npy("{'descr': '<f4', 'shape': (2,), }", f4)),
            "its header is malformed: descr, fortran_order or shape is missing");
  EXPECT_EQ(refusal(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", f4)),
            "its header is malformed: shape has an impossible size");
  EXPECT_EQ(refusal(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", f4)),
            "it holds 8 bytes of elements where float32[3] takes 12");
  EXPECT_EQ(refusal(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", f4)),
            "it holds 8 bytes of elements where float32[1] takes 4");
  EXPECT_EQ(refusal(npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }", f4)),
            "it holds int64[1] where float32 is expected");
}

TEST(Npy, RefusesSizesThatOverflow) {
  EXPECT_NE(refusal(npy("{'descr': '<f4', 'fortran_order': False, "
                        "'shape': (9223372036854775807, 4), }",
                        "")),
            "accepted");
  EXPECT_NE(refusal(npy("{'descr': '<f4', 'fortran_order': False, "
                        "'shape': (99999999999999999999999,), }",
                        "")),
            "accepted");
  EXPECT_NE(refusal(npy("{'descr': '<f4', 'fortran_order': False, "
                        "'shape': (4294967296, 4294967296), }",
                        "")),
            "accepted");
}

TEST(Npy, WritesWhatItReads) {
  struct Kind {
    DType dtype;
    bool complex;
  };
  common::Random random(1);
  for (Kind kind :
       {Kind{DType::kBool, false}, Kind{DType::kUint8, false}, Kind{DType::kInt8, false},
        Kind{DType::kInt16, false}, Kind{DType::kInt32, false}, Kind{DType::kInt64, false},
        Kind{DType::kFloat16, false}, Kind{DType::kBfloat16, false}, Kind{DType::kFloat32, false},
        Kind{DType::kFloat64, false}, Kind{DType::kFloat32, true}, Kind{DType::kFloat64, true}}) {
    for (auto sizes : {std::vector<int64_t>{}, {3}, {2, 0, 4}, {2, 3, 5}}) {
      if (kind.complex) sizes.push_back(2);
      auto tensor = HostTensor::zeros(kind.dtype, sizes);
      ASSERT_TRUE(tensor.ok());
      for (int64_t i = 0; i < tensor->elements(); ++i) {
        tensor->set_int(i, static_cast<int64_t>(random.below(2)));
      }
      Bytes file = npy_from_tensor(*tensor, kind.complex);
      auto again = read(file, kind.dtype, kind.complex);
      ASSERT_TRUE(again.ok()) << again.error().message;
      EXPECT_EQ(again->sizes(), sizes);
      EXPECT_TRUE(std::equal(again->bytes().begin(), again->bytes().end(), tensor->bytes().begin(),
                             tensor->bytes().end()));
      // NumPy asks that the elements start at a multiple of 64 bytes.
      EXPECT_EQ((file.size() - tensor->bytes().size()) % 64, 0u);
    }
  }
}

// Goal: no file, however damaged, makes the parser read outside it or accept elements that are not
// there. Method: random damage to valid files, of every prefix length, judged by the sizes that the
// parser gives (and by the address sanitizer where it is on).
TEST(Npy, SurvivesDamage) {
  Bytes file = npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }",
                   elements<float>({1, 2, 3, 4, 5, 6}));
  for (size_t length = 0; length < file.size(); ++length) {
    Bytes prefix(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_FALSE(parse_npy(prefix).ok()) << length;
  }
  int accepted = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    common::Random random(seed);
    Bytes damaged = file;
    for (uint64_t k = 0; k <= random.below(3); ++k) {
      damaged[random.below(damaged.size())] = static_cast<std::byte>(random.below(256));
    }
    auto array = parse_npy(damaged);
    if (!array.ok()) continue;
    ++accepted;
    int64_t bytes = array->item_bytes;
    for (int64_t size : array->sizes) bytes *= size;
    ASSERT_EQ(static_cast<size_t>(bytes), array->data.size()) << "seed " << seed;
    if (array->kind == 'f' && array->item_bytes == 4) {
      EXPECT_TRUE(tensor_from_npy(*array, DType::kFloat32, false).ok()) << "seed " << seed;
    }
  }
  EXPECT_GT(accepted, 100);  // damage to the elements alone is no damage to the parser
}

TEST(Npy, NamesTheFile) {
  auto folder = common::ScratchDirectory::create("npy");
  ASSERT_TRUE(folder.ok());
  std::string path = folder->path() + "/0.npy";
  auto missing = read_npy(path, DType::kFloat32, false);
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find(path), std::string::npos);
  ASSERT_TRUE(common::write_file_atomic(path, common::as_bytes("nothing")).ok());
  auto wrong = read_npy(path, DType::kFloat32, false);
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().message, path + ": it is no .npy file");
  auto tensor = HostTensor::zeros(DType::kFloat32, {2});
  ASSERT_TRUE(write_npy(path, *tensor, false).ok());
  EXPECT_TRUE(read_npy(path, DType::kFloat32, false).ok());
}

}  // namespace
}  // namespace clients
