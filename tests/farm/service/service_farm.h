// A coordinator in this process over a scripted search, with a state directory of its own.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "common/base/files.h"
#include "coordinator/service/service.h"
#include "tests/farm/service/service_peers.h"
#include "tests/farm/service/service_script.h"

namespace coordinator::service {

inline constexpr const char* kTestTarget = "cpu-test";

class ServiceTest : public testing::Test {
 protected:
  ServiceTest() : scratch_(scratch()) {
    options_.state = scratch_.path() + "/state";
    options_.listen = "tcp://127.0.0.1:*";
    options_.name = "test-farm";
    // Nothing expires, however slow the machine; tests of expiry say so.
    options_.times.heartbeat_ms = 1'000;
    options_.farm.times.heartbeat_timeout_ms = 60'000;
    options_.times.no_worker_grace_ms = 60'000;
    options_.farm.times.settle_ms = 100;
    options_.times.progress_ms = 1;
    options_.create_search = scripted_searches(counters_);
  }
  ~ServiceTest() override { stop(); }

  void start() {
    auto service = Service::create(options_);
    if (!service.ok()) throw std::runtime_error(service.error().message);
    service_ = std::move(service).value();
    thread_ = std::thread([this] { status_ = service_->run(); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    service_->stop();
    thread_.join();
    service_.reset();
    EXPECT_TRUE(status_.ok());
  }
  void expire_quickly() {
    options_.times.heartbeat_ms = 50;
    options_.farm.times.heartbeat_timeout_ms = 400;
    options_.times.no_worker_grace_ms = 300;
  }
  Service& service() { return *service_; }
  std::string endpoint() const { return service_->endpoint(); }
  std::string public_key() const { return service_->public_key(); }
  static common::Submit request(uint64_t budget = 6) {
    common::Submit submit;
    submit.target = kTestTarget;
    submit.budget_candidates = budget;
    return submit;
  }

  std::shared_ptr<ScriptCounters> counters_ = std::make_shared<ScriptCounters>();
  ServiceOptions options_;

 private:
  static common::ScratchDirectory scratch() {
    auto made = common::ScratchDirectory::create("service_test");
    if (!made.ok()) throw std::runtime_error(made.error().message);
    return std::move(made).value();
  }
  common::ScratchDirectory scratch_;
  std::unique_ptr<Service> service_;
  std::thread thread_;
  common::Status status_;
};

}  // namespace coordinator::service
