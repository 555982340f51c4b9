// Goal: whatever a cache, a disk or a peer hands out as a plan, a grant, a sealed envelope, a
// bundle or a list of revocations is a verified value or an error. Method: one of each, damaged,
// given to all five decoders. What decodes must encode to bytes that decode to an equal value; a
// sealed envelope to the very same bytes, because it is signed.
#include "common/base/check.h"
#include "common/wire/bundle/plan_bundle.h"
#include "common/wire/ir_codec.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/wire/wire_samples.h"

namespace {

std::string text(const common::Bytes& bytes) { return std::string(common::as_text(bytes)); }

common::Sealed sealed(common::Bytes bytes) {
  common::Sealed plan;
  plan.bytes = std::move(bytes);
  plan.signer.fill(std::byte{7});
  plan.signature.fill(std::byte{9});
  return plan;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  common::Bytes plan = common::encode_plan(common::sample_plan());
  common::Bytes grant = common::encode_grant({"team", plan});
  common::Bytes list =
      common::encode_revocations({{common::digest_of("a"), common::digest_of("b")}});
  return {text(plan),
          text(grant),
          text(list),
          text(common::encode_sealed(sealed(common::to_bytes(common::as_bytes("short"))))),
          text(common::encode_sealed(sealed(grant))),
          text(common::encode_bundle({grant, {list, plan}, {}}))};
}

size_t fuzz::heap_bytes_max() { return size_t{32} << 20; }

void fuzz::one_input(common::ByteView bytes) {
  auto plan = common::decode_plan(bytes);
  if (plan.ok()) {
    common::Status verified = common::verify(*plan);
    LFARM_CHECK(verified.ok(), verified.error().message);
    auto again = common::decode_plan(common::encode_plan(*plan));
    LFARM_CHECK(again.ok() && *again == *plan, "the plan changed on its way");
    LFARM_CHECK(!common::print(*plan).empty(), "a plan prints as nothing");
  }
  auto grant = common::decode_grant(bytes);
  if (grant.ok()) {
    auto again = common::decode_grant(common::encode_grant(*grant));
    LFARM_CHECK(again.ok() && again->tenant == grant->tenant && again->plan == grant->plan,
                "the grant changed on its way");
  }
  auto sealed = common::decode_sealed(bytes);
  if (sealed.ok()) {
    common::Bytes again = common::encode_sealed(*sealed);
    LFARM_CHECK(common::as_text(again) == common::as_text(bytes), "bits outside of the signature");
  }
  common::Bytes at_a_word = common::to_bytes(bytes);
  if (auto bundle = common::decode_bundle(at_a_word); bundle.ok()) {
    common::Bytes encoded = common::encode_bundle(*bundle);
    auto again = common::decode_bundle(encoded);
    LFARM_CHECK(again.ok() && again->objects.size() == bundle->objects.size() &&
                    common::as_text(again->signed_plan) == common::as_text(bundle->signed_plan),
                "the bundle changed on its way");
  }
  auto list = common::decode_revocations(bytes);
  if (list.ok()) {
    auto again = common::decode_revocations(common::encode_revocations(*list));
    LFARM_CHECK(again.ok() && again->plans == list->plans, "the list changed on its way");
  }
}
