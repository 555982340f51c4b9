#include "common/plan/delegation.h"

#include <algorithm>
#include <cstring>
#include <ctime>

#include "common/base/cat.h"
#include "common/base/files.h"

namespace common {
namespace {

constexpr int64_t kClockSkewNs = int64_t{300} * 1'000'000'000;
constexpr size_t kFileBytesMax = 4096;

void append(Bytes& out, ByteView bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }

void append(Bytes& out, uint64_t number) {
  for (int byte = 0; byte < 8; ++byte) out.push_back(static_cast<std::byte>(number >> (8 * byte)));
}

uint64_t take_number(ByteView& bytes) {
  uint64_t number = 0;
  for (int byte = 0; byte < 8; ++byte) {
    number |= static_cast<uint64_t>(bytes[static_cast<size_t>(byte)]) << (8 * byte);
  }
  bytes = bytes.subspan(8);
  return number;
}

template <size_t kSize>
void take_array(ByteView& bytes, std::array<std::byte, kSize>& out) {
  std::memcpy(out.data(), bytes.data(), kSize);
  bytes = bytes.subspan(kSize);
}

Digest content_of(const Delegation& delegation) {
  return Hasher()
      .text("lfarm delegation")
      .data(delegation.root)
      .data(delegation.key)
      .u64(delegation.number)
      .u64(delegation.oldest_valid)
      .i64(delegation.from_ns)
      .i64(delegation.until_ns)
      .finish();
}

// The day and the minute, in UTC.
std::string time_text(int64_t wall_ns) {
  std::time_t seconds = wall_ns / 1'000'000'000;
  std::tm parts{};
  char text[32] = "";
  if (::gmtime_r(&seconds, &parts) != nullptr) {
    (void)std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  }
  return text;
}

Error refuse(std::string why) { return {Code::kVerification, std::move(why)}; }

}  // namespace

Delegation delegate(const SigningKey& root, Delegation delegation) {
  delegation.root = root.public_key();
  delegation.signature = sign(root, content_of(delegation).bytes);
  return delegation;
}

Bytes encode_delegation(const Delegation& delegation) {
  Bytes out;
  out.reserve(kDelegationBytes);
  append(out, delegation.root);
  append(out, delegation.key);
  append(out, delegation.number);
  append(out, delegation.oldest_valid);
  append(out, static_cast<uint64_t>(delegation.from_ns));
  append(out, static_cast<uint64_t>(delegation.until_ns));
  append(out, delegation.signature);
  return out;
}

Result<Delegation> decode_delegation(ByteView bytes) {
  if (bytes.size() != kDelegationBytes) {
    return corrupt(cat("a delegation of ", bytes.size(), " bytes; it has ", kDelegationBytes));
  }
  Delegation out;
  take_array(bytes, out.root);
  take_array(bytes, out.key);
  out.number = take_number(bytes);
  out.oldest_valid = take_number(bytes);
  out.from_ns = static_cast<int64_t>(take_number(bytes));
  out.until_ns = static_cast<int64_t>(take_number(bytes));
  take_array(bytes, out.signature);
  return out;
}

Status check_delegation(const Delegation& delegation, const PublicKey& trusted, int64_t wall_ns) {
  if (delegation.root != trusted) {
    return refuse("the signing key was delegated by another root key than the trusted one");
  }
  if (!signature_is_valid(trusted, content_of(delegation).bytes, delegation.signature)) {
    return refuse("the signing key's delegation was changed after the root key signed it");
  }
  if (delegation.number < delegation.oldest_valid) {
    return refuse("the signing key's delegation is void by its own word");
  }
  if (wall_ns < delegation.from_ns - kClockSkewNs) {
    return refuse(cat("the signing key's delegation begins at ", time_text(delegation.from_ns),
                      "; look at this machine's clock"));
  }
  if (wall_ns > delegation.until_ns + kClockSkewNs) {
    return refuse(cat("the signing key's delegation ended at ", time_text(delegation.until_ns),
                      "; its farm needs another one ('lfarm keys delegate')"));
  }
  return {};
}

Result<Delegation> read_delegation_file(const std::string& path) {
  LFARM_ASSIGN_OR_RETURN(std::string text, read_file(path, kFileBytesMax));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  auto bytes = from_hex(text);
  if (!bytes || bytes->size() != kDelegationBytes) {
    return corrupt(cat(path, " is not a delegation; 'lfarm keys delegate' writes one"));
  }
  return decode_delegation(*bytes);
}

Status write_delegation_file(const std::string& path, const Delegation& delegation) {
  std::string text = cat(to_hex(encode_delegation(delegation)), '\n');
  return write_file_atomic(path, as_bytes(text));
}

Status check_proof(const Proof& proof, const PublicKey& trusted, const Digest& content,
                   std::string_view what, int64_t wall_ns) {
  PublicKey key = trusted;
  if (!proof.delegation.empty()) {
    LFARM_ASSIGN_OR_RETURN(Delegation delegation, decode_delegation(proof.delegation));
    Status status = check_delegation(delegation, trusted, wall_ns);
    if (!status.ok()) return refuse(cat("the ", what, ": ", status.error().message));
    key = delegation.key;
  }
  if (signature_is_valid(key, content.bytes, proof.signature)) return {};
  return refuse(cat("the ", what,
                    " was changed after it was signed: its signature does not match its content"));
}

Bytes encode_proof(const Proof& proof) {
  Bytes out;
  if (!proof.delegation.empty()) {
    out.resize(sizeof(Signature));
    append(out, proof.delegation);
  }
  append(out, proof.signature);
  return out;
}

Result<Proof> take_proof(ByteView* bytes) {
  auto cut_off = [] { return corrupt("a signature is cut off"); };
  Proof proof;
  if (bytes->size() < sizeof(Signature)) return cut_off();
  take_array(*bytes, proof.signature);
  if (proof.signature != Signature{}) return proof;
  if (bytes->size() < kDelegationBytes + sizeof(Signature)) return cut_off();
  proof.delegation = to_bytes(bytes->first(kDelegationBytes));
  *bytes = bytes->subspan(kDelegationBytes);
  take_array(*bytes, proof.signature);
  return proof;
}

}  // namespace common
