// Objects of plans in an object store: if these fail, requests are refused for their signature,
// keys or their bodies go astray, or a store that is away is taken for one that is empty.
#include "cache/s3/s3_objects.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "cache/s3/s3_signature.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "tests/unit/store/s3_server.h"

namespace cache {
namespace {

using common::cat;
using common::Code;
using common::Digest;
using common::digest_of;

// ---- Signatures --------------------------------------------------------------------------------

// The examples of Amazon's documentation, "Authenticating Requests: Using the Authorization
// Header".
const S3Credentials kPublished{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                               ""};
constexpr int64_t kPublishedTime = 1'369'353'600'000'000'000;  // 2013-05-24

std::string signature_of(const S3Request& request) {
  std::string text = sign_s3(request, kPublished, "us-east-1", kPublishedTime).at("authorization");
  return text.substr(text.find("Signature=") + 10);
}

TEST(S3Signature, OfAGetIsAsPublished) {
  EXPECT_EQ(signature_of(
                {"GET", "examplebucket.s3.amazonaws.com", "/test.txt", {{"range", "bytes=0-9"}}}),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(S3Signature, OfAPutIsAsPublished) {
  EXPECT_EQ(signature_of({"PUT",
                          "examplebucket.s3.amazonaws.com",
                          "/test%24file.text",
                          {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                           {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                          "Welcome to Amazon S3."}),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST(S3Signature, CoversTheSessionToken) {
  S3Credentials who = kPublished;
  who.session_token = "token";
  auto headers = sign_s3({"GET", "h", "/k"}, who, "us-east-1", kPublishedTime);
  EXPECT_EQ(headers.at("x-amz-security-token"), "token");
  EXPECT_NE(headers.at("authorization").find("x-amz-security-token"), std::string::npos);
}

// ---- Addresses ---------------------------------------------------------------------------------

TEST(S3Address, OfAmazonsBucketsIsAHostEach) {
  auto address = parse_s3_address({"s3://plans/team", "", "eu-central-1", ""});
  ASSERT_TRUE(address.ok()) << address.error().message;
  EXPECT_EQ(address->host, "plans.s3.eu-central-1.amazonaws.com");
  EXPECT_TRUE(address->server.tls);
  EXPECT_EQ(address->path, "/team/lfarm/1/object/");
}

TEST(S3Address, OfAnotherEndpointIsAFolderOfIt) {
  auto address = parse_s3_address({"s3://plans", "http://[::1]:9000", "", ""});
  ASSERT_TRUE(address.ok()) << address.error().message;
  EXPECT_EQ(address->server.host, "::1");
  EXPECT_EQ(address->server.port, 9000);
  EXPECT_FALSE(address->server.tls);
  EXPECT_EQ(address->host, "[::1]:9000");
  EXPECT_EQ(address->path, "/plans/lfarm/1/object/");
  EXPECT_EQ(address->region, "us-east-1");
  EXPECT_EQ(parse_s3_address({"s3://plans/a/b/", "https://minio", "", ""})->host, "minio");
}

TEST(S3Address, RefusesWhatNamesNoBucket) {
  for (const char* text : {"", "s3://", "s3://ab", "s3://UP CASE", "s3://plans//x",
                           "s3://plans/../x", "s3://plans/ä", "http://plans", "s3://pl?ns"}) {
    EXPECT_EQ(parse_s3_address({text, "", "", ""}).error().code, Code::kInvalidInput) << text;
  }
  for (const char* endpoint : {"minio", "ftp://minio", "https://", "https://h:0", "https://h:65536",
                               "https://h:9x", "https://h/path", "https://user@h"}) {
    EXPECT_FALSE(parse_s3_address({"s3://plans", endpoint, "", ""}).ok()) << endpoint;
  }
}

// ---- Credentials -------------------------------------------------------------------------------

class S3CredentialsTest : public testing::Test {
 protected:
  std::string write(const std::string& text, mode_t mode = 0600) {
    std::string path = folder_.path() + "/credentials";
    std::ofstream(path, std::ios::trunc) << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  common::ScratchDirectory folder_ = common::ScratchDirectory::create("s3-credentials").value();
};

TEST_F(S3CredentialsTest, AreThoseOfTheSectionDefault) {
  auto who =
      read_s3_credentials(write("; keys\n[other]\naws_access_key_id=o\naws_secret_access_key=p\n"
                                "[default]\n aws_access_key_id = a\r\naws_secret_access_key=b=/c\n"
                                "aws_session_token = t\n[more]\naws_access_key_id = z\n"));
  ASSERT_TRUE(who.ok()) << who.error().message;
  EXPECT_EQ(who->access_key, "a");
  EXPECT_EQ(who->secret_key, "b=/c");
  EXPECT_EQ(who->session_token, "t");
}

TEST_F(S3CredentialsTest, AreRefusedWhereOthersMayReadThemOrTheyAreNotThere) {
  std::string well = "[default]\naws_access_key_id=a\naws_secret_access_key=b\n";
  EXPECT_FALSE(read_s3_credentials(write(well, 0644)).ok());
  EXPECT_FALSE(read_s3_credentials(write("[default]\naws_access_key_id=a\n")).ok());
  EXPECT_FALSE(read_s3_credentials(folder_.path() + "/none").ok());
}

// ---- Objects -----------------------------------------------------------------------------------

class S3ObjectsTest : public testing::Test {
 protected:
  // `count` objects of different sizes, one of them empty.
  void make(int count) {
    for (int k = 0; k < count; ++k) bytes_.push_back(std::string(1'000 * k, static_cast<char>(k)));
    for (const std::string& one : bytes_) {
      digests_.push_back(digest_of(one));
      objects_.push_back({digests_.back(), one});
    }
  }
  S3Server server_;
  std::vector<std::string> bytes_;
  std::vector<Digest> digests_;
  std::vector<RemoteObject> objects_;
};

TEST_F(S3ObjectsTest, ComeBackInTheOrderOfTheirDigests) {
  make(40);
  S3Objects store(server_.options());
  EXPECT_FALSE(store.has_objects(digests_).value());
  ASSERT_TRUE(store.put_objects(objects_).ok());
  EXPECT_EQ(server_.objects(), 40U);
  EXPECT_TRUE(store.has_objects(digests_).value());
  auto got = store.get_objects(digests_);
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(*got, std::optional(bytes_));
  EXPECT_EQ(store.health().bytes_out, store.health().bytes_in);
  EXPECT_LE(server_.connections(), 8U) << "connections are not kept";
}

TEST_F(S3ObjectsTest, AreSentOnce) {
  make(5);
  S3Objects store(server_.options());
  ASSERT_TRUE(store.put_objects(objects_).ok());
  ASSERT_TRUE(store.put_objects(objects_).ok());
  EXPECT_EQ(server_.count("PUT"), 5);
}

TEST_F(S3ObjectsTest, ThatAreNotThereAreNoTrouble) {
  make(3);
  S3Objects store(server_.options());
  auto got = store.get_objects(digests_);
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_FALSE(got->has_value());
  EXPECT_EQ(store.health().failures, 0U);
  EXPECT_EQ(store.get_objects({}).value(), std::optional(std::vector<std::string>()));
}

TEST_F(S3ObjectsTest, OfOtherBytesAreRefused) {
  make(3);
  S3Objects store(server_.options());
  ASSERT_TRUE(store.put_objects(objects_).ok());
  server_.spoil();
  EXPECT_EQ(store.get_objects(digests_).error().code, Code::kCorrupt);
}

TEST_F(S3ObjectsTest, OfABucketThatIsNotThereAreNotTakenForMissing) {
  make(1);
  S3Objects store(server_.options("s3://another"));
  auto got = store.get_objects(digests_);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, Code::kUnavailable);
  EXPECT_NE(got.error().message.find("NoSuchBucket"), std::string::npos) << got.error().message;
}

TEST_F(S3ObjectsTest, KeysAreReadAnew) {
  make(1);
  S3Objects store(server_.options());
  server_.change_keys({"new-key", "new-secret", ""});
  auto refused = store.has_objects(digests_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_NE(store.health().trouble.find("403"), std::string::npos) << store.health().trouble;
  server_.keep_keys();
  EXPECT_TRUE(store.has_objects(digests_).ok());
  EXPECT_EQ(store.health().trouble, "");
}

TEST_F(S3ObjectsTest, AreReadWhereNothingMayBeWritten) {
  make(2);
  S3Objects store(server_.options());
  ASSERT_TRUE(store.put_objects({objects_.data(), 1}).ok());
  server_.refuse("PUT", 403, "AccessDenied");
  common::Status put = store.put_objects(objects_);
  EXPECT_EQ(put.error().code, Code::kUnavailable);
  EXPECT_NE(store.health().refusing.find("AccessDenied: of a test"), std::string::npos);
  EXPECT_EQ(store.health().trouble, "");
  EXPECT_TRUE(store.get_objects({digests_.data(), 1})->has_value());
  server_.refuse_no_more();
  EXPECT_TRUE(store.put_objects(objects_).ok());
  EXPECT_EQ(store.health().refusing, "");
}

TEST_F(S3ObjectsTest, AStoreThatHasTooMuchToDoIsAway) {
  make(2);
  S3Objects store(server_.options());
  server_.refuse("", 503, "SlowDown");
  EXPECT_EQ(store.put_objects(objects_).error().code, Code::kUnavailable);
  EXPECT_EQ(store.get_objects(digests_).error().code, Code::kUnavailable);
  server_.refuse_no_more();
  server_.refuse("PUT", 503, "SlowDown");
  EXPECT_EQ(store.put_objects(objects_).error().code, Code::kUnavailable);
  EXPECT_NE(store.health().trouble, "");
  EXPECT_EQ(store.health().refusing, "") << "it would be taken for one that is full";
}

TEST_F(S3ObjectsTest, AStoreThatFailedIsLeftAlone) {
  make(1);
  S3Options patient = server_.options();
  patient.retry = {3'600'000, 3'600'000};
  S3Objects store(patient);
  server_.refuse("", 500, "InternalError");
  for (int k = 0; k < 10; ++k) EXPECT_FALSE(store.has_objects(digests_).ok());
  EXPECT_EQ(server_.count("HEAD"), 1);
  EXPECT_EQ(store.health().questions, 1U);
}

TEST_F(S3ObjectsTest, AStoreThatDoesNotAnswerCostsALimit) {
  make(1);
  S3Options hasty = server_.options();
  hasty.answer_ms = hasty.transfer_ms = 50;
  S3Objects store(hasty);
  server_.hold();
  EXPECT_FALSE(store.get_objects(digests_).ok());
  server_.release();
}

// Each byte comes in time, and all of them after hours.
TEST_F(S3ObjectsTest, AStoreThatTricklesCostsALimit) {
  std::string large(1'000'000, 'x');
  RemoteObject object{digest_of(large), large};
  S3Options its = server_.options();
  ASSERT_TRUE(S3Objects(its).put_objects({&object, 1}).ok());
  server_.trickle();
  its.transfer_ms = 1'000;
  S3Objects store(its);
  EXPECT_EQ(store.get_objects({&object.digest, 1}).error().code, Code::kTimedOut);
}

TEST_F(S3ObjectsTest, AStoreThatIsGoneIsAway) {
  make(1);
  S3Server server(1);
  S3Objects store(server.options());
  ASSERT_TRUE(store.put_objects(objects_).ok());
  server.stop();
  auto got = store.get_objects(digests_);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace cache
