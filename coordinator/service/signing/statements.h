// What a farm's key signs, each kind with a content of its own, so that the signature of one is
// never that of another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/result.h"

namespace coordinator::service {

enum class Statement : uint8_t {
  kPlan = 1,     // an encoded common::PlanGrant: this plan is for that tenant
  kRevocations,  // an encoded common::RevocationList: nobody may load these plans any more
  kClaim,        // claim_bytes(): this farm searches for the plan of a place
  kNotes,        // notes_bytes(): what replicas of a coordinator leave for one another
};
inline constexpr Statement kStatements[] = {Statement::kPlan, Statement::kRevocations,
                                            Statement::kClaim, Statement::kNotes};

common::Bytes claim_bytes(const common::Digest& place, int64_t expires_wall_ns);
common::Bytes notes_bytes(uint64_t record, std::string_view values);

// What the signature of a statement is over. kInvalidInput when claims or notes are cut off.
common::Result<common::Digest> content_of(Statement statement, common::ByteView bytes);

// Reads the statement in full: its content, if it is of the kind that it says, else kInvalidInput,
// naming what is wrong. For who signs what others ask for. `wall_ns`: now, for claims' bounds.
common::Result<common::Digest> checked_content(Statement statement, common::ByteView bytes,
                                               int64_t wall_ns);

// For people: what was signed, such as "plan 0123456789ab for tenant team-a".
std::string describe(Statement statement, common::ByteView bytes);

}  // namespace coordinator::service
