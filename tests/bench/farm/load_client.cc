#include "tests/bench/farm/load_client.h"

#include <stdexcept>
#include <utility>

#include "common/base/clock.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/wire/ir_codec.h"
#include "tests/farm/service/service_script.h"

namespace bench {

namespace {

constexpr size_t kPacketsAtOnce = 64;
constexpr int kPollMs = 50;

common::DealerSocket connect(common::WireContext& context, const FarmUnderLoad& farm) {
  auto socket = common::DealerSocket::connect(context, {farm.endpoint(), farm.keys(), nullptr});
  if (!socket.ok()) throw std::runtime_error(socket.error().message);
  return std::move(socket).value();
}

}  // namespace

LoadClient::LoadClient(common::WireContext& context, const FarmUnderLoad& farm)
    : socket_(connect(context, farm)) {
  say_hello();
}

void LoadClient::say_hello() {
  socket_.send(common::ClientHello{"bench", common::kProtocolVersion, "bench"});
}

void LoadClient::submit(int64_t size, uint64_t budget) {
  submit(coordinator::service::scripted_graph(size), budget, 0);
}

void LoadClient::submit(const common::Graph& graph, uint64_t budget, uint32_t in_flight) {
  graph_ = common::share(common::encode_graph(graph));
  request_.request_id = 1;
  request_.graph = common::digest_of(graph_.bytes);
  request_.graph_hash = common::graph_hash(graph);
  request_.target = kLoadTarget;
  request_.budget_candidates = budget;
  request_.in_flight = in_flight;
  submitted_ns_ = common::SteadyClock().now_ns();
  send_submit();
}

void LoadClient::send_submit() {
  ++submits_;
  socket_.send(request_, graph_);
}

void LoadClient::receive() {
  uint64_t connections = socket_.counters().ready;
  if (connections > connections_ && connections_ != 0) {
    say_hello();
    if (submitted_ns_ != 0 && !is_answered()) send_submit();
  }
  connections_ = connections;
  packets_.clear();
  socket_.receive(packets_, kPacketsAtOnce);
  for (const auto& packet : packets_) {
    if (!packet.ok()) throw std::runtime_error(packet.error().message);
    const common::Message& message = packet->message;
    int64_t now_ns = common::SteadyClock().now_ns();
    if (std::holds_alternative<common::Welcome>(message)) {
      is_welcome_ = true;
    } else if (std::holds_alternative<common::Accepted>(message)) {
      accepted_ns_ = now_ns;
    } else if (auto* progress = std::get_if<common::Progress>(&message)) {
      candidates_done_ = progress->candidates_done;
    } else if (std::holds_alternative<common::PlanReady>(message)) {
      answered_ns_ = now_ns;
    } else if (auto* failed = std::get_if<common::JobFailed>(&message)) {
      failure_ = failed->message;
      answered_ns_ = now_ns;
    }
  }
}

void LoadClient::wait_until_answered() {
  common::Poller poller;
  poller.watch(socket_);
  while (!is_answered()) {
    receive();
    if (!poller.wait(kPollMs).ok()) throw std::runtime_error("cannot wait");
  }
}

}  // namespace bench
