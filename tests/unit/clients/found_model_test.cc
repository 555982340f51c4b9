// Models without their exported program: if these fail, weights are bound in the wrong places, or a
// damaged file is read beyond its end.
#include "clients/runtime/model/found_model.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "clients/pt2/archive/safetensors.h"
#include "clients/pt2/signature.h"
#include "clients/runtime/model/size_ranges.h"
#include "common/base/files.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/text.h"
#include "common/ir/hlir/verify.h"
#include "tests/paths/paths.h"

namespace clients {
namespace {

using common::Bytes;
using common::Code;

// A file with this header and `data` bytes 0, 1, 2, ...
Bytes safetensors(const std::string& header, size_t data) {
  Bytes out(sizeof(uint64_t));
  uint64_t length = header.size();
  std::memcpy(out.data(), &length, sizeof length);
  for (char c : header) out.push_back(static_cast<std::byte>(c));
  for (size_t k = 0; k < data; ++k) out.push_back(static_cast<std::byte>(k));
  return out;
}

constexpr const char* kHeader = R"({"__metadata__":{"format":"pt"},)"
                                R"("a.weight":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                                R"("flag":{"dtype":"BOOL","shape":[],"data_offsets":[8,9]}})";

TEST(Safetensors, AreReadWhereTheyLie) {
  Bytes file = safetensors(kHeader, 9);
  auto tensors = read_safetensors(file);
  ASSERT_TRUE(tensors.ok()) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 2u);
  const NamedTensor& weight = tensors->at(0);
  EXPECT_EQ(weight.name, "a.weight");
  EXPECT_EQ(weight.dtype, common::DType::kFloat32);
  EXPECT_EQ(weight.sizes, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(weight.bytes.data(), file.data() + file.size() - 9);
  EXPECT_EQ(weight.bytes.size(), 8u);
  EXPECT_EQ(tensors->at(1).bytes[0], std::byte{8});
}

TEST(Safetensors, DamagedFilesAreRefused) {
  Bytes whole = safetensors(kHeader, 9);
  for (size_t size = 0; size < whole.size(); ++size) {
    auto cut = read_safetensors(common::ByteView(whole).subspan(0, size));
    ASSERT_FALSE(cut.ok()) << size;
    EXPECT_EQ(cut.error().code, Code::kCorrupt);
  }
  auto code_of = [](const std::string& entry) {
    auto read = read_safetensors(safetensors("{\"t\":" + entry + "}", 64));
    return read.ok() ? Code::kInternal : read.error().code;
  };
  EXPECT_EQ(code_of(R"({"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]})"), Code::kUnsupported);
  EXPECT_EQ(code_of(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"), Code::kCorrupt);
  EXPECT_EQ(code_of(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"), Code::kCorrupt);
  EXPECT_EQ(code_of(R"({"dtype":"F32","shape":[1],"data_offsets":[8,4]})"), Code::kCorrupt);
  EXPECT_EQ(code_of(R"({"dtype":"F32","shape":[1],"data_offsets":[64,68]})"), Code::kCorrupt);
  EXPECT_EQ(code_of(R"({"dtype":"F32","shape":[1]})"), Code::kCorrupt);
  EXPECT_EQ(code_of(R"({"shape":[1],"data_offsets":[0,4]})"), Code::kCorrupt);
  EXPECT_EQ(code_of(R"([])"), Code::kCorrupt);
  // As long as no file is.
  Bytes file = whole;
  uint64_t length = UINT64_MAX;
  std::memcpy(file.data(), &length, sizeof length);
  EXPECT_EQ(read_safetensors(file).error().code, Code::kCorrupt);
}

Model fixture(const std::string& name) {
  return load_model(paths::fixtures("/models/") + name + "/model.pt2").value();
}

// What a plan of the model's graph says of it.
common::Plan plan_of(const Model& model) {
  common::Plan plan;
  plan.key.graph_hash = common::graph_hash(model.graph);
  plan.symbols = model.graph.symbols;
  plan.inputs = model.graph.inputs;
  for (common::GraphInput& input : plan.inputs) input.name.clear();
  plan.outputs = model.graph.outputs;
  return plan;
}

TEST(Signature, GivesAFoundModelItsNamesAndItsCall) {
  Model model = fixture("kv_step");
  model.user_outputs[0].gradient_of = "layer.weight";
  common::Plan plan = plan_of(model);
  auto found = model_of(plan, signature_text(model, plan.key.graph_hash));
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->weight_names, model.weight_names);
  EXPECT_EQ(found->user_inputs, model.user_inputs);
  EXPECT_EQ(found->user_input_is_complex, model.user_input_is_complex);
  ASSERT_EQ(found->user_outputs.size(), model.user_outputs.size());
  EXPECT_EQ(found->user_outputs[0].graph_output, model.user_outputs[0].graph_output);
  EXPECT_EQ(found->user_outputs[0].gradient_of, "layer.weight");

  auto plain = model_of(plan, "");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->weight_names[1], "1");
  EXPECT_EQ(plain->user_inputs.size(), 2u);
}

TEST(Signature, AnotherModelsIsRefused) {
  Model model = fixture("kv_step");
  common::Plan plan = plan_of(model);
  std::string text = signature_text(model, plan.key.graph_hash);
  auto refusal = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    size_t place = changed.find(from);
    EXPECT_NE(place, std::string::npos) << from;
    changed.replace(place, from.size(), to);
    auto found = model_of(plan, changed);
    return found.ok() ? "" : found.error().message;
  };
  EXPECT_NE(refusal(plan.key.graph_hash.hex(), std::string(64, '0')).find("is not of graph"),
            std::string::npos);
  EXPECT_NE(refusal("\"qkv.weight\",", "").find("other tensors"), std::string::npos);
  EXPECT_NE(refusal("{\"graph\":6", "{\"graph\":60").find("does not take"), std::string::npos);
  EXPECT_NE(refusal("{\"graph\":6", "{\"graph\":1").find("does not fit"), std::string::npos);
  EXPECT_NE(refusal("{\"graph\":7", "{\"graph\":6").find("does not fit"), std::string::npos);
  EXPECT_NE(refusal("{\"graph\":0", "{\"graph\":9").find("does not give"), std::string::npos);
  EXPECT_NE(refusal("}\n", "").find("is none"), std::string::npos);
}

TEST(Weights, WhatIsMissingOrOfAnotherTypeIsNamed) {
  auto model = std::make_shared<Model>(model_of(plan_of(fixture("mlp")), "").value());
  Weights weights(model, nullptr);
  EXPECT_NE(weights.check_complete().error().message.find("\"0\" has no content"),
            std::string::npos);
  std::vector<float> data(32 * 16, 1);
  std::vector<int64_t> sizes = {16, 32};
  common::TensorRef content{common::DType::kFloat32, sizes,
                            reinterpret_cast<std::byte*>(data.data()), data.size() * 4, false};
  EXPECT_NE(weights.bind(0, content).error().message.find("takes f32[32, 16]"), std::string::npos);
  sizes = {32, 16};
  EXPECT_TRUE(weights.bind(0, content).ok());
  EXPECT_NE(weights.check_complete().error().message.find("\"1\" has no content"),
            std::string::npos);
  EXPECT_EQ(weights.on_host(0)->bytes().data(), content.data);
}

TEST(SizeRanges, ReadBackAsTheyPrint) {
  auto parsed = parse_size_ranges("s0=1;s0=2..128,s12=7");
  ASSERT_TRUE(parsed.ok());
  ASSERT_EQ(parsed->size(), 2u);
  EXPECT_EQ(text_of(parsed->at(0)), "s0=1");
  EXPECT_EQ(text_of(parsed->at(1)), "s0=2..128,s12=7");
  EXPECT_TRUE(parse_size_ranges("")->empty());
  for (const char* wrong : {"s0", "s=1", "s0=", "s0=1..", "s0=2..1", "s0=-1", "x0=1", ";", "s0=1;;",
                            "s0=1 ", "s0=99999999999999999999", "s99999999999=1"}) {
    EXPECT_FALSE(parse_size_ranges(wrong).ok()) << wrong;
  }
  EXPECT_TRUE(holds(parsed->at(1), {5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}));
  EXPECT_FALSE(holds(parsed->at(1), {5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8}));
}

TEST(SizeRanges, NarrowAGraphUnderAnotherHash) {
  common::Graph graph = fixture("mlp_dynamic").graph;
  auto one = for_sizes(graph, {{0, {1, 1}}}), some = for_sizes(graph, {{0, {2, 9}}});
  ASSERT_TRUE(one.ok() && some.ok());
  EXPECT_NE(common::graph_hash(*one), common::graph_hash(graph));
  EXPECT_NE(common::graph_hash(*one), common::graph_hash(*some));
  EXPECT_EQ(common::graph_hash(for_sizes(graph, {}).value()), common::graph_hash(graph));
  for (const common::Graph* narrow : {&*one, &*some}) {
    EXPECT_TRUE(common::verify(*narrow).ok());
    EXPECT_EQ(narrow->inputs.size(), graph.inputs.size());
    EXPECT_EQ(narrow->outputs.size(), graph.outputs.size());
  }
  for (const common::GraphInput& input : one->inputs) {
    for (const common::Expr& size : input.shape) EXPECT_TRUE(size.is_constant());
  }
  EXPECT_FALSE(for_sizes(graph, {{0, {1, 65}}}).ok());
  EXPECT_FALSE(for_sizes(graph, {{3, {1, 1}}}).ok());
}

}  // namespace
}  // namespace clients
