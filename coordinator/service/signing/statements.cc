#include "coordinator/service/signing/statements.h"

#include <cstring>

#include "common/base/cat.h"
#include "common/plan/plan.h"
#include "common/plan/seal.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/loop/options.h"

namespace coordinator::service {

using common::ByteView;
using common::cat;
using common::Digest;
using common::Result;
using common::Status;

namespace {

constexpr size_t kNumberBytes = 8;
constexpr size_t kClaimStatementBytes = sizeof(Digest) + kNumberBytes;

void append_number(common::Bytes& out, uint64_t number) {
  for (size_t byte = 0; byte < kNumberBytes; ++byte) {
    out.push_back(static_cast<std::byte>(number >> (8 * byte)));
  }
}

uint64_t number_at(ByteView bytes) {
  uint64_t number = 0;
  for (size_t byte = 0; byte < kNumberBytes; ++byte) {
    number |= static_cast<uint64_t>(bytes[byte]) << (8 * byte);
  }
  return number;
}

int64_t expiry_of_claim(ByteView bytes) {
  return static_cast<int64_t>(number_at(bytes.subspan(sizeof(Digest))));
}

Status check_plan(ByteView bytes) {
  LFARM_ASSIGN_OR_RETURN(common::PlanGrant grant, common::decode_grant(bytes));
  LFARM_ASSIGN_OR_RETURN(common::Plan plan, common::decode_plan(grant.plan));
  return common::verify(plan);
}

Status check(Statement statement, ByteView bytes, int64_t wall_ns) {
  switch (statement) {
    case Statement::kPlan:
      return check_plan(bytes);
    case Statement::kRevocations: {
      auto list = common::decode_revocations(bytes);
      return list.ok() ? Status() : Status(list.error());
    }
    case Statement::kClaim:
      if ((expiry_of_claim(bytes) - wall_ns) / 1'000'000 <= kClaimMsMax) return {};
      return common::invalid_input("it ends later than any claim may");
    case Statement::kNotes:
      return {};
  }
  return common::invalid_input(cat("a statement of kind ", static_cast<int>(statement)));
}

const char* name_of(Statement statement) {
  switch (statement) {
    case Statement::kPlan:
      return "plan";
    case Statement::kRevocations:
      return "revocation list";
    case Statement::kClaim:
      return "claim to search";
    case Statement::kNotes:
      return "record of replicas' notes";
  }
  return "statement";
}

}  // namespace

common::Bytes claim_bytes(const Digest& place, int64_t expires_wall_ns) {
  common::Bytes out(place.bytes.begin(), place.bytes.end());
  append_number(out, static_cast<uint64_t>(expires_wall_ns));
  return out;
}

common::Bytes notes_bytes(uint64_t record, std::string_view values) {
  common::Bytes out;
  out.reserve(kNumberBytes + values.size());
  append_number(out, record);
  ByteView bytes = common::as_bytes(values);
  out.insert(out.end(), bytes.begin(), bytes.end());
  return out;
}

Result<Digest> content_of(Statement statement, ByteView bytes) {
  switch (statement) {
    case Statement::kPlan:
      return common::plan_content(bytes);
    case Statement::kRevocations:
      return common::revocations_content(bytes);
    case Statement::kClaim: {
      if (bytes.size() != kClaimStatementBytes) break;
      Digest place;
      std::memcpy(place.bytes.data(), bytes.data(), sizeof(Digest));
      return common::Hasher()
          .text("search claim")
          .digest(place)
          .i64(expiry_of_claim(bytes))
          .finish();
    }
    case Statement::kNotes:
      if (bytes.size() < kNumberBytes) break;
      return common::Hasher()
          .text("replica notes")
          .u64(number_at(bytes))
          .data(bytes.subspan(kNumberBytes))
          .finish();
  }
  return common::invalid_input(cat("a ", name_of(statement), " of ", bytes.size(), " bytes"));
}

Result<Digest> checked_content(Statement statement, ByteView bytes, int64_t wall_ns) {
  LFARM_ASSIGN_OR_RETURN(Digest content, content_of(statement, bytes));
  Status status = check(statement, bytes, wall_ns);
  if (status.ok()) return content;
  return common::invalid_input(
      cat("what came is no ", name_of(statement), " that a farm signs: ", status.error().message));
}

std::string describe(Statement statement, ByteView bytes) {
  std::string name = name_of(statement);
  if (statement != Statement::kPlan) return name;
  auto grant = common::decode_grant(bytes);
  if (!grant.ok()) return name;
  return cat(name, " with content ", common::plan_content(bytes).short_hex(), " for tenant ",
             grant->tenant);
}

}  // namespace coordinator::service
