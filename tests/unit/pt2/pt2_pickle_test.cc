#include <gtest/gtest.h>

#include <string>

#include "clients/pt2/archive/pickle.h"

namespace clients {
namespace {

using std::string_literals::operator""s;

common::Result<Pickle> read(const std::string& bytes) {
  return read_pickle(common::as_bytes(bytes));
}

std::string message_of(const common::Result<Pickle>& pickle) {
  return pickle.ok() ? "no error" : pickle.error().message;
}

TEST(Pickle, ReadsPlainValues) {
  // pickle.dumps({'a': (1, -2, 300, 2.5, None, True, [b'x'])}, 2..4) by hand.
  auto pickle = read(
      "\x80\x04}X\x01\0\0\0a(K\x01J\xfe\xff\xff\xffM\x2c\x01G\x40\x04\0\0\0\0\0\0N\x88]C\x01xats."s);
  ASSERT_TRUE(pickle.ok()) << message_of(pickle);
  const PickleObject& root = (*pickle)[pickle->root];
  ASSERT_EQ(root.kind, PickleKind::kDict);
  ASSERT_EQ(root.pairs.size(), 1u);
  EXPECT_EQ((*pickle)[root.pairs[0].first].text, "a");
  const PickleObject& tuple = (*pickle)[root.pairs[0].second];
  ASSERT_EQ(tuple.items.size(), 7u);
  EXPECT_EQ((*pickle)[tuple.items[0]].integer, 1);
  EXPECT_EQ((*pickle)[tuple.items[1]].integer, -2);
  EXPECT_EQ((*pickle)[tuple.items[2]].integer, 300);
  EXPECT_EQ((*pickle)[tuple.items[3]].number, 2.5);
  EXPECT_EQ((*pickle)[tuple.items[4]].kind, PickleKind::kNone);
  EXPECT_EQ((*pickle)[tuple.items[5]].kind, PickleKind::kBool);
  EXPECT_EQ((*pickle)[(*pickle)[tuple.items[6]].items[0]].text, "x");
}

TEST(Pickle, ReadsTensorsAndParameters) {
  auto pickle = read(
      "\x80\x02"
      "ctorch._utils\n_rebuild_parameter\n"
      "(ctorch._utils\n_rebuild_tensor_v2\n"
      "((X\x07\0\0\0storagectorch\nBFloat16Storage\nX\x01\0\0\0"
      "7X\x03\0\0\0cpuK\x0ctQK\x02K\x03K\x02\x86K\x02K\x01\x86\x89"
      "ccollections\nOrderedDict\n)RtR\x88"
      "ccollections\nOrderedDict\n)RtR."s);
  ASSERT_TRUE(pickle.ok()) << message_of(pickle);
  const PickleObject& tensor = (*pickle)[pickle->root];
  ASSERT_EQ(tensor.kind, PickleKind::kTensor);
  EXPECT_EQ(tensor.dtype, ScalarType::kBfloat16);
  EXPECT_EQ(tensor.sizes, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(tensor.strides, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(tensor.integer, 2);
  EXPECT_EQ((*pickle)[tensor.items[0]].text, "7");
}

TEST(Pickle, RefusesOtherGlobalsByName) {
  auto pickle = read(
      "\x80\x02"
      "cos\nsystem\nX\x02\0\0\0ls\x85R."s);
  EXPECT_NE(message_of(pickle).find("'os system'"), std::string::npos) << message_of(pickle);
  pickle = read("\x80\x04\x8c\x05posix\x8c\x06system\x93."s);
  EXPECT_NE(message_of(pickle).find("'posix system'"), std::string::npos) << message_of(pickle);
}

TEST(Pickle, RefusesOtherOpcodes) {
  for (char opcode : std::string("ioId\x81\x82\x92P\x97")) {
    auto pickle = read("\x80\x02N"s + opcode + ".");
    EXPECT_NE(message_of(pickle).find("opcode"), std::string::npos) << opcode;
  }
}

TEST(Pickle, RefusesOtherProtocols) {
  EXPECT_NE(message_of(read("\x80\x05N."s)).find("protocol 5"), std::string::npos);
  EXPECT_NE(message_of(read("\x80\x01N."s)).find("protocol 1"), std::string::npos);
}

TEST(Pickle, DamagedBytesAreErrors) {
  std::string good = "\x80\x02(K\x01K\x02tq\0h\0\x86."s;
  ASSERT_TRUE(read(good).ok());
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(read(good.substr(0, length)).ok()) << length;
  }
  for (const std::string& bad :
       {"\x80\x02t."s, "\x80\x02R."s, "\x80\x02NNR."s, "\x80\x02h\x05."s, "\x80\x02NN."s,
        "\x80\x02]u."s, "\x80\x02(N]e."s, "\x80\x02NQ."s, "\x80\x02N\x93."s, "\x80\x02}b."s,
        "\x80\x02X\xff\xff\xff\xff."s, "\x80\x02r\xff\xff\xff\xffN."s}) {
    EXPECT_FALSE(read(bad).ok());
  }
}

TEST(Pickle, BoundsDepthAndCount) {
  EXPECT_NE(message_of(read("\x80\x02"s + std::string(Pt2Limits{}.pickle_depth_max + 1, '(')))
                .find("deeper"),
            std::string::npos);
  EXPECT_NE(message_of(read("\x80\x02"s + std::string(Pt2Limits{}.pickle_objects_max + 8, ']')))
                .find("more"),
            std::string::npos);
  Pt2Limits tight;
  tight.pickle_depth_max = 3;
  tight.pickle_objects_max = 10;
  std::string nested = "\x80\x02"s + std::string(4, '(');
  std::string many = "\x80\x02"s + std::string(12, ']');
  EXPECT_NE(message_of(read_pickle(common::as_bytes(nested), tight)).find("deeper than 3"),
            std::string::npos);
  EXPECT_NE(message_of(read_pickle(common::as_bytes(many), tight)).find("more than 10 objects"),
            std::string::npos);
}

TEST(Pickle, TakesListsThatHoldThemselves) {
  auto pickle = read("\x80\x02]q\0h\0a."s);
  ASSERT_TRUE(pickle.ok()) << message_of(pickle);
  EXPECT_EQ((*pickle)[pickle->root].items[0], pickle->root);
}

}  // namespace
}  // namespace clients
