// liblfarm's handles in tests: sessions, models and instances that have to come about.
#pragma once

#include <clients/runtime/include/lfarm.h>

#include <functional>
#include <memory>
#include <string>

#include "clients/cli/models/case.h"
#include "tests/farm/cli/cli_testing.h"

namespace cli_testing {

// What the error says; it is freed. Null says nothing.
inline std::string take(lfarm_error* error) {
  std::string out = error == nullptr ? "" : lfarm_error_message(error);
  lfarm_error_free(error);
  return out;
}

class LibraryTest : public CliTest {
 protected:
  // A small budget and one thread. `deadline_ms`: see lfarm_options.
  static lfarm_options options(int64_t deadline_ms, const char* device = nullptr) {
    lfarm_options options;
    lfarm_options_init(&options);
    if (device != nullptr) options.device = device;
    options.deadline_ms = deadline_ms;
    options.budget_candidates = 3;
    options.threads = 1;
    return options;
  }
  lfarm_session* open(const lfarm_options& options) {
    lfarm_session* session = nullptr;
    lfarm_error* error = nullptr;
    EXPECT_EQ(lfarm_session_open(&options, &session, &error), LFARM_OK) << take(error);
    return session;
  }
  lfarm_session* open(int64_t deadline_ms, const char* device = nullptr) {
    return open(options(deadline_ms, device));
  }
  // A bundled model.
  lfarm_model* load(lfarm_session* session, const std::string& name) {
    lfarm_model* loaded = nullptr;
    lfarm_error* error = nullptr;
    EXPECT_EQ(lfarm_model_load(session, model(name).c_str(), &loaded, &error), LFARM_OK)
        << take(error);
    return loaded;
  }
  lfarm_instance* instance_of(lfarm_model* model) {
    lfarm_instance* instance = nullptr;
    lfarm_error* error = nullptr;
    EXPECT_EQ(lfarm_instance_create(model, &instance, &error), LFARM_OK) << take(error);
    return instance;
  }

  using MakeInstance =
      std::function<clients::Instance*(std::shared_ptr<const clients::Model>, lfarm_instance*)>;
  // Runs a bundled case through what `make` puts around its handle. `is_planned`: calls are to run
  // plans from the first one on.
  void expect_pass(const std::string& name, lfarm_session* session, bool is_planned,
                   const MakeInstance& make) {
    lfarm_model* loaded = load(session, name);
    auto result = clients::run_case(
        fixture(name),
        [&](std::shared_ptr<const clients::Model> given)
            -> common::Result<clients::InstanceFactory> {
          EXPECT_EQ(lfarm_model_outputs(loaded), given->user_outputs.size());
          EXPECT_EQ(std::string(lfarm_model_graph_hash(loaded)).size(), 64u);
          return clients::InstanceFactory(
              [=, this]() -> common::Result<std::unique_ptr<clients::Instance>> {
                lfarm_instance* handle = instance_of(loaded);
                EXPECT_EQ(lfarm_instance_plan(handle, nullptr), is_planned ? 1 : 0) << name;
                return std::unique_ptr<clients::Instance>(make(given, handle));
              });
        });
    lfarm_model_free(loaded);
    EXPECT_EQ(result.verdict, clients::Verdict::kPass) << clients::line_of(result);
  }
};

}  // namespace cli_testing
