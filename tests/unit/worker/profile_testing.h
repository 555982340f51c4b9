// Executor children under test: candidates for one small graph on any device, run as a worker runs
// them. The test's binary is its own executor child.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>

#include "common/ir/hlir/builder.h"
#include "common/wire/ir_codec.h"
#include "tests/unit/runtime/runtime_testing.h"
#include "worker/profile/executor_child.h"
#include "worker/profile/executor_client.h"

namespace worker {

// x of s0 elements, to which the weight w is added so many times.
inline common::Graph sum_graph(int additions) {
  common::GraphBuilder g({{1, 4096}});
  common::Expr n = common::Expr::symbol(0);
  auto sum = g.input(common::InputKind::kUser, common::DType::kFloat32, {n}, "x");
  auto w = g.input(common::InputKind::kWeight, common::DType::kFloat32, {n}, "w");
  for (int k = 0; k < additions; ++k) sum = g.binary(common::BinaryOp::kAdd, sum, w);
  g.output(sum);
  return g.finish();
}

class ProfileFixture : public testing::Test {
 protected:
  ProfileFixture(int additions, common::SandboxProfile profile)
      : graph_bytes_(common::encode_graph(sum_graph(additions))),
        client_({"/proc/self/exe", "--executor"}, sandbox(profile)) {}

  // One for all tests of a program, which are all of one profile.
  static std::shared_ptr<const common::Sandbox> sandbox(common::SandboxProfile profile) {
    static const auto found = common::Sandbox::find(profile);
    return found;
  }

  // For the sizes 37 and 1; three runs.
  ProfileRequest request_for(common::Plan plan, const common::Bytes& object,
                             common::Target target) {
    ProfileRequest result;
    result.graph = common::digest_of(graph_bytes_);
    result.plan = std::move(plan);
    result.plan.key.target = std::move(target);
    result.objects = {{common::digest_of(object), object}};
    result.verify.sizes = {{37}, {1}};
    result.measure.repetitions = 3;
    return result;
  }
  ProfileReply run(const ProfileRequest& request, int candidate_ms = 600'000) {
    ProfileLimits limits;
    limits.candidate_ms = candidate_ms;
    return client_.run(request, graph_bytes_, limits);
  }
  // A right candidate of so many calls is measured, and costs no child.
  void expect_measured(const ProfileRequest& good, size_t calls) {
    ProfileReply reply = run(good);
    ASSERT_EQ(reply.outcome, common::TaskOutcome::kOk) << reply.message;
    EXPECT_GE(reply.measured.runs, 3u);
    EXPECT_GT(reply.measured.total_ns, 0u);
    EXPECT_EQ(reply.measured.call_ns.size(), calls);
    EXPECT_LT(reply.max_error, 1e-5);
    pid_t child = client_.child_pid();
    reply = run(good);
    EXPECT_EQ(reply.outcome, common::TaskOutcome::kOk) << reply.message;
    EXPECT_EQ(client_.child_pid(), child) << "a healthy child was replaced";
  }
  // "Max address space" of the child's limits: "unlimited", or a number of bytes.
  std::string child_limit(const std::string& name) const {
    std::string limits =
        common::read_file(common::cat("/proc/", client_.child_pid(), "/limits")).value();
    size_t at = limits.find(name);
    if (at == std::string::npos) return "";
    at = limits.find_first_not_of(' ', at + name.size());
    return limits.substr(at, limits.find(' ', at) - at);
  }

  common::Bytes graph_bytes_;
  ExecutorClient client_;
};

// main() of such a test.
inline int run_tests_or_executor(int argc, char** argv, const ExecutorDevice& device) {
  if (argc == 2 && std::strcmp(argv[1], "--executor") == 0) {
    return run_executor_child(STDIN_FILENO, device);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

}  // namespace worker
