// What a client takes for its farm's word: if these fail, somebody else's code runs.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "clients/runtime/farm/known_farms.h"
#include "clients/runtime/farm/pulled_plan.h"
#include "clients/runtime/farm/revocations.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/secret_file.h"
#include "sealed_plan.h"
#include "tests/unit/base/small_disk.h"

namespace clients {
namespace {

using common::cat;
using common::Code;

struct Farm {
  common::SigningKey key = common::make_signing_key();
  common::Plan plan = common::chain_plan(3);
  common::Sealed sealed = common::seal(key, "team-a", plan);
  PlanTrust trust{key.public_key(), "team-a", {}};

  common::Bytes blob() const { return common::encode_sealed(sealed); }
  std::string refusal(common::Code code = Code::kVerification) const {
    auto opened = open_signed_plan(blob(), trust, plan.key);
    if (opened.ok()) return "";
    EXPECT_EQ(opened.error().code, code) << opened.error().message;
    return opened.error().message;
  }
};

void expect_holds(const std::string& text, const std::string& words) {
  EXPECT_NE(text.find(words), std::string::npos) << text;
}

TEST(Trust, APlanOfTheFarmForTheTenantIsOpened) {
  Farm farm;
  auto opened = open_signed_plan(farm.blob(), farm.trust, farm.plan.key);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(*opened, farm.plan);
}

TEST(Trust, EveryRefusalIsNamed) {
  Farm is_unsigned, stranger, tampered, moved, renamed, revoked, other, not_signed_as_plan;
  is_unsigned.sealed.signature = {};
  expect_holds(is_unsigned.refusal(), "is not signed");
  stranger.trust.signer = common::make_signing_key().public_key();
  expect_holds(stranger.refusal(), "signed by another farm");
  tampered.sealed.bytes.back() ^= std::byte{1};
  expect_holds(tampered.refusal(), "was changed after it was signed");
  moved.trust.tenant = "team-b";
  expect_holds(moved.refusal(), "is for tenant team-a, not for team-b");
  // The same plan with another tenant's name under the old signature.
  renamed.trust.tenant = "team-b";
  renamed.sealed.bytes = common::encode_grant({"team-b", common::encode_plan(renamed.plan)});
  expect_holds(renamed.refusal(), "was changed after it was signed");
  revoked.trust.revoked.plans = {common::digest_of("another"), common::digest_of(revoked.blob())};
  expect_holds(revoked.refusal(), "was revoked");
  other.plan.key.policy = "relaxed";
  expect_holds(other.refusal(), "don't trust this cache");
  // What the farm signed as a revocation list is no plan.
  auto list = common::sign_revocations(
      not_signed_as_plan.key,
      common::encode_grant({"team-a", common::encode_plan(not_signed_as_plan.plan)}));
  not_signed_as_plan.sealed = list;
  expect_holds(not_signed_as_plan.refusal(), "was changed after it was signed");
}

TEST(Trust, AKeyToWhichTheRootKeyDelegatesSignsUntilThatEnds) {
  Farm farm;
  common::SigningKey root = common::make_signing_key();
  farm.trust.signer = root.public_key();
  expect_holds(farm.refusal(), "signed by another farm");
  farm.sealed.signer = root.public_key();
  auto put = [&](const common::Delegation& one) {
    farm.sealed.delegation = common::encode_delegation(one);
  };
  const common::SigningKey& key = farm.key;
  put(delegation_for(root, key, 5, 1));
  EXPECT_EQ(farm.refusal(), "");
  put(delegation_for(root, common::make_signing_key(), 5, 1));
  expect_holds(farm.refusal(), "was changed after it was signed");
  put(delegation_for(common::make_signing_key(), key, 5, 1));
  expect_holds(farm.refusal(), "signed by another farm");
  common::Delegation longer = delegation_for(root, key, 5, 1);
  longer.until_ns += 1;
  put(longer);
  expect_holds(farm.refusal(), "changed after the root key signed it");
  put(delegation_for(root, key, 5, 0));
  EXPECT_EQ(farm.refusal(), "");  // clocks may differ by minutes
  put(delegation_for(root, key, 5, -1));
  expect_holds(farm.refusal(), "ended at");
  put(delegation_for(root, key, 5, 1));
  farm.trust.revoked.oldest_delegation = 6;
  expect_holds(farm.refusal(), "has withdrawn");
  farm.trust.revoked.oldest_delegation = 5;
  EXPECT_EQ(farm.refusal(), "");
}

TEST(Trust, PlansAreRevokedByWhatMadeThem) {
  Farm farm;
  farm.plan.provenance.worker = "gpu-7";
  farm.plan.provenance.toolchain = "clang 14.0.6, openblas";
  farm.plan.provenance.created_ns = 1'000;
  farm.sealed = common::seal(farm.key, "team-a", farm.plan);
  using Rule = common::RevocationRule;
  for (const Rule& other :
       {Rule{"gpu-8", "", 0, 2'000}, Rule{"gpu-7", "clang 15", 0, 2'000},
        Rule{"gpu-7", "", 1'001, 2'000}, Rule{"gpu-7", "", 0, 999}, Rule{"gpu-7", "", 0, 0}}) {
    farm.trust.revoked.rules = {other};
    EXPECT_EQ(farm.refusal(), "");
  }
  for (const Rule& rule : {Rule{"gpu-7", "", 0, 1'000}, Rule{"", "clang 14", 1'000, 2'000},
                           Rule{"", "", 0, 5'000}, Rule{"gpu-7", "openblas", 500, 1'500}}) {
    farm.trust.revoked.rules = {Rule{"gpu-8", "", 0, 2'000}, rule};
    expect_holds(farm.refusal(), "was revoked by the farm that signed it, with all");
  }
}

class TrustFiles : public testing::Test {
 protected:
  TrustFiles() : scratch_(common::ScratchDirectory::create("trust").value()) {}
  std::string path(const std::string& name) const { return scratch_.path() + "/" + name; }

 private:
  common::ScratchDirectory scratch_;
};

TEST_F(TrustFiles, FarmsAreKnownByTheirFirstKey) {
  auto first = common::make_signing_key().public_key();
  auto second = common::make_signing_key().public_key();
  KnownFarms farms(path("state/known_farms"));
  EXPECT_TRUE(farms.meet("tcp://one:1", first).ok());
  EXPECT_TRUE(farms.meet("tcp://two:1", second).ok());
  EXPECT_TRUE(farms.meet("tcp://one:1", first).ok());
  common::Status changed = farms.meet("tcp://one:1", second);
  ASSERT_FALSE(changed.ok());
  EXPECT_EQ(changed.error().code, Code::kVerification);
  expect_holds(changed.error().message, "remove line 1 of " + path("state/known_farms"));
  EXPECT_EQ(changed.error().message.find('\n'), std::string::npos);
  // As it says: without the line it is met anew.
  std::string line = cat("tcp://two:1 ", common::to_hex(second), "\n");
  ASSERT_TRUE(common::write_file_atomic(path("state/known_farms"), common::as_bytes(line)).ok());
  EXPECT_TRUE(farms.meet("tcp://one:1", second).ok());
}

TEST_F(TrustFiles, DamagedKnownFarmsAreNoReasonToTrustAnyone) {
  auto key = common::make_signing_key().public_key();
  for (const char* text : {"tcp://one:1\n", "tcp://one:1 abc\n", "x tcp://one:1 00\n"}) {
    ASSERT_TRUE(common::write_file_atomic(path("known"), common::as_bytes(text)).ok());
    auto met = KnownFarms(path("known")).meet("tcp://one:1", key);
    ASSERT_FALSE(met.ok()) << text;
    EXPECT_EQ(met.error().code, Code::kCorrupt);
  }
}

TEST_F(TrustFiles, RevocationsAreKeptAndOnlyGrow) {
  auto key = common::make_signing_key();
  auto signed_list = [&](std::vector<common::Digest> plans) {
    return common::encode_sealed(
        common::sign_revocations(key, common::encode_revocations({std::move(plans)})));
  };
  common::Digest a = common::digest_of("a"), b = common::digest_of("b");
  Revocations book(path("revocations"));
  EXPECT_TRUE(book.known(key.public_key()).value().plans.empty());
  EXPECT_TRUE(book.learn(key.public_key(), signed_list({a, b})).ok());
  // An old list, played back.
  auto in_force = book.learn(key.public_key(), signed_list({a}));
  ASSERT_TRUE(in_force.ok());
  EXPECT_TRUE(in_force->holds(b));
  EXPECT_TRUE(Revocations(path("revocations")).known(key.public_key()).value().holds(b));
  // Somebody else's list, and one that is not the farm's any more.
  auto forged = book.learn(common::make_signing_key().public_key(), signed_list({a}));
  ASSERT_FALSE(forged.ok());
  EXPECT_EQ(forged.error().code, Code::kVerification);
  std::string file = path("revocations/") + common::to_hex(key.public_key());
  common::Bytes damaged = signed_list({a, b});
  damaged[damaged.size() / 2] ^= std::byte{4};
  ASSERT_TRUE(common::write_file_atomic(file, damaged).ok());
  EXPECT_FALSE(book.known(key.public_key()).ok());
}

TEST_F(TrustFiles, AListIsTakenUntilItEndsAndHoldsBeyond) {
  auto key = common::make_signing_key();
  common::RevocationList list{{common::digest_of("a")}};
  list.rules = {{"gpu-7", "", 5, 10}};
  list.number = 17;
  list.until_ns = common::wall_clock_ns() + 1'000'000'000;
  auto signed_list = [&] {
    return common::encode_sealed(common::sign_revocations(key, common::encode_revocations(list)));
  };
  common::Bytes fresh = signed_list();
  Revocations book(path("revocations"));
  auto learned = book.learn(key.public_key(), fresh);
  ASSERT_TRUE(learned.ok()) << learned.error().message;
  EXPECT_EQ(learned->rules, list.rules);
  EXPECT_EQ(learned->number, 17u);
  list.until_ns = common::wall_clock_ns() - int64_t{600} * 1'000'000'000;
  auto old = Revocations(path("elsewhere")).learn(key.public_key(), signed_list());
  ASSERT_FALSE(old.ok());
  EXPECT_EQ(old.error().code, Code::kVerification);
  expect_holds(old.error().message, "17 is an old one");
  // What is kept is in force whatever the time.
  std::filesystem::create_directories(path("kept"));
  ASSERT_TRUE(
      common::write_file_atomic(path("kept/") + common::to_hex(key.public_key()), signed_list())
          .ok());
  auto kept = Revocations(path("kept")).known(key.public_key());
  ASSERT_TRUE(kept.ok());
  EXPECT_TRUE(kept->holds(common::digest_of("a")));
  EXPECT_EQ(kept->rules, list.rules);
}

// Replicas of a farm sign with one key, and each may know what the other does not.
TEST_F(TrustFiles, ListsOfReplicasAddUp) {
  auto key = common::make_signing_key();
  auto signed_list = [&](std::vector<common::Digest> plans) {
    return common::encode_sealed(
        common::sign_revocations(key, common::encode_revocations({std::move(plans)})));
  };
  common::Digest a = common::digest_of("a"), b = common::digest_of("b"), c = common::digest_of("c");
  Revocations book(path("revocations"));
  auto is_known = [&](const common::Digest& plan) {
    return book.known(key.public_key()).value().holds(plan);
  };
  for (const auto& plans : {std::vector{a}, std::vector{b}, std::vector{c}}) {
    ASSERT_TRUE(book.learn(key.public_key(), signed_list(plans)).ok());
  }
  EXPECT_TRUE(is_known(a) && is_known(b) && is_known(c));
  // One that holds them all takes their place.
  common::Digest d = common::digest_of("d");
  ASSERT_TRUE(book.learn(key.public_key(), signed_list({a, b, c, d})).ok());
  EXPECT_TRUE(is_known(a) && is_known(d));
  std::filesystem::directory_iterator files(path("revocations"));
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

// Were it an error, a client with a full disk could run no plan at all.
TEST_F(TrustFiles, WhatCannotBeNotedIsInForceAllTheSame) {
  common::SmallDisk disk(path("disk"), size_t{1} << 20);
  if (!disk.why_not().empty()) GTEST_SKIP() << disk.why_not();
  auto key = common::make_signing_key();
  auto other = common::make_signing_key().public_key();
  KnownFarms farms(path("disk/known_farms"));
  ASSERT_TRUE(farms.meet("tcp://one:1", key.public_key()).ok());
  common::Digest plan = common::digest_of("plan");
  auto list =
      common::encode_sealed(common::sign_revocations(key, common::encode_revocations({{plan}})));
  for (bool is_full : {true, false}) {
    is_full ? disk.fill() : disk.make_room();
    if (!is_full) disk.set_read_only(true);
    EXPECT_TRUE(farms.meet("tcp://two:1", other).ok());
    EXPECT_FALSE(farms.meet("tcp://one:1", other).ok());
    auto learned = Revocations(path("disk/revocations")).learn(key.public_key(), list);
    ASSERT_TRUE(learned.ok()) << learned.error().message;
    EXPECT_TRUE(learned->holds(plan));
  }
}

TEST_F(TrustFiles, SecretsThatOthersMayReadAreRefused) {
  std::string file = path("secret");
  ASSERT_TRUE(common::create_secret_file(file, "text").ok());
  struct stat info {};
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0600U);
  EXPECT_EQ(common::read_secret_file(file, 10).value(), "text");
  EXPECT_FALSE(common::read_secret_file(file, 3).ok());
  EXPECT_FALSE(common::create_secret_file(file, "other").ok());
  EXPECT_EQ(common::read_secret_file(file, 10).value(), "text");
  for (mode_t mode : {0640, 0604, 0660, 0610}) {
    ASSERT_EQ(::chmod(file.c_str(), mode), 0);
    auto read = common::read_secret_file(file, 10);
    ASSERT_FALSE(read.ok()) << mode;
    expect_holds(read.error().message, "chmod 600 " + file);
    EXPECT_EQ(read.error().message.find('\n'), std::string::npos);
  }
}

TEST_F(TrustFiles, ASigningKeyWhoseHalvesDoNotBelongTogetherIsRefused) {
  std::string file = path("signing.key");
  auto made = common::load_or_create_signing_key(file);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(common::load_or_create_signing_key(file)->secret, made->secret);
  common::SigningKey mixed = *made;
  auto other = common::make_signing_key();
  std::copy(other.secret.begin() + 32, other.secret.end(), mixed.secret.begin() + 32);
  std::string text = common::to_hex(mixed.secret) + "\n";
  ASSERT_TRUE(common::write_file_atomic(file, common::as_bytes(text)).ok());
  EXPECT_EQ(common::load_or_create_signing_key(file).error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace clients

int main(int argc, char** argv) {
  common::own_mounts();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
