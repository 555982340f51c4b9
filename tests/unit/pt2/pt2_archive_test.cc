#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "clients/pt2/archive/archive.h"
#include "clients/pt2/archive/model_json.h"
#include "clients/pt2/archive/node_source.h"
#include "clients/pt2/archive/zip_archive.h"
#include "common/base/files.h"
#include "tests/paths/paths.h"
#include "tests/unit/pt2/pt2_zip_test_util.h"

namespace clients {
namespace {

using pt2_test::make_zip;
using pt2_test::ZipPart;

std::string fixture(const std::string& name) { return paths::fixtures("/pt2/") + name; }

std::string contents(const std::string& name) {
  auto text = common::read_file(fixture(name));
  EXPECT_TRUE(text.ok());
  return text.ok() ? *text : std::string();
}

common::Result<ExportedProgram> open_text(const std::string& bytes) {
  auto owner = std::make_shared<const std::string>(bytes);
  return open_pt2(common::as_bytes(*owner), owner, "test.pt2");
}

std::string message_of(const common::Result<ExportedProgram>& program) {
  return program.ok() ? "no error" : program.error().message;
}

// The parts of a valid archive of the prefixed layout, for tests that damage one of them.
std::vector<ZipPart> small_archive() {
  std::string meta = R"({"dtype": 7, "sizes": [{"as_int": 2}], "strides": [{"as_int": 1}],)"
                     R"( "storage_offset": {"as_int": 0}, "requires_grad": false, "layout": 7})";
  std::string model =
      R"({"schema_version": {"major": 8, "minor": 20}, "range_constraints": {}, "graph_module":)"
      R"( {"graph": {"inputs": [{"as_tensor": {"name": "w"}}],)"
      R"( "outputs": [{"as_tensor": {"name": "y"}}], "nodes": [{"target":)"
      R"( "torch.ops.aten.neg.default", "inputs": [{"name": "self", "arg":)"
      R"( {"as_tensor": {"name": "w"}}}], "outputs": [{"as_tensor": {"name": "y"}}],)"
      R"( "metadata": {}}], "tensor_values": {"w": )" +
      meta + R"(, "y": )" + meta +
      R"(}, "sym_int_values": {}}, "signature": {"input_specs": [{"parameter":)"
      R"( {"arg": {"name": "w"}, "parameter_name": "w"}}], "output_specs": [{"user_output":)"
      R"( {"arg": {"as_tensor": {"name": "y"}}}}]}}})";
  std::string config = R"({"config": {"w": {"path_name": "weight_0", "is_param": true,)"
                       R"( "use_pickle": false, "tensor_meta": )" +
                       meta + "}}}";
  return {{"m/archive_version", "0"},
          {"m/byteorder", "little"},
          {"m/models/model.json", model},
          {"m/data/weights/model_weights_config.json", config},
          {"m/data/weights/weight_0", std::string("\0\0\x80\x3f\0\0\0\x40", 8)}};
}

void replace(std::string* text, const std::string& from, const std::string& to) {
  size_t at = text->find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text->replace(at, from.size(), to);
}

std::vector<float> floats(const StoredTensor& tensor) {
  std::vector<float> out(tensor.storage.size() / sizeof(float));
  std::memcpy(out.data(), tensor.storage.data(), out.size() * sizeof(float));
  return out;
}

TEST(Archive, ReadsThePrefixedLayout) {
  auto program = open_pt2(fixture("mlp.pt2"));
  ASSERT_TRUE(program.ok()) << message_of(program);
  EXPECT_EQ(program->schema_major, 8);
  EXPECT_EQ(program->torch_version, "2.14.1+debian");
  ASSERT_EQ(program->graph.nodes.size(), 5u);
  EXPECT_EQ(program->graph.nodes[0].target, "torch.ops.aten.linear.default");
  EXPECT_EQ(program->graph.nodes[0].name, "linear");
  ASSERT_EQ(program->inputs.size(), 6u);
  EXPECT_EQ(program->inputs[0].kind, ExportInputKind::kParameter);
  EXPECT_EQ(program->inputs[0].target, "a.weight");
  EXPECT_EQ(program->inputs[5].kind, ExportInputKind::kUser);
  const StoredTensor& bias = program->tensors.at("b.bias");
  EXPECT_EQ(bias.sizes, std::vector<int64_t>{4});
  EXPECT_EQ(floats(bias), (std::vector<float>{0.021170761436223984F, 0.02495044842362404F,
                                              -0.05122976750135422F, -0.16324719786643982F}));
}

TEST(Archive, ReadsTheFlatLayoutWithTheSameWeights) {
  auto flat = open_pt2(fixture("torch-2.6/mlp.pt2"));
  auto prefixed = open_pt2(fixture("mlp.pt2"));
  ASSERT_TRUE(flat.ok()) << message_of(flat);
  ASSERT_TRUE(prefixed.ok()) << message_of(prefixed);
  EXPECT_EQ(flat->torch_version, "2.6.0+debian");
  ASSERT_EQ(flat->tensors.size(), prefixed->tensors.size());
  for (const auto& [name, tensor] : prefixed->tensors) {
    const StoredTensor& other = flat->tensors.at(name);
    EXPECT_EQ(other.sizes, tensor.sizes) << name;
    EXPECT_EQ(other.strides, tensor.strides) << name;
    EXPECT_EQ(floats(other), floats(tensor)) << name;
  }
}

TEST(Archive, WeightsAreViewsOfTheMapping) {
  auto file = common::MappedFile::open(fixture("torch-2.6/mlp.pt2"));
  ASSERT_TRUE(file.ok());
  auto program = open_pt2((*file)->bytes(), *file, "torch-2.6/mlp.pt2");
  ASSERT_TRUE(program.ok()) << message_of(program);
  const std::byte* first = (*file)->bytes().data();
  const std::byte* last = first + (*file)->bytes().size();
  for (const auto& [name, tensor] : program->tensors) {
    EXPECT_GE(tensor.storage.data(), first) << name;
    EXPECT_LE(tensor.storage.data() + tensor.storage.size(), last) << name;
  }
  long holders = file->use_count();
  EXPECT_GT(holders, 5) << "each weight keeps the mapping alive";
}

TEST(Archive, ReadsStateAndSourceLines) {
  auto program = open_pt2(fixture("cases/kv_step/model.pt2"));
  ASSERT_TRUE(program.ok()) << message_of(program);
  EXPECT_EQ(program->inputs[4].kind, ExportInputKind::kBuffer);
  EXPECT_EQ(program->inputs[4].target, "k");
  const ExportNode& unbind = program->graph.nodes[3];
  EXPECT_EQ(std::get<TensorListArgument>(unbind.outputs[0]).names.size(), 3u);
  EXPECT_EQ(source_line(unbind),
            "make_models.py:223: q, k, v = s.qkv(x).view(b, t, 3, s.h, d // s.h)"
            ".permute(2, 0, 3, 1, 4)");
}

// A library's line says more than that of the script that calls the library.
TEST(Archive, PlacesAreOutsideOfPyTorch) {
  ExportNode node;
  node.stack_trace =
      "File \"/srv/me/export.py\", line 9, in forward\n    return self.m(x)\n"
      "  File \"/usr/lib/python3/dist-packages/transformers/modeling_llama.py\", line 389, in "
      "forward\n"
      "    x = self.embed(x)\n"
      "  File \"/usr/lib/python3/dist-packages/torch/nn/modules/sparse.py\", line 189, in forward\n"
      "    return F.embedding(";
  EXPECT_EQ(source_place(node), "modeling_llama.py:389");
  EXPECT_EQ(source_line(node), "export.py:9: return self.m(x)");
  node.stack_trace = "File \"/x/a\nb.py\", line 9, in forward";
  EXPECT_EQ(source_place(node), "") << "it would be a line of its own";
  node.stack_trace = "no frame";
  EXPECT_EQ(source_place(node), "");
}

TEST(Archive, TheOutermostModuleHasAClass) {
  ExportNode node;
  node.module_stack = "L__self__,,transformers.models.llama.LlamaForCausalLM;L__self__m,m,a.B";
  EXPECT_EQ(root_class(node), "LlamaForCausalLM");
  node.module_stack = "L__self__,,Mlp";
  EXPECT_EQ(root_class(node), "Mlp");
  node.module_stack = "L__self__,,__main__.f.<locals>.M\n";
  EXPECT_EQ(root_class(node), "");
  node.module_stack = "";
  EXPECT_EQ(root_class(node), "");
}

TEST(Archive, EveryPrefixOfAnArchiveIsAnErrorNotACrash) {
  for (const char* name : {"mlp.pt2", "torch-2.6/mlp.pt2"}) {
    std::string whole = contents(name);
    for (size_t length = 0; length < whole.size(); length += 97) {
      EXPECT_FALSE(open_text(whole.substr(0, length)).ok()) << name << " cut at " << length;
    }
  }
}

TEST(Archive, FlippedBytesNeverCrash) {
  std::string whole = contents("torch-2.6/mlp.pt2");
  for (size_t at = 0; at < whole.size(); at += 13) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    auto program = open_text(damaged);
    if (program.ok()) continue;
    EXPECT_FALSE(program.error().message.empty());
  }
}

TEST(Archive, TheSmallArchiveIsValid) {
  auto program = open_text(make_zip(small_archive()));
  ASSERT_TRUE(program.ok()) << message_of(program);
  EXPECT_EQ(floats(program->tensors.at("w")), (std::vector<float>{1, 2}));
}

TEST(Archive, RefusesPathsThatClimbOut) {
  for (const char* name : {"../etc/passwd", "/etc/passwd", "m/../../x", "m\\..\\x", "c:x"}) {
    auto parts = small_archive();
    parts.push_back({name, "x"});
    auto program = open_text(make_zip(parts));
    ASSERT_FALSE(program.ok()) << name;
    EXPECT_NE(message_of(program).find("climbs out"), std::string::npos) << message_of(program);
  }
}

// How a few bytes claim to be many: two entries read the same ones.
TEST(Archive, RefusesEntriesThatOverlap) {
  std::string inner = make_zip({{"m/inner", "abc"}});
  inner.resize(inner.find(std::string("PK\x01\x02")));
  auto parts = small_archive();
  parts.push_back({"m/outer", inner});
  parts.push_back({"m/inner", "abc"});
  std::string whole = make_zip(parts);
  ASSERT_TRUE(open_text(whole).ok()) << message_of(open_text(whole));
  // The directory's last record, which begins 46 bytes before its name, gives the place.
  std::string place;
  pt2_test::put(&place, whole.find(inner), 4);
  whole.replace(whole.rfind("m/inner") - 4, 4, place);
  EXPECT_NE(message_of(open_text(whole)).find("overlap"), std::string::npos)
      << message_of(open_text(whole));
}

TEST(Archive, RefusesBytesBehindItsEnd) {
  EXPECT_NE(message_of(open_text(make_zip(small_archive()) + "x")).find("end-of-archive record"),
            std::string::npos);
}

TEST(Archive, RefusesSeveralModels) {
  auto parts = small_archive();
  parts.push_back({"m/models/other.json", parts[2].content});
  EXPECT_NE(message_of(open_text(make_zip(parts))).find("several models"), std::string::npos);
}

TEST(Archive, RefusesASignatureOfAnotherLength) {
  auto parts = small_archive();
  replace(&parts[2].content, R"("outputs": [{"as_tensor": {"name": "y"}}], "nodes")",
          R"("outputs": [], "nodes")");
  EXPECT_NE(message_of(open_text(make_zip(parts))).find("1 outputs, but the graph has 0"),
            std::string::npos)
      << message_of(open_text(make_zip(parts)));
}

TEST(Archive, RefusesNamesThatAreDefinedTwice) {
  auto parts = small_archive();
  replace(&parts[2].content, R"("outputs": [{"as_tensor": {"name": "y"}}], "metadata")",
          R"("outputs": [{"as_tensor": {"name": "w"}}], "metadata")");
  EXPECT_NE(message_of(open_text(make_zip(parts))).find("'w' is defined twice"), std::string::npos)
      << message_of(open_text(make_zip(parts)));
}

// A weight saved as a slice of a larger storage starts in the middle of it.
TEST(Archive, PickledWeightsStartWhereTheirOffsetSays) {
  using std::string_literals::operator""s;
  std::string pickle =
      "\x80\x02}X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n"
      "((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"
      "0X\x03\0\0\0cpuK\x04tQK\x01K\x02\x85K\x01\x85\x89"
      "ccollections\nOrderedDict\n)RtRs."s;
  const float stored[] = {5, 1, 2, 6};
  std::string bytes(reinterpret_cast<const char*>(stored), sizeof stored);
  auto parts = small_archive();
  parts[3] = {"m/data/weights/model.pt",
              make_zip({{"a/data.pkl", pickle}, {"a/byteorder", "little"}, {"a/data/0", bytes}})};
  parts.pop_back();
  auto program = open_text(make_zip(parts));
  ASSERT_TRUE(program.ok()) << message_of(program);
  EXPECT_EQ(program->tensors.at("w").storage_offset, 1);
}

TEST(Archive, RefusesDuplicateNames) {
  auto parts = small_archive();
  parts.push_back(parts[4]);
  auto program = open_text(make_zip(parts));
  EXPECT_NE(message_of(program).find("two entries are named"), std::string::npos);
}

TEST(Archive, RefusesImpossibleSizes) {
  auto parts = small_archive();
  parts[4].method = 8;
  parts[4].size_claim = 0x7fffffff;
  auto program = open_text(make_zip(parts));
  EXPECT_NE(message_of(program).find("deflate cannot do"), std::string::npos)
      << message_of(program);
  parts[4].method = 0;
  EXPECT_NE(message_of(open_text(make_zip(parts))).find("two sizes differ"), std::string::npos);
}

TEST(Archive, RefusesDamagedText) {
  auto parts = small_archive();
  parts[2].crc = 12345;
  EXPECT_NE(message_of(open_text(make_zip(parts))).find("damaged"), std::string::npos);
}

TEST(Archive, RefusesUnknownVersionsAndByteOrders) {
  auto parts = small_archive();
  parts[0].content = "7";
  EXPECT_NE(message_of(open_text(make_zip(parts))).find("archive version '7'"), std::string::npos);
  parts = small_archive();
  parts[1].content = "big";
  EXPECT_NE(message_of(open_text(make_zip(parts))).find("byte order 'big'"), std::string::npos);
  parts = small_archive();
  replace(&parts[2].content, R"("major": 8)", R"("major": 5)");
  EXPECT_NE(message_of(open_text(make_zip(parts))).find("schema 5.20"), std::string::npos);
}

TEST(Archive, RefusesWeightsOutsideTheirStorage) {
  auto parts = small_archive();
  parts[4].content.resize(4);
  EXPECT_NE(message_of(open_text(make_zip(parts))).find("reaches element"), std::string::npos);
}

TEST(Archive, TakesZeroStrideWeights) {
  auto parts = small_archive();
  replace(&parts[3].content, R"("strides": [{"as_int": 1}])", R"("strides": [{"as_int": 0}])");
  parts[4].content.resize(4);
  auto program = open_text(make_zip(parts));
  EXPECT_TRUE(program.ok()) << message_of(program);
}

TEST(Archive, RefusesMissingAndMismatchedWeights) {
  auto parts = small_archive();
  parts.pop_back();
  EXPECT_NE(message_of(open_text(make_zip(parts))).find("is missing"), std::string::npos);
  parts = small_archive();
  replace(&parts[3].content, R"("dtype": 7)", R"("dtype": 5)");
  parts[4].content.resize(16);
  EXPECT_NE(message_of(open_text(make_zip(parts))).find("another dtype"), std::string::npos);
}

TEST(Archive, RefusesNamesUsedBeforeTheyAreDefined) {
  auto parts = small_archive();
  replace(&parts[2].content, R"("arg": {"as_tensor": {"name": "w"}})",
          R"("arg": {"as_tensor": {"name": "z"}})");
  EXPECT_NE(message_of(open_text(make_zip(parts))).find("uses 'z' before"), std::string::npos);
}

TEST(StoredTensor, ChecksItsReachWithoutOverflow) {
  StoredTensor tensor;
  tensor.dtype = ScalarType::kFloat32;
  tensor.sizes = {int64_t{1} << 40, int64_t{1} << 40};
  tensor.strides = {int64_t{1} << 40, 1};
  EXPECT_FALSE(check_stored_tensor(tensor, "w").ok());
  tensor.strides = {0, 0};
  EXPECT_FALSE(check_stored_tensor(tensor, "w").ok()) << "the storage is empty";
  tensor.sizes = {0, 5};
  EXPECT_TRUE(check_stored_tensor(tensor, "w").ok()) << "nothing is read";
  tensor.sizes = {1};
  EXPECT_FALSE(check_stored_tensor(tensor, "w").ok()) << "ranks differ";
}

TEST(Archive, EverySharedCaseParses) {
  std::filesystem::path shared = paths::shared();
  if (!std::filesystem::exists(shared)) GTEST_SKIP() << "no folder of cases at " << shared;
  int count = 0;
  for (const char* folder : {"models", "ops"}) {
    for (const auto& entry : std::filesystem::directory_iterator(shared / folder)) {
      std::filesystem::path model = entry.path() / "model.pt2";
      if (!std::filesystem::exists(model)) continue;
      auto program = open_pt2(model.string());
      EXPECT_TRUE(program.ok()) << message_of(program);
      ++count;
    }
  }
  EXPECT_GT(count, 0);
}

TEST(Archive, MessagesAreOneLineWhateverTheNamesHold) {
  std::vector<ZipPart> parts = small_archive();
  replace(&parts[2].content, R"("parameter_name": "w")",
          R"("parameter_name": "w\nlfarm: all is well")");
  std::string message = message_of(open_text(make_zip(parts)));
  EXPECT_NE(message.find("w?lfarm"), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST(Archive, LimitsAreTheReadersToSet) {
  std::string bytes = make_zip(small_archive());
  auto owner = std::make_shared<const std::string>(bytes);
  auto open = [&](const Pt2Limits& limits) {
    return message_of(open_pt2(common::as_bytes(*owner), owner, "test.pt2", limits));
  };
  EXPECT_EQ(open({}), "no error");
  Pt2Limits few;
  few.zip_entries_max = 4;
  EXPECT_NE(open(few).find("claims 5 entries"), std::string::npos) << open(few);
  Pt2Limits small;
  small.graph_bytes_max = 100;
  EXPECT_NE(open(small).find("100"), std::string::npos) << open(small);
}

// What an archive inside an archive inflates counts as the outer one's.
TEST(Archive, NestedArchivesShareOneBound) {
  // One block of deflate that is stored as it is: 1000 bytes, and the inverse of their number.
  std::string text(1000, 'x');
  ZipPart part{"m/data", std::string("\x01\xe8\x03\x17\xfc", 5) + text, 8, 1000};
  part.crc = pt2_test::crc32_of(text);
  std::string bytes = make_zip({part});
  auto open = [&](const Pt2Limits& limits) {
    return ZipArchive::open({common::as_bytes(bytes), nullptr}, "test", limits).value();
  };
  Pt2Limits limits;
  limits.inflated_bytes_max = 1500;
  auto outer = open(limits);
  auto inner = open(outer->limits_left());
  ASSERT_TRUE(inner->view(*inner->find("m/data")).ok());
  outer->count_inflated(*inner);
  EXPECT_EQ(outer->limits_left().inflated_bytes_max, 500u);
  EXPECT_FALSE(outer->view(*outer->find("m/data")).ok());
}

}  // namespace
}  // namespace clients
