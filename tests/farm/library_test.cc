// liblfarm as applications use it: if these fail, programs that link it get wrong answers, wait for
// farms, or lose their models' state when a plan comes.
#include <clients/runtime/include/lfarm.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "clients/cli/case.h"
#include "clients/runtime/c_tensor.h"
#include "tests/farm/cli_testing.h"

namespace {

using clients::CallResult;
using common::HostTensor;
using common::Result;
using common::Status;

struct Failure {
  lfarm_status status;
  std::string message;
};

Failure take(lfarm_error* error) {
  Failure out{lfarm_error_status(error), lfarm_error_message(error)};
  lfarm_error_free(error);
  return out;
}

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
      return common::invalid_input(take(error).message);
    }
    return result(given, place);
  }
  Result<HostTensor> state(int) override { return common::unsupported("not asked for"); }
  Status set_state(int, const HostTensor&) override { return common::unsupported("not asked for"); }
  void wait() {
    lfarm_error* error = nullptr;
    EXPECT_EQ(lfarm_instance_wait(handle_, 120'000, &error), LFARM_OK) << take(error).message;
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
        if (output.kind != common::OutputKind::kUser &&
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

class Library : public cli_testing::CliTest {
 protected:
  cli_testing::Invocation up() {
    cli_testing::Invocation run = start({"up", "--workers", "1"});
    EXPECT_TRUE(run.until_out("farm at tcp://127.0.0.1:")) << run.err();
    return run;
  }
  lfarm_session* open(int64_t deadline_ms, const char* farm = nullptr) {
    lfarm_options options;
    lfarm_options_init(&options);
    options.farm = farm;
    options.deadline_ms = deadline_ms;
    options.budget_candidates = 3;
    options.threads = 1;
    lfarm_session* session = nullptr;
    lfarm_error* error = nullptr;
    EXPECT_EQ(lfarm_session_open(&options, &session, &error), LFARM_OK) << take(error).message;
    return session;
  }
  // Runs a bundled case; `is_planned`: calls are to run plans from the first one on.
  clients::CaseResult run_case(const std::string& name, lfarm_session* session, bool is_planned,
                               bool waits_after_first) {
    std::string folder = fixture(name);
    lfarm_model* model = nullptr;
    lfarm_error* error = nullptr;
    EXPECT_EQ(lfarm_model_load(session, (folder + "/model.pt2").c_str(), &model, &error), LFARM_OK);
    auto result = clients::run_case(
        folder,
        [&](std::shared_ptr<const clients::Model> loaded) -> Result<clients::InstanceFactory> {
          EXPECT_EQ(lfarm_model_outputs(model), loaded->user_outputs.size());
          EXPECT_EQ(std::string(lfarm_model_graph_hash(model)).size(), 64u);
          return clients::InstanceFactory(
              [=, this]() -> Result<std::unique_ptr<clients::Instance>> {
                lfarm_instance* handle = nullptr;
                lfarm_error* failed = nullptr;
                if (lfarm_instance_create(model, &handle, &failed) != LFARM_OK) {
                  return common::internal_error(take(failed).message);
                }
                EXPECT_EQ(lfarm_instance_plan(handle, nullptr), is_planned ? 1 : 0) << name;
                return std::unique_ptr<clients::Instance>(
                    new LibraryInstance(loaded, handle, waits_after_first));
              });
        });
    lfarm_model_free(model);
    return result;
  }
  void expect_pass(const clients::CaseResult& result) {
    EXPECT_EQ(result.verdict, clients::Verdict::kPass) << clients::line_of(result);
  }
};

TEST_F(Library, ModelsAnswerWithoutAFarm) {
  lfarm_session* session = open(0);
  for (const char* name : {"mlp", "mlp_dynamic", "kv_step"}) {
    expect_pass(run_case(name, session, false, false));
  }
  lfarm_session_free(session);
}

TEST_F(Library, AMissingFarmIsSaidAndCostsNoMoreThanTheDeadline) {
  lfarm_session* session = open(0, "tcp://127.0.0.1:1");
  lfarm_model* loaded = nullptr;
  lfarm_instance* instance = nullptr;
  lfarm_error* error = nullptr;
  ASSERT_EQ(lfarm_model_load(session, model("mlp").c_str(), &loaded, &error), LFARM_OK);
  ASSERT_EQ(lfarm_instance_create(loaded, &instance, &error), LFARM_OK);
  // Longer than it takes to give the connection up.
  ASSERT_EQ(lfarm_instance_wait(instance, 60'000, &error), LFARM_UNAVAILABLE);
  Failure failure = take(error);
  EXPECT_NE(failure.message.find("no farm answers at tcp://127.0.0.1:1"), std::string::npos)
      << failure.message;
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
  expect_pass(run_case("kv_step", session, false, true));
  lfarm_session_free(session);

  session = open(120'000);
  for (const char* name : {"mlp", "mlp_dynamic", "kv_step"}) {
    expect_pass(run_case(name, session, true, false));
  }
  lfarm_session_free(session);

  // Plans on disk serve while the farm is away.
  farm.signal(SIGTERM);
  EXPECT_EQ(farm.wait(), 0) << farm.err();
  session = open(0);
  for (const char* name : {"mlp", "mlp_dynamic", "kv_step"}) {
    expect_pass(run_case(name, session, true, false));
  }
  lfarm_session_free(session);
}

// Between calls, from memory and from disk, and the next plan is asked for.
TEST_F(Library, ARevokedPlanIsLeftWhileTheProgramRuns) {
  cli_testing::Invocation farm = up();
  lfarm_options options;
  lfarm_options_init(&options);
  options.deadline_ms = 120'000;
  options.budget_candidates = 3;
  options.threads = 1;
  options.revocations_ms = 20;
  lfarm_session* session = nullptr;
  lfarm_model* loaded = nullptr;
  lfarm_instance* instance = nullptr;
  lfarm_error* error = nullptr;
  ASSERT_EQ(lfarm_session_open(&options, &session, &error), LFARM_OK) << take(error).message;
  ASSERT_EQ(lfarm_model_load(session, model("mlp").c_str(), &loaded, &error), LFARM_OK);
  ASSERT_EQ(lfarm_instance_create(loaded, &instance, &error), LFARM_OK);
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
  EXPECT_EQ(lfarm_instance_wait(instance, 120'000, &error), LFARM_OK) << take(error).message;
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
  EXPECT_NE(take(error).message.find("/nowhere.pt2"), std::string::npos);
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
    return take(error).message;
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

  lfarm_options options;
  lfarm_options_init(&options);
  options.device = "tpu";
  EXPECT_EQ(lfarm_session_open(&options, &session, &error), LFARM_INVALID);
  EXPECT_NE(take(error).message.find("tpu"), std::string::npos);
}

}  // namespace
