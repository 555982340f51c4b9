// Who signs, and what: if these fail, a signer signs what is no plan, hangs its coordinators, or a
// key signs on after its time.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/signing/farm_signer.h"
#include "coordinator/service/signing/key_signer.h"
#include "coordinator/service/signing/remote_signer.h"
#include "coordinator/service/signing/signer_server.h"
#include "tests/unit/clients/sealed_plan.h"

namespace coordinator::service {
namespace {

using common::cat;
using common::Code;

constexpr int64_t kHourNs = int64_t{3'600} * 1'000'000'000;

common::Bytes plan_bytes() {
  return common::encode_grant({"team-a", common::encode_plan(common::chain_plan(2))});
}

void expect_holds(const std::string& text, const std::string& words) {
  EXPECT_NE(text.find(words), std::string::npos) << text;
}

class SigningTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::unique_ptr<KeySigner> load() {
    auto signer = KeySigner::load(path("key"), path("delegation"));
    EXPECT_TRUE(signer.ok()) << signer.error().message;
    return std::move(signer).value();
  }
  void write(const common::Delegation& delegation) {
    ASSERT_TRUE(common::write_delegation_file(path("delegation"), delegation).ok());
  }
  common::SigningKey key() { return common::load_or_create_signing_key(path("key")).value(); }

  const common::SigningKey root_ = common::make_signing_key();

 private:
  common::ScratchDirectory folder_ = common::ScratchDirectory::create("signing").value();
};

TEST_F(SigningTest, ADelegationHoldsForItsKeyItsTimeAndItsRootAlone) {
  common::SigningKey key = common::make_signing_key();
  common::Sealed plan = common::sign_plan(key, plan_bytes());
  common::Delegation delegation = common::delegation_for(root_, key, 7, 1);
  auto check = [&](const common::Delegation& one, const common::PublicKey& trusted, int64_t when) {
    common::Sealed sealed =
        common::sealed_by(one.root, {plan.signature, common::encode_delegation(one)}, plan.bytes);
    // As it travels.
    auto read = common::decode_sealed(common::encode_sealed(sealed));
    EXPECT_TRUE(read.ok());
    EXPECT_EQ(read->signer, one.root);
    common::Status status = common::check_signature(*read, trusted, when);
    return status.ok() ? "" : status.error().message;
  };
  int64_t now = common::wall_clock_ns();
  const common::PublicKey root = root_.public_key();
  EXPECT_EQ(check(delegation, root, now), "");
  EXPECT_EQ(check(delegation, root,
                  common::time_of(
                      common::sealed_by(root, {{}, common::encode_delegation(delegation)}, {}))),
            "");
  expect_holds(check(delegation, root, now + 2 * kHourNs), "ended at");
  expect_holds(check(delegation, root, now - 2 * kHourNs), "begins at");
  expect_holds(check(delegation, key.public_key(), now), "another farm");
  common::Delegation longer = delegation;
  longer.until_ns += kHourNs;
  expect_holds(check(longer, root, now), "changed after the root key signed it");
  common::Delegation other_key = common::delegation_for(root_, common::make_signing_key(), 8, 1);
  expect_holds(check(other_key, root, now), "does not match its content");
  common::Delegation own_root = common::delegation_for(key, key, 9, 1);
  own_root.root = root;
  expect_holds(check(own_root, root, now), "changed after the root key signed it");
  expect_holds(check(common::delegation_for(root_, key, 7, 1, 8), root, now),
               "void by its own word");
}

TEST_F(SigningTest, ProofsAreReadBackFromWhatFollowsThem) {
  common::SigningKey key = common::make_signing_key();
  common::Proof plain{common::sign(key, plan_bytes()), {}};
  common::Proof delegated{plain.signature,
                          common::encode_delegation(common::delegation_for(root_, key, 1, 1))};
  for (const common::Proof& proof : {plain, delegated}) {
    common::Bytes bytes = common::encode_proof(proof);
    size_t proof_bytes = bytes.size();
    bytes.push_back(std::byte{9});
    common::ByteView rest = bytes;
    auto read = common::take_proof(&rest);
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read->signature, proof.signature);
    EXPECT_EQ(read->delegation, proof.delegation);
    EXPECT_EQ(rest.size(), 1u);
    common::ByteView short_bytes = common::ByteView(bytes).first(proof_bytes - 1);
    EXPECT_FALSE(common::take_proof(&short_bytes).ok());
  }
}

TEST_F(SigningTest, AKeySignsUntilItsDelegationEndsAndTakesUpTheNextOne) {
  write(common::delegation_for(root_, key(), 1, 1));
  auto signer = load();
  EXPECT_EQ(signer->authority(), root_.public_key());
  auto sealed = seal(*signer, Statement::kPlan, plan_bytes());
  ASSERT_TRUE(sealed.ok()) << sealed.error().message;
  EXPECT_TRUE(common::check_signature(*sealed, root_.public_key()).ok());

  // Others' delegations and earlier ones change nothing.
  common::SigningKey stranger = common::make_signing_key();
  for (const common::Delegation& wrong : {common::delegation_for(stranger, key(), 5, 1),
                                          common::delegation_for(root_, stranger, 5, 1),
                                          common::delegation_for(root_, key(), 0, 1)}) {
    write(wrong);
    ::usleep(250'000);  // the file is looked at a few times a second
    EXPECT_EQ(signer->delegation()->number, 1u);
  }
  write(common::delegation_for(root_, key(), 6, 0));
  ::usleep(250'000);
  auto ended = signer->sign(Statement::kPlan, plan_bytes());
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().code, Code::kUnavailable);
  expect_holds(ended.error().message, "keys delegate");
  write(common::delegation_for(root_, key(), 7, 1));
  ::usleep(250'000);
  EXPECT_TRUE(signer->sign(Statement::kPlan, plan_bytes()).ok());

  write(common::delegation_for(root_, stranger, 8, 1));
  auto refused = KeySigner::load(path("key"), path("delegation"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kVerification);
}

TEST_F(SigningTest, WithoutADelegationTheKeyIsTheOneThatClientsTrust) {
  auto signer = load();
  EXPECT_EQ(signer->authority(), key().public_key());
  EXPECT_FALSE(signer->delegation());
  auto sealed = seal(*signer, Statement::kPlan, plan_bytes());
  ASSERT_TRUE(sealed.ok());
  // The same bytes as ever.
  EXPECT_EQ(common::encode_sealed(*sealed),
            common::encode_sealed(common::sign_plan(key(), plan_bytes())));
}

// ---- The other process -------------------------------------------------------------------------

class SignerServerTest : public SigningTest {
 protected:
  std::unique_ptr<SignerServer> serve(const Signer& signer) {
    auto server = SignerServer::start(path("sign"), signer);
    EXPECT_TRUE(server.ok()) << server.error().message;
    return std::move(server).value();
  }
  std::unique_ptr<RemoteSigner> connect() {
    auto signer = RemoteSigner::connect(path("sign"), 60'000);
    EXPECT_TRUE(signer.ok()) << signer.error().message;
    return std::move(signer).value();
  }
};

TEST_F(SignerServerTest, SignsAllThatFarmsSignAsTheKeyWould) {
  write(common::delegation_for(root_, key(), 3, 1));
  auto own = load();
  auto server = serve(*own);
  auto remote = connect();
  EXPECT_EQ(remote->authority(), root_.public_key());
  EXPECT_EQ(remote->delegation()->number, 3u);
  common::RevocationList list{{common::digest_of("plan")}};
  int64_t soon = common::wall_clock_ns() + 1'000'000'000;
  const std::pair<Statement, common::Bytes> said[] = {
      {Statement::kPlan, plan_bytes()},
      {Statement::kRevocations, common::encode_revocations(list)},
      {Statement::kClaim, claim_bytes(common::digest_of("place"), soon)},
      {Statement::kNotes, notes_bytes(17, "values")}};
  for (const auto& [statement, bytes] : said) {
    auto proof = remote->sign(statement, bytes);
    ASSERT_TRUE(proof.ok()) << proof.error().message;
    EXPECT_EQ(proof->signature, own->sign(statement, bytes)->signature);
    EXPECT_TRUE(common::check_proof(*proof, root_.public_key(), *content_of(statement, bytes),
                                    "statement", common::wall_clock_ns())
                    .ok());
  }
  EXPECT_EQ(server->signed_count(), 4u);
  EXPECT_EQ(server->refused_count(), 0u);
}

TEST_F(SignerServerTest, RefusesWhatIsNotWhatItIsSaidToBe) {
  auto own = load();
  auto server = serve(*own);
  auto remote = connect();
  common::Bytes plan = plan_bytes();
  common::Bytes cut(plan.begin(), plan.end() - 8);
  common::Bytes changed = common::encode_grant({"team-a", common::Bytes(64)});
  common::Bytes list = common::encode_revocations({{common::digest_of("plan")}});
  int64_t next_year = common::wall_clock_ns() + 365 * 24 * kHourNs;
  const std::pair<Statement, common::Bytes> attempts[] = {
      {Statement::kPlan, {}},
      {Statement::kPlan, common::to_bytes(common::as_bytes("any text that somebody wants signed"))},
      {Statement::kPlan, cut},
      {Statement::kPlan, changed},
      {Statement::kPlan, list},
      {Statement::kClaim, claim_bytes(common::digest_of("place"), next_year)},
      {Statement::kClaim, plan},
      {Statement::kNotes, common::Bytes(7)},
      {static_cast<Statement>(99), plan}};
  for (const auto& [statement, bytes] : attempts) {
    auto proof = remote->sign(statement, bytes);
    ASSERT_FALSE(proof.ok()) << static_cast<int>(statement) << ' ' << bytes.size();
    EXPECT_EQ(proof.error().code, Code::kInvalidInput);
    expect_holds(proof.error().message, "the signer refuses");
  }
  EXPECT_EQ(server->refused_count(), std::size(attempts));
  EXPECT_EQ(server->signed_count(), 0u);
  EXPECT_TRUE(remote->sign(Statement::kPlan, plan).ok());
}

TEST_F(SignerServerTest, OneThatIsAwayIsNamedAtOnceAndFoundAgain) {
  auto own = load();
  auto early = RemoteSigner::connect(path("sign"), 0);
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.error().code, Code::kUnavailable);
  expect_holds(early.error().message, path("sign"));
  expect_holds(early.error().message, "--role sign");

  auto server = serve(*own);
  auto remote = connect();
  server.reset();
  auto away = remote->sign(Statement::kPlan, plan_bytes());
  ASSERT_FALSE(away.ok());
  EXPECT_EQ(away.error().code, Code::kUnavailable);
  expect_holds(away.error().message, "no signer answers on " + path("sign"));
  server = serve(*own);
  ::usleep(1'100'000);  // it was left alone for a second
  EXPECT_TRUE(remote->sign(Statement::kPlan, plan_bytes()).ok());
  // One that was started anew meanwhile costs nothing.
  server.reset();
  server = serve(*own);
  EXPECT_TRUE(remote->sign(Statement::kPlan, plan_bytes()).ok());
}

TEST_F(SignerServerTest, AnotherKeyIsNotTakenForTheFarms) {
  auto own = load();
  KeySigner other(common::make_signing_key());
  auto server = serve(*own);
  auto remote = connect();
  server.reset();
  server = serve(other);
  auto proof = remote->sign(Statement::kPlan, plan_bytes());
  ASSERT_FALSE(proof.ok());
  EXPECT_EQ(proof.error().code, Code::kInvalidInput);
  expect_holds(proof.error().message, common::to_hex(other.authority()));
}

TEST_F(SignerServerTest, TheSocketIsItsUsersAndItsGroups) {
  auto own = load();
  auto server = serve(*own);
  struct stat info {};
  ASSERT_EQ(::stat(path("sign").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0660U);
  auto second = SignerServer::start(path("sign"), *own);
  ASSERT_FALSE(second.ok());
  expect_holds(second.error().message, "another process listens");
  // A file is nobody's to remove.
  ASSERT_TRUE(common::write_file_atomic(path("file"), common::as_bytes("text")).ok());
  EXPECT_FALSE(SignerServer::start(path("file"), *own).ok());
  EXPECT_EQ(common::read_file(path("file")).value(), "text");
  server.reset();
  EXPECT_FALSE(common::file_exists(path("sign")));
}

TEST_F(SignerServerTest, NoiseEndsItsConnectionAndNoOther) {
  auto own = load();
  auto server = serve(*own);
  auto remote = connect();
  auto socket = connect_to_socket(path("sign"));
  ASSERT_TRUE(socket.ok());
  const uint64_t huge[2] = {uint64_t{1} << 60, 1};
  ASSERT_EQ(::send(socket->get(), huge, sizeof huge, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof huge));
  auto answer = receive_frame(socket->get(), 60'000, 60'000);
  EXPECT_FALSE(answer.ok());
  EXPECT_TRUE(remote->sign(Statement::kPlan, plan_bytes()).ok());
}

TEST_F(SignerServerTest, AFarmLeavesWhomItsClientsTrust) {
  auto own = load();
  std::string state = path("state");
  ASSERT_TRUE(common::make_directories(state).ok());
  auto server = serve(*own);
  AccessOptions options;
  options.signer = path("sign");
  auto remote = signer_of(state, options);
  ASSERT_TRUE(remote.ok()) << remote.error().message;
  EXPECT_EQ((*remote)->authority(), own->authority());
  EXPECT_EQ(common::read_file(state + "/signing.public").value(),
            common::to_hex(own->authority()) + "\n");
  EXPECT_FALSE(common::file_exists(state + "/signing.key"));
  // With a key of its own the directory's commands find that.
  auto local = signer_of(state, {});
  ASSERT_TRUE(local.ok());
  EXPECT_TRUE(common::file_exists(state + "/signing.key"));
  EXPECT_FALSE(common::file_exists(state + "/signing.public"));
}

}  // namespace
}  // namespace coordinator::service
