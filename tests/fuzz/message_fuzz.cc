// Goal: whatever a peer sends, an envelope is a valid message or an error.
// Method: envelopes of several messages, damaged; what decodes must encode to bytes that decode to
// an equal message.
#include "common/base/check.h"
#include "common/base/digest.h"
#include "common/wire/codec.h"
#include "tests/fuzz/fuzz.h"

namespace {

common::Message task_result() {
  common::TaskResult result;
  result.lease = {7, 9};
  result.outcome = common::TaskOutcome::kWrong;
  result.message = "output 0 differs";
  result.report = common::to_bytes(common::as_bytes("not decoded here"));
  result.blobs = {common::digest_of("a"), common::digest_of("b")};
  return result;
}

common::Message heartbeat() {
  common::Heartbeat message;
  message.leases = {{1, 2}, {3, 4}, {5, 6}};
  return message;
}

constexpr size_t kKinds = std::variant_size_v<common::Message>;

template <size_t... kIndex>
std::vector<common::Message> one_of_each(std::index_sequence<kIndex...>) {
  return {common::Message(std::in_place_index<kIndex>)...};
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> seeds;
  for (const common::Message& message :
       {task_result(), heartbeat(), common::Message(common::Credit{3}),
        common::Message(common::BlobRequest{{common::digest_of("c")}})}) {
    seeds.emplace_back(common::as_text(common::encode(message)));
  }
  // The shape of every kind; most lack what makes them valid.
  for (const common::Message& message : one_of_each(std::make_index_sequence<kKinds>())) {
    seeds.emplace_back(common::as_text(common::encode(message)));
  }
  return seeds;
}

size_t fuzz::heap_bytes_max() { return size_t{16} << 20; }

void fuzz::one_input(common::ByteView bytes) {
  auto message = common::decode(bytes);
  if (!message.ok()) return;
  auto again = common::decode(common::encode(*message));
  LFARM_CHECK(again.ok(), again.error().message);
  LFARM_CHECK(*again == *message, "the message changed on its way");
}
