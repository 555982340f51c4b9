#include "coordinator/service/sharing/signed_notes.h"

#include "common/base/clock.h"
#include "common/plan/seal.h"

namespace coordinator::service {

using common::Digest;
using common::Result;

Result<std::string> sign_notes(const Signer& own, uint64_t record, std::string_view values) {
  LFARM_ASSIGN_OR_RETURN(common::Proof proof,
                         own.sign(Statement::kNotes, notes_bytes(record, values)));
  return std::string(common::as_text(common::encode_proof(proof))).append(values);
}

Result<std::string_view> open_notes(const Signer& own, uint64_t record, std::string_view bytes) {
  common::ByteView rest = common::as_bytes(bytes);
  LFARM_ASSIGN_OR_RETURN(common::Proof proof, common::take_proof(&rest));
  std::string_view values = common::as_text(rest);
  LFARM_ASSIGN_OR_RETURN(Digest content,
                         content_of(Statement::kNotes, notes_bytes(record, values)));
  // A record that stays until its delegation has ended is what was left here all the same.
  int64_t when_ns = common::wall_clock_ns();
  auto delegation = common::decode_delegation(proof.delegation);
  if (delegation.ok()) when_ns = delegation->from_ns;
  if (common::check_proof(proof, own.authority(), content, "record", when_ns).ok()) return values;
  return common::corrupt("a replica's record has another signature than this farm's");
}

}  // namespace coordinator::service
