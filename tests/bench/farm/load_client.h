// A client that submits graphs to a farm under load and notes when the answers come.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/ir/hlir/graph.h"
#include "common/wire/socket.h"
#include "tests/bench/farm/farm_under_load.h"

namespace bench {

class LoadClient {
 public:
  LoadClient(common::WireContext& context, const FarmUnderLoad& farm);

  common::DealerSocket& socket() { return socket_; }
  bool is_welcome() const { return is_welcome_; }
  // y = x + x over `size` elements.
  void submit(int64_t size, uint64_t budget);
  // `in_flight` as in common::Submit.
  void submit(const common::Graph& graph, uint64_t budget, uint32_t in_flight);
  // Handles what has arrived, and says hello and submits again to a coordinator that restarted.
  void receive();
  void wait_until_answered();

  bool is_accepted() const { return accepted_ns_ != 0; }
  bool is_answered() const { return answered_ns_ != 0; }
  // From the submit to the plan or the failure.
  double answer_ms() const { return static_cast<double>(answered_ns_ - submitted_ns_) * 1e-6; }
  // Empty after a plan.
  const std::string& failure() const { return failure_; }
  uint64_t candidates_done() const { return candidates_done_; }
  uint64_t submits() const { return submits_; }

 private:
  void say_hello();
  void send_submit();

  common::DealerSocket socket_;
  common::Submit request_;
  common::SharedBytes graph_;
  bool is_welcome_ = false;
  uint64_t connections_ = 0;
  uint64_t submits_ = 0;
  int64_t submitted_ns_ = 0;
  int64_t accepted_ns_ = 0;
  int64_t answered_ns_ = 0;
  uint64_t candidates_done_ = 0;
  std::string failure_;
  std::vector<common::Result<common::Packet>> packets_;
};

}  // namespace bench
