// Goal: a worker bears any payload and a coordinator any report; programs are verified values.
// Method: a program, a payload and a report, damaged, given to the decoders of all three. What
// decodes must survive another round trip.
#include "common/base/check.h"
#include "common/wire/ir_codec.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/wire/wire_samples.h"

std::vector<std::string> fuzz::seeds() {
  auto text = [](const common::Bytes& bytes) { return std::string(common::as_text(bytes)); };
  return {text(common::encode_program(common::sample_program())),
          text(common::encode_task_payload(common::sample_payload())),
          text(common::encode_task_report(common::sample_report()))};
}

size_t fuzz::heap_bytes_max() { return size_t{32} << 20; }

void fuzz::one_input(common::ByteView bytes) {
  auto program = common::decode_program(bytes);
  if (program.ok()) {
    common::Status verified = common::verify(*program);
    LFARM_CHECK(verified.ok(), verified.error().message);
    auto again = common::decode_program(common::encode_program(*program));
    LFARM_CHECK(again.ok() && *again == *program, "the program changed on its way");
    LFARM_CHECK(common::program_fingerprint(*again) == common::program_fingerprint(*program),
                "the program's fingerprint changed on its way");
  }
  auto payload = common::decode_task_payload(bytes);
  if (payload.ok()) {
    auto again = common::decode_task_payload(common::encode_task_payload(*payload));
    LFARM_CHECK(again.ok() && *again == *payload, "the payload changed on its way");
  }
  auto report = common::decode_task_report(bytes);
  if (report.ok()) {
    auto again = common::decode_task_report(common::encode_task_report(*report));
    LFARM_CHECK(again.ok() && *again == *report, "the report changed on its way");
  }
}
