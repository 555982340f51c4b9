// liblfarm as applications use it: if these fail, programs that link it get wrong answers, wait for
// farms, or lose their models' state when a plan comes.
#include <algorithm>
#include <chrono>
#include <clients/runtime/include/lfarm.hpp>
#include <filesystem>

#include "clients/runtime/c_tensor.h"
#include "tests/farm/library_testing.h"

namespace {

using cli_testing::take;
using clients::CallResult;
using common::HostTensor;
using common::Result;
using common::Status;

// What the C interface does, behind the interface that cases are run by.
class LibraryInstance final : public clients::Instance {
 public:
  LibraryInstance(std::shared_ptr<const clients::Model> model, lfarm_instance* handle,
                  bool waits_after_first)
      : model_(std::move(model)), handle_(handle), waits_after_first_(waits_after_first) {}
  ~LibraryInstance() override {
    lfarm_outputs_free(outputs_);
    lfarm_instance_free(handle_);
  }
  LibraryInstance(const LibraryInstance&) = delete;
  LibraryInstance& operator=(const LibraryInstance&) = delete;

  Result<CallResult> call(std::span<const HostTensor> user_inputs) override {
    std::vector<HostTensor> given;
    std::vector<size_t> place;
    for (size_t i = 0; i < user_inputs.size(); ++i) {
      if (model_->user_inputs[i] < 0) continue;
      given.push_back(user_inputs[i].clone().value());
      place.push_back(i);
    }
    std::vector<lfarm_tensor> tensors;
    std::vector<std::vector<int64_t>> shapes(given.size());
    for (size_t i = 0; i < given.size(); ++i) {
      tensors.push_back(
          clients::to_c(given[i], model_->user_input_is_complex[place[i]], &shapes[i]));
    }
    if (calls_++ == 1 && waits_after_first_) wait();
    lfarm_error* error = nullptr;
    if (lfarm_instance_run(handle_, tensors.data(), tensors.size(), &outputs_, &error) !=
        LFARM_OK) {
      return common::invalid_input(take(error));
    }
    return result(given, place);
  }
  Result<HostTensor> state(int) override { return common::unsupported("not asked for"); }
  Status set_state(int, const HostTensor&) override { return common::unsupported("not asked for"); }
  void wait() {
    lfarm_error* error = nullptr;
    EXPECT_EQ(lfarm_instance_wait(handle_, 600'000, &error), LFARM_OK) << take(error);
    lfarm_plan plan{};
    plan.size = sizeof plan;
    ASSERT_EQ(lfarm_instance_plan(handle_, &plan), 1);
    EXPECT_EQ(std::string(plan.id).size(), 64u);
    EXPECT_EQ(std::string(plan.target).rfind("cpu-", 0), 0u) << plan.target;
    EXPECT_GT(plan.best_ns, 0);
    EXPECT_GT(plan.candidates, 0);
  }

 private:
  Result<CallResult> result(const std::vector<HostTensor>& given,
                            const std::vector<size_t>& place) const {
    CallResult out;
    for (size_t i = 0; i < lfarm_outputs_count(outputs_); ++i) {
      const lfarm_tensor* tensor = lfarm_outputs_get(outputs_, i);
      if (tensor == nullptr) {
        out.outputs.emplace_back();
        continue;
      }
      LFARM_ASSIGN_OR_RETURN(HostTensor value,
                             clients::from_c(*tensor, model_->user_outputs[i].complex));
      out.outputs.emplace_back(value.clone().value());
    }
    for (const common::GraphOutput& output : model_->graph.outputs) {
      for (size_t i = 0; i < place.size(); ++i) {
        if (output.kind == common::OutputKind::kMutate &&
            model_->user_inputs[place[i]] == output.input) {
          out.mutated.emplace_back(static_cast<int>(place[i]), given[i]);
        }
      }
    }
    return out;
  }

  std::shared_ptr<const clients::Model> model_;
  lfarm_instance* handle_;
  lfarm_outputs* outputs_ = nullptr;
  bool waits_after_first_;
  int calls_ = 0;
};

class Library : public cli_testing::LibraryTest {
 protected:
  cli_testing::Invocation up() {
    cli_testing::Invocation run = start({"up", "--workers", "1"});
    EXPECT_TRUE(run.until_out("farm at tcp://127.0.0.1:")) << run.err();
    return run;
  }
  void expect_pass(const std::string& name, lfarm_session* session, bool is_planned,
                   bool waits_after_first = false) {
    LibraryTest::expect_pass(name, session, is_planned, [=](auto given, auto* handle) {
      return new LibraryInstance(std::move(given), handle, waits_after_first);
    });
  }
};

TEST_F(Library, ModelsAnswerWithoutAFarm) {
  lfarm_session* session = open(0);
  for (const char* name : {"mlp", "mlp_dynamic", "kv_step"}) {
    expect_pass(name, session, false);
  }
  lfarm_session_free(session);
}

TEST_F(Library, AMissingFarmIsSaidAndCostsNoMoreThanTheDeadline) {
  lfarm_options nowhere = options(0);
  nowhere.farm = "tcp://127.0.0.1:1";
  lfarm_session* session = open(nowhere);
  lfarm_model* loaded = load(session, "mlp");
  lfarm_instance* instance = instance_of(loaded);
  lfarm_error* error = nullptr;
  // Longer than it takes to give the connection up.
  ASSERT_EQ(lfarm_instance_wait(instance, 600'000, &error), LFARM_UNAVAILABLE);
  std::string message = take(error);
  EXPECT_NE(message.find("no farm answers at tcp://127.0.0.1:1"), std::string::npos) << message;
  EXPECT_EQ(lfarm_instance_plan(instance, nullptr), 0);
  // In another order than they were made.
  lfarm_session_free(session);
  lfarm_model_free(loaded);
  lfarm_instance_free(instance);
}

TEST_F(Library, APlanComesBetweenTwoCallsAndKeepsTheState) {
  cli_testing::Invocation farm = up();
  lfarm_session* session = open(0);
  // The cache that its calls fill is the interpreter's first and the plan's from the second on.
  expect_pass("kv_step", session, false, true);
  lfarm_session_free(session);

  session = open(600'000);
  for (const char* name : {"mlp", "mlp_dynamic", "kv_step"}) {
    expect_pass(name, session, true);
  }
  lfarm_session_free(session);

  // Plans on disk serve while the farm is away.
  farm.signal(SIGTERM);
  EXPECT_EQ(farm.wait(), 0) << farm.err();
  session = open(0);
  for (const char* name : {"mlp", "mlp_dynamic", "kv_step"}) {
    expect_pass(name, session, true);
  }
  lfarm_session_free(session);
}

// One step of kv_step at this position, and what it answers.
std::vector<float> step_at(lfarm::Instance& instance, std::int64_t position) {
  std::vector<float> x(32, 0.5F);
  std::vector<std::int64_t> at = {position};
  lfarm::Outputs outputs = instance({{x.data(), {1, 1, 32}}, {at.data(), {1}}});
  return {outputs.data<float>(0), outputs.data<float>(0) + 32};
}

// By the interpreter and by a plan, and from one to the other.
TEST_F(Library, StatesAreReadAndWritten) {
  cli_testing::Invocation farm = up();
  lfarm::Options options;
  options.budget_candidates = 2;
  options.threads = 1;
  options.deadline_ms = 0;
  lfarm::Session session(options);
  lfarm::Model known = session.load(model("kv_step"));
  lfarm::Instance first = known.instance(), second = known.instance();
  EXPECT_EQ(second.state("k").data<float>(0)[0], 0) << "before any call";
  step_at(first, 0);
  for (const char* name : {"k", "v"}) {
    lfarm::Outputs content = first.state(name);
    ASSERT_EQ(content[0]->ndim, 4);
    EXPECT_NE(content.data<float>(0)[0], 0) << name;
    second.set_state(name, {const_cast<float*>(content.data<float>(0)), {1, 4, 16, 8}});
  }
  second.wait(600'000);
  std::vector<float> expected = step_at(first, 1), answer = step_at(second, 1);
  for (size_t k = 0; k < expected.size(); ++k) EXPECT_NEAR(answer[k], expected[k], 1e-5) << k;
  EXPECT_NEAR(first.state("v").data<float>(0)[9], second.state("v").data<float>(0)[9], 1e-5);

  auto message_of = [](const std::function<void()>& body) -> std::string {
    try {
      body();
    } catch (const lfarm::Error& error) {
      return error.what();
    }
    return "";
  };
  float one = 1;
  EXPECT_EQ(message_of([&] { second.state("none"); }), "the model has no tensor \"none\"");
  EXPECT_EQ(message_of([&] { second.state("o.bias"); }),
            "\"o.bias\" is a weight, which no call changes: it is what was bound");
  EXPECT_EQ(message_of([&] {
              second.set_state("k", {&one, {1}});
            }),
            "\"k\" is f32[1,4,16,8] in the model, not f32[1]");
  farm.signal(SIGTERM);
  EXPECT_EQ(farm.wait(), 0) << farm.err();
}

// Between calls, from memory and from disk, and the next plan is asked for.
TEST_F(Library, ARevokedPlanIsLeftWhileTheProgramRuns) {
  cli_testing::Invocation farm = up();
  lfarm_options watchful = options(600'000);
  watchful.revocations_ms = 20;
  lfarm_session* session = open(watchful);
  lfarm_model* loaded = load(session, "mlp");
  lfarm_instance* instance = instance_of(loaded);
  lfarm_error* error = nullptr;
  auto plan_id = [&]() -> std::string {
    lfarm_plan plan{};
    plan.size = sizeof plan;
    return lfarm_instance_plan(instance, &plan) == 1 ? plan.id : "";
  };
  std::string before = plan_id();
  ASSERT_EQ(before.size(), 64u);
  auto files = [&] {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(state() + "/plans")) {
      count += entry.path().extension() == ".plan" ? 1 : 0;
    }
    return count;
  };
  ASSERT_EQ(files(), 1u);

  cli_testing::Invocation revoke = start({"cache", "revoke", before});
  ASSERT_EQ(revoke.wait(), 0) << revoke.err();
  auto known = std::make_shared<const clients::Model>(clients::load_model(model("mlp")).value());
  auto inputs = clients::read_inputs(*known, fixture("mlp") + "/inputs").value();
  LibraryInstance calls(known, instance, false);
  auto end = std::chrono::steady_clock::now() + cli_testing::kPatience;
  while (plan_id() == before && std::chrono::steady_clock::now() < end) {
    ASSERT_TRUE(calls.call(inputs).ok());
  }
  EXPECT_NE(plan_id(), before);
  // It was made anew, under another id.
  EXPECT_EQ(lfarm_instance_wait(instance, 600'000, &error), LFARM_OK) << take(error);
  EXPECT_NE(plan_id(), before);
  EXPECT_EQ(files(), 1u);
  ASSERT_TRUE(calls.call(inputs).ok());
  lfarm_model_free(loaded);
  lfarm_session_free(session);
}

TEST_F(Library, WhatIsWrongIsSaid) {
  EXPECT_EQ(lfarm_abi_version(), static_cast<uint32_t>(LFARM_ABI_VERSION));
  lfarm_error* error = nullptr;
  lfarm_session* session = open(0);
  lfarm_model* loaded = nullptr;
  EXPECT_EQ(lfarm_model_load(session, "/nowhere.pt2", &loaded, &error), LFARM_INVALID);
  EXPECT_NE(take(error).find("/nowhere.pt2"), std::string::npos);
  // Nobody has to look at errors.
  EXPECT_EQ(lfarm_model_load(session, "/nowhere.pt2", &loaded, nullptr), LFARM_INVALID);

  ASSERT_EQ(lfarm_model_load(session, model("mlp").c_str(), &loaded, &error), LFARM_OK);
  EXPECT_EQ(lfarm_model_inputs(loaded), 1u);
  lfarm_instance* instance = nullptr;
  ASSERT_EQ(lfarm_instance_create(loaded, &instance, &error), LFARM_OK);
  std::vector<float> data(3 * 16, 1);
  int64_t shape[2] = {3, 15};
  lfarm_tensor input{data.data(), {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  lfarm_outputs* outputs = nullptr;
  auto refusal = [&](size_t count = 1) {
    EXPECT_EQ(lfarm_instance_run(instance, &input, count, &outputs, &error), LFARM_INVALID);
    return take(error);
  };
  EXPECT_NE(refusal().find("f32[3, 16]"), std::string::npos);
  EXPECT_NE(refusal(0).find("takes 1 tensors, not 0"), std::string::npos);
  shape[1] = 16;
  input.dtype = {2, 128, 1};
  EXPECT_NE(refusal().find("128 bits"), std::string::npos);
  input.dtype = {2, 32, 1};
  input.device = {2, 0};
  EXPECT_NE(refusal().find("copy it to host memory"), std::string::npos);
  input.device = {1, 0};
  EXPECT_EQ(outputs, nullptr);

  // Rows with gaps, backwards: the same numbers as the plain copy.
  ASSERT_EQ(lfarm_instance_run(instance, &input, 1, &outputs, &error), LFARM_OK);
  const lfarm_tensor* plain = lfarm_outputs_get(outputs, 0);
  std::vector<float> expected(static_cast<float*>(plain->data),
                              static_cast<float*>(plain->data) + 3);
  std::vector<float> wide(3 * 40, 7);
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t k = 0; k < 16; ++k) wide[static_cast<size_t>((2 - row) * 40 + 2 * k)] = 1;
  }
  int64_t strides[2] = {-40, 2};
  input.data = wide.data();
  input.byte_offset = 80 * sizeof(float);
  input.strides = strides;
  ASSERT_EQ(lfarm_instance_run(instance, &input, 1, &outputs, &error), LFARM_OK);
  plain = lfarm_outputs_get(outputs, 0);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), static_cast<float*>(plain->data)));
  EXPECT_EQ(lfarm_outputs_get(outputs, 9), nullptr);
  lfarm_outputs_free(outputs);
  lfarm_instance_free(instance);
  lfarm_model_free(loaded);
  lfarm_session_free(session);

  lfarm_options unknown = options(0, "tpu");
  EXPECT_EQ(lfarm_session_open(&unknown, &session, &error), LFARM_INVALID);
  EXPECT_NE(take(error).find("tpu"), std::string::npos);
}

// An input of the fixtures mlp and mlp_dynamic.
std::vector<float> rows(int64_t count) {
  std::vector<float> data(static_cast<size_t>(count) * 16);
  for (size_t k = 0; k < data.size(); ++k) data[k] = static_cast<float>(k % 7) - 3;
  return data;
}

// What a call on that many rows gives, and by which plan.
struct Answer {
  std::vector<float> values;
  std::string plan;
};
Answer answer(lfarm_instance* instance, int64_t count) {
  std::vector<float> data = rows(count);
  int64_t shape[2] = {count, 16};
  lfarm_tensor input{data.data(), {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  lfarm_outputs* outputs = nullptr;
  lfarm_error* error = nullptr;
  EXPECT_EQ(lfarm_instance_run(instance, &input, 1, &outputs, &error), LFARM_OK) << take(error);
  Answer out;
  const lfarm_tensor* value = lfarm_outputs_get(outputs, 0);
  int64_t elements = 1;
  for (int32_t k = 0; k < value->ndim; ++k) elements *= value->shape[k];
  const auto* first = static_cast<const float*>(value->data);
  out.values.assign(first, first + elements);
  lfarm_plan plan{};
  plan.size = sizeof plan;
  if (lfarm_instance_plan(instance, &plan) != 0) out.plan = plan.id;
  lfarm_outputs_free(outputs);
  return out;
}

TEST_F(Library, PartsOfTheSizesHavePlansOfTheirOwn) {
  cli_testing::Invocation farm = up();
  // What submit finds is what sessions with the same parts ask for.
  const char* parts = "s0=1;s0=2..64";
  cli_testing::Invocation submit =
      lfarm({"submit", model("mlp_dynamic"), "--sizes", parts, "--budget", "2", "--json"});
  ASSERT_EQ(submit.wait(), 0) << submit.err();
  EXPECT_NE(submit.out().find("\"sizes\":\"s0=1\""), std::string::npos) << submit.out();
  EXPECT_NE(submit.out().find("\"sizes\":\"s0=2..64\""), std::string::npos) << submit.out();

  lfarm_session* whole = open(0);
  lfarm_options in_parts = options(600'000);
  in_parts.sizes = parts;
  in_parts.budget_candidates = 0;
  lfarm_session* split = open(in_parts);
  lfarm_model* models[2] = {};
  lfarm_instance* instances[2] = {};
  for (int k : {0, 1}) {
    models[k] = load(k == 0 ? whole : split, "mlp_dynamic");
    instances[k] = instance_of(models[k]);
  }
  std::string plans[2];
  for (int64_t count : {1, 5, 1, 64, 2}) {
    Answer expected = answer(instances[0], count), found = answer(instances[1], count);
    ASSERT_EQ(found.values.size(), expected.values.size());
    for (size_t k = 0; k < found.values.size(); ++k) {
      EXPECT_NEAR(found.values[k], expected.values[k], 1e-4) << count << " rows, value " << k;
    }
    std::string& plan = plans[count == 1 ? 0 : 1];
    EXPECT_EQ(found.plan.size(), 64u);
    if (plan.empty()) plan = found.plan;
    EXPECT_EQ(found.plan, plan) << count << " rows";
    EXPECT_NE(submit.out().find(plan), std::string::npos) << "another plan than submit found";
  }
  EXPECT_NE(plans[0], plans[1]);
  for (int k : {0, 1}) {
    lfarm_instance_free(instances[k]);
    lfarm_model_free(models[k]);
  }
  lfarm_session_free(whole);
  lfarm_session_free(split);

  for (const char* wrong : {"s0=0..3", "s1=1", "s0=5..2", "rows=1"}) {
    cli_testing::Invocation refused =
        lfarm({"submit", model("mlp_dynamic"), "--sizes", wrong, "--budget", "1"});
    EXPECT_EQ(refused.wait(), 2) << wrong << refused.out();
  }
  farm.signal(SIGTERM);
  EXPECT_EQ(farm.wait(), 0) << farm.err();
}

// The tensors of an archive as a safetensors file.
std::string as_safetensors(const clients::Model& model) {
  std::string header, data;
  for (size_t i = 0; i < model.weights.size(); ++i) {
    if (!model.weights[i]) continue;
    common::Bytes bytes = clients::contiguous_bytes(*model.weights[i]);
    std::string shape;
    for (int64_t size : model.weights[i]->sizes) {
      shape += common::cat(shape.empty() ? "" : ",", size);
    }
    EXPECT_EQ(model.graph.inputs[i].dtype, common::DType::kFloat32);
    header += common::cat(header.empty() ? "{" : ",", "\"", model.weight_names[i],
                          "\":{\"dtype\":\"F32\",\"shape\":[", shape, "],\"data_offsets\":[",
                          data.size(), ",", data.size() + bytes.size(), "]}");
    data += common::as_text(bytes);
  }
  header += "}";
  while (header.size() % 8 != 0) header += " ";
  uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

TEST_F(Library, AModelIsFoundByItsHashAndBoundFromFiles) {
  cli_testing::Invocation farm = up();
  ASSERT_EQ(lfarm({"submit", model("mlp"), "--budget", "2"}).wait(), 0);
  cli_testing::Invocation print = lfarm({"print", model("mlp"), "--stage", "signature"});
  ASSERT_EQ(print.wait(), 0);
  std::string signature = path("signature.json"), file = path("weights.safetensors");
  ASSERT_TRUE(common::write_file_atomic(signature, common::as_bytes(print.out())).ok());
  std::string tensors = as_safetensors(clients::load_model(model("mlp")).value());
  ASSERT_TRUE(common::write_file_atomic(file, common::as_bytes(tensors)).ok());

  lfarm_session* session = open(600'000);
  lfarm_error* error = nullptr;
  lfarm_model* whole = load(session, "mlp");
  lfarm_instance* instance = instance_of(whole);
  Answer expected = answer(instance, 3);
  std::string hash = lfarm_model_graph_hash(whole);
  lfarm_instance_free(instance);

  // By names from a signature and a safetensors file; by positions from the archive itself.
  for (bool has_names : {true, false}) {
    lfarm_model* found = nullptr;
    ASSERT_EQ(lfarm_model_find(session, hash.c_str(), has_names ? signature.c_str() : nullptr,
                               &found, &error),
              LFARM_OK)
        << take(error);
    EXPECT_EQ(lfarm_model_inputs(found), 1u);
    EXPECT_EQ(lfarm_instance_create(found, &instance, &error), LFARM_INVALID);
    EXPECT_NE(take(error).find(has_names ? "\"a.weight\"" : "\"0\""), std::string::npos);
    std::string from = has_names ? file : model("mlp");
    ASSERT_EQ(lfarm_model_bind_file(found, from.c_str(), &error), LFARM_OK) << take(error);
    ASSERT_EQ(lfarm_instance_create(found, &instance, &error), LFARM_OK) << take(error);
    Answer same = answer(instance, 3);
    EXPECT_EQ(same.values, expected.values);
    EXPECT_EQ(same.plan, expected.plan);

    // A pointer of the program's own, for instances from now on.
    float scale[4] = {};
    int64_t size = 4;
    lfarm_tensor zero{scale, {1, 0}, 1, {2, 32, 1}, &size, nullptr, 0};
    ASSERT_EQ(lfarm_model_bind(found, has_names ? "scale" : "4", &zero, &error), LFARM_OK)
        << take(error);
    EXPECT_EQ(lfarm_model_bind(found, "nothing", &zero, &error), LFARM_INVALID);
    EXPECT_NE(take(error).find("\"nothing\""), std::string::npos);
    lfarm_instance* scaled = nullptr;
    ASSERT_EQ(lfarm_instance_create(found, &scaled, &error), LFARM_OK) << take(error);
    EXPECT_NE(answer(scaled, 3).values, expected.values);
    EXPECT_EQ(answer(instance, 3).values, expected.values);
    lfarm_instance_free(scaled);
    lfarm_instance_free(instance);
    lfarm_model_free(found);
  }

  lfarm_model* none = nullptr;
  EXPECT_EQ(lfarm_model_find(session, std::string(64, '5').c_str(), nullptr, &none, &error),
            LFARM_UNAVAILABLE);
  EXPECT_NE(take(error).find("the farm has no plan of graph 555555555555"), std::string::npos);
  EXPECT_EQ(lfarm_model_find(session, "mlp", nullptr, &none, &error), LFARM_INVALID);
  EXPECT_NE(take(error).find("64 hexadecimal digits"), std::string::npos);
  lfarm_model_free(whole);
  lfarm_session_free(session);
  farm.signal(SIGTERM);
  EXPECT_EQ(farm.wait(), 0) << farm.err();
}

// What a profiler was told.
struct Told {
  int calls = 0;
  size_t kernels = 0;
  int64_t time_ns = 0, wall_ns = 0, bytes = 0;
};
void tell(void* context, const lfarm_profile* profile) {
  auto* told = static_cast<Told*>(context);
  ++told->calls;
  told->kernels = profile->kernel_count;
  told->wall_ns = profile->wall_ns;
  for (size_t k = 0; k < profile->kernel_count; ++k) {
    EXPECT_EQ(std::string(profile->kernels[k].id).size(), 64u);
    EXPECT_FALSE(std::string(profile->kernels[k].name).empty());
    told->time_ns += profile->kernels[k].time_ns;
    told->bytes += profile->kernels[k].bytes;
  }
}

TEST_F(Library, AProfilerIsToldOfEveryKernel) {
  cli_testing::Invocation farm = up();
  lfarm_session* session = open(0);
  lfarm_error* error = nullptr;
  lfarm_model* loaded = load(session, "mlp");
  lfarm_instance* instance = instance_of(loaded);
  ASSERT_EQ(lfarm_instance_wait(instance, 600'000, &error), LFARM_OK) << take(error);
  Answer plain = answer(instance, 3);
  Told told;
  lfarm_instance_set_profiler(instance, tell, &told);
  EXPECT_EQ(answer(instance, 3).values, plain.values);
  EXPECT_EQ(told.calls, 1);
  EXPECT_GT(told.kernels, 0u);
  EXPECT_GT(told.time_ns, 0);
  EXPECT_GE(told.wall_ns, told.time_ns);
  // The input is read, and the output written, by some kernel.
  EXPECT_GE(told.bytes, static_cast<int64_t>((3 * 16 + plain.values.size()) * sizeof(float)));
  lfarm_instance_set_profiler(instance, nullptr, nullptr);
  EXPECT_EQ(answer(instance, 3).values, plain.values);
  EXPECT_EQ(told.calls, 1);
  lfarm_instance_free(instance);
  lfarm_model_free(loaded);
  lfarm_session_free(session);
  farm.signal(SIGTERM);
  EXPECT_EQ(farm.wait(), 0) << farm.err();
}

TEST_F(Library, TheCppInterfaceDoesTheSame) {
  cli_testing::Invocation farm = up();
  lfarm::Options options;
  options.deadline_ms = 600'000;
  options.budget_candidates = 2;
  options.threads = 1;
  lfarm::Session session(options);
  lfarm::Model known = session.load(model("mlp"));
  lfarm::Instance instance = known.instance();
  std::vector<float> data = rows(3);
  lfarm::Outputs first = instance({{data.data(), {3, 16}}});
  auto values = [](const lfarm::Outputs& outputs) {
    return std::vector<float>(outputs.data<float>(0), outputs.data<float>(0) + 12);
  };
  std::vector<float> expected = values(first);

  lfarm::Model found = session.find(known.graph_hash());
  found.bind_file(model("mlp"));
  lfarm::Instance other = found.instance();
  lfarm::Outputs again;
  size_t kernels = 0;
  int calls = 0;
  other.set_profiler([&](const lfarm_profile& profile) {
    kernels += profile.kernel_count;
    ++calls;
  });
  other.run_on(nullptr, {{data.data(), {3, 16}}}, again);
  EXPECT_EQ(values(again), expected);
  const void* memory = again[0]->data;
  other.run_on(nullptr, {{data.data(), {3, 16}}}, again);
  EXPECT_EQ(again[0]->data, memory) << "outputs are used again";
  EXPECT_EQ(calls, 2);
  EXPECT_GT(kernels, 0u);
  other.set_profiler({});
  std::vector<lfarm::Tensor> inputs = {{data.data(), {3, 16}}};
  EXPECT_THROW(other.run(inputs, again), lfarm::Error) << "these are outputs of run_on";
  std::vector<float> zeros(4, 0);
  found.bind("3", {zeros.data(), {4}});
  EXPECT_NE(values(found.instance()({{data.data(), {3, 16}}})), expected);
  EXPECT_EQ(calls, 2);
  farm.signal(SIGTERM);
  EXPECT_EQ(farm.wait(), 0) << farm.err();
}

}  // namespace
