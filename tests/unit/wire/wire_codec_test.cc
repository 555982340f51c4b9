// Every message survives the trip through its envelope; damaged and oversized ones are refused.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/base/cat.h"
#include "common/base/random.h"
#include "common/wire/codec.h"

namespace common {
namespace {

class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed) {}

  uint64_t number() { return random_.next() >> random_.below(64); }
  uint32_t small(uint32_t max) { return static_cast<uint32_t>(1 + random_.below(max)); }
  bool flag() { return random_.chance(0.5); }
  std::string name() {
    std::string text(1 + random_.below(40), 'x');
    for (char& c : text) c = static_cast<char>(' ' + random_.below(95));
    return text;
  }
  std::string text() {
    static const char* const kPieces[] = {"a", "\n", "\t", "\"", "ß", "€", "𝄞", "\\", "0"};
    std::string text;
    for (uint64_t i = random_.below(60); i > 0; --i) text += kPieces[random_.below(9)];
    return text;
  }
  Bytes bytes(size_t max = 300) {
    Bytes bytes(random_.below(max));
    for (auto& b : bytes) b = static_cast<std::byte>(random_.next());
    return bytes;
  }
  Digest digest() { return digest_of(cat(random_.next())); }
  std::vector<Digest> digests() {
    std::vector<Digest> list(random_.below(5));
    for (auto& entry : list) entry = digest();
    return list;
  }
  TaskLease lease() { return {number(), number()}; }
  Standing standing() { return static_cast<Standing>(random_.below(3)); }
  Code code() { return static_cast<Code>(random_.below(8)); }

  Message make(size_t kind) {
    switch (kind) {
      case 0:
        return WorkerHello{name(), name(), small(kSlotsMax),     small(9), name(), small(9),
                           name(), name(), random_.below(2) == 1};
      case 1:
        return Credit{small(kSlotsMax)};
      case 2: {
        Heartbeat m;
        m.leases.resize(random_.below(9));
        for (auto& entry : m.leases) entry = lease();
        return m;
      }
      case 3: {
        TaskResult m{lease(),   static_cast<TaskOutcome>(random_.below(6)),
                     text(),    bytes(),
                     digests(), random_.unit() * 1e5};
        m.spans.resize(random_.below(4));
        for (auto& span : m.spans) span = {name(), random_.unit() * 1e4, random_.unit() * 1e4};
        return m;
      }
      case 4:
        return LeaseReturned{lease()};
      case 5:
        return WorkerBye{};
      case 6: {
        Welcome m{name(), small(kHeartbeatMsMax), {}, name(), name(), small(9)};
        for (auto& b : m.signing_key) b = static_cast<std::byte>(random_.next());
        return m;
      }
      case 7:
        return Task{lease(),   small(9), small(kDeadlineMsMax), bytes(5000),
                    digests(), number(), random_.below(2) == 1, random_.below(2) == 1};
      case 8:
        return Revoke{lease()};
      case 9:
        return DrainRequest{};
      case 10:
        return BlobRequest{digest()};
      case 11:
        return Blob{digest()};
      case 12:
        return BlobMissing{digest()};
      case 13:
        return Refused{code(), text()};
      case 14:
        return Ping{number()};
      case 15:
        return Pong{number()};
      case 16:
        return ClientHello{name(), small(9), name(), small(9)};
      case 17:
        return Submit{number(),
                      digest(),
                      name(),
                      text(),
                      digest(),
                      number(),
                      number(),
                      number(),
                      number(),
                      small(kInFlightMax),
                      small(kPriorityMax),
                      flag(),
                      name(),
                      name(),
                      flag()};
      case 18:
        return CancelJob{number()};
      case 19:
        return PullPlan{number(),
                        digest(),
                        flag(),
                        name(),
                        flag(),
                        flag() ? digest() : Digest{},
                        flag() ? digest() : Digest{}};
      case 20:
        return StatusRequest{number(), static_cast<StatusTopic>(random_.below(5)), name(), name()};
      case 21:
        return Accepted{number(), number(), flag()};
      case 22:
        return Progress{number(), name(),   number(),    number(), number(),
                        number(), number(), small(1000), number(), text()};
      case 23: {
        PlanReady m{number(), number(), digest(), digest(), CacheOutcome::kPartial,
                    number(), number(), number(), number(), {}};
        m.cache = static_cast<CacheOutcome>(random_.below(3));
        m.breakdown.resize(random_.below(6));
        for (auto& stage : m.breakdown) stage = {name(), random_.unit() * 1e4};
        if (random_.below(2) == 0) m.revocations = digest();
        m.note = text();
        m.standing = standing();
        m.reuse = {number(), number(), number(), number(), number(), number()};
        if (random_.below(2) == 0) m.parts = {{m.plan, small(100)}, {digest(), small(100)}};
        return m;
      }
      case 24:
        return JobFailed{number(), number(), code(), text(), name(), name(), small(10'000)};
      case 25:
        return PlanMissing{number()};
      case 26:
        return StatusReply{number(), text()};
      case 27:
        if (random_.below(2) == 0) return RevokePlan{number(), digest(), text()};
        return RevokePlan{number(), {}, text(), {name(), text(), small(99), 100 + small(99)}};
      case 28:
        return PlanRevoked{number(), digests()};
      case 29:
        return JobCancelled{number()};
      case 30: {
        ImportPlans m{number(), digests(), {}, {}};
        m.plans.push_back(digest());
        for (auto& b : m.signer) b = static_cast<std::byte>(random_.next());
        if (flag()) m.revocations = digest();
        return m;
      }
      case 31:
        return PublishPlan{number(), digest(), {name(), name()}, flag()};
      case 32:
        return Reverify{number()};
      case 33:
        return PlansChanged{number(), digests()};
      case 34:
        return AskRevocations{number(), flag() ? digest() : Digest{}};
      case 35:
        return RevocationsAre{number(), flag() ? digest() : Digest{}};
      case 36:
        return AskTrace{number(), number()};
      case 37:
        return JobTrace{number(), digest()};
      default:
        return PlanNews{digest(), name(), digest(), standing(), number(), number()};
    }
  }

 private:
  Random random_;
};

constexpr size_t kKinds = std::variant_size_v<Message>;

TEST(WireCodec, EveryMessageSurvivesTheRoundTrip) {
  for (size_t kind = 0; kind < kKinds; ++kind) {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      Message message = Maker(seed * 100 + kind).make(kind);
      ASSERT_EQ(message.index(), kind);
      auto decoded = decode(encode(message));
      ASSERT_TRUE(decoded.ok()) << message_name(message) << " seed " << seed << ": "
                                << decoded.error().message;
      EXPECT_TRUE(*decoded == message) << message_name(message) << " seed " << seed;
    }
  }
}

TEST(WireCodec, EncodingIsDeterministic) {
  for (size_t kind = 0; kind < kKinds; ++kind) {
    EXPECT_EQ(encode(Maker(kind).make(kind)), encode(Maker(kind).make(kind)));
  }
}

TEST(WireCodec, UnalignedBytesDecode) {
  Message message = Maker(1).make(7);
  Bytes bytes = encode(message);
  Bytes shifted(bytes.size() + 1);
  std::copy(bytes.begin(), bytes.end(), shifted.begin() + 1);
  auto decoded = decode(ByteView(shifted).subspan(1));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_TRUE(*decoded == message);
}

TEST(WireCodec, TruncatedBytesAreCorrupt) {
  for (size_t kind = 0; kind < kKinds; ++kind) {
    Bytes bytes = encode(Maker(kind).make(kind));
    for (size_t length = 0; length < bytes.size(); ++length) {
      auto decoded = decode(ByteView(bytes).first(length));
      ASSERT_FALSE(decoded.ok()) << "kind " << kind << " cut to " << length;
      EXPECT_EQ(decoded.error().code, Code::kCorrupt) << "kind " << kind << " cut to " << length;
    }
    bytes.resize(bytes.size() + 8);
    EXPECT_FALSE(decode(bytes).ok()) << "kind " << kind << " with stray bytes";
  }
}

// Goal: no bytes make decode() crash, and what it accepts is a message that passes every check.
// Method: one to eight random bit flips in valid envelopes of every kind.
TEST(WireCodec, FlippedBitsNeverCrash) {
  size_t accepted = 0, refused = 0;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    Random random(kind);
    for (int round = 0; round < 3000; ++round) {
      Bytes bytes = encode(Maker(random.next()).make(kind));
      for (uint64_t flips = 1 + random.below(8); flips > 0; --flips) {
        bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1 << random.below(8));
      }
      auto decoded = decode(bytes);
      if (!decoded.ok()) {
        ++refused;
        continue;
      }
      ++accepted;
      ASSERT_TRUE(validate(*decoded).ok()) << "kind " << kind << " round " << round;
      auto again = decode(encode(*decoded));
      ASSERT_TRUE(again.ok()) << "kind " << kind << " round " << round << ": "
                              << again.error().message;
      // Compared as bytes: a flipped duration may be -0.0 or equal under == and not in bits.
      ASSERT_EQ(encode(*again), encode(*decoded)) << "kind " << kind << " round " << round;
    }
  }
  EXPECT_GT(accepted, 1000u);
  EXPECT_GT(refused, 1000u);
}

TEST(WireCodec, RandomBytesAreRefused) {
  Random random(7);
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes(8 * random.below(40));
    for (auto& b : bytes) b = static_cast<std::byte>(random.chance(0.6) ? 0 : random.next());
    EXPECT_FALSE(decode(bytes).ok()) << "round " << round;
  }
}

void expect_refused(const Message& message, const char* field) {
  Status status = validate(message);
  ASSERT_FALSE(status.ok()) << message_name(message) << '.' << field;
  EXPECT_EQ(status.error().code, Code::kInvalidInput);
  EXPECT_NE(status.error().message.find(field), std::string::npos) << status.error().message;
  Bytes bytes = encode(message);
  auto decoded = decode(bytes);
  ASSERT_FALSE(decoded.ok()) << message_name(message) << '.' << field;
  EXPECT_EQ(decoded.error().code, Code::kInvalidInput) << decoded.error().message;
}

TEST(WireCodec, LimitsAreKept) {
  WorkerHello hello{"w1", "cpu", 1, kProtocolVersion, "b"};
  ASSERT_TRUE(validate(hello).ok());
  WorkerHello bad = hello;
  bad.worker_id = "";
  expect_refused(bad, "worker_id");
  bad = hello;
  bad.worker_id = std::string(kNameBytesMax + 1, 'x');
  expect_refused(bad, "worker_id");
  bad = hello;
  bad.target = "cpu\ninjected log line";
  expect_refused(bad, "target");
  bad = hello;
  bad.slots = 0;
  expect_refused(bad, "slots");
  bad.slots = kSlotsMax + 1;
  expect_refused(bad, "slots");

  expect_refused(Credit{kSlotsMax + 1}, "count");
  expect_refused(Heartbeat{std::vector<TaskLease>(kLeasesMax + 1)}, "leases");
  expect_refused(BlobRequest{}, "digest");
  expect_refused(Task{{1, 1}, 1, 0, {}, {}}, "deadline_ms");
  expect_refused(Task{{1, 1}, 1, 5, Bytes(kPayloadBytesMax + 1), {}}, "payload");
  expect_refused(Task{{1, 1}, 1, 5, {}, {Digest{}}}, "blobs");
  expect_refused(
      TaskResult{
          {1, 1}, TaskOutcome::kOk, "", {}, std::vector<Digest>(kDigestsMax + 1, digest_of("x"))},
      "blobs");
  TaskResult spans{{1, 1}, TaskOutcome::kOk, "", {}, {}};
  spans.spans = {{"run", 1, 2}};
  ASSERT_TRUE(validate(spans).ok());
  spans.spans[0].start_ms = -1;
  expect_refused(spans, "spans");
  spans.spans[0] = {"run", 1, std::nan("")};
  expect_refused(spans, "spans");
  spans.spans[0] = {"run", 1, 1e300};
  expect_refused(spans, "spans");
  spans.spans[0] = {"a step\n", 1, 2};
  expect_refused(spans, "spans.step");
  spans.spans.assign(kTaskSpansMax + 1, {"run", 1, 2});
  expect_refused(spans, "spans");
  expect_refused(JobTrace{1, {}}, "trace");
  expect_refused(Welcome{"c", 0, {}, "e"}, "heartbeat_ms");

  Submit submit{1, digest_of("h"), "", "strict", digest_of("g"), 0, 0, 0, 0, 0};
  ASSERT_TRUE(validate(submit).ok());
  submit.policy = "a\x80z";
  expect_refused(submit, "policy");
  submit.policy = std::string(kTextBytesMax + 1, 'p');
  expect_refused(submit, "policy");
  submit.policy = "strict";
  submit.in_flight = kInFlightAuto;
  ASSERT_TRUE(validate(submit).ok());
  submit.priority = 0;
  expect_refused(submit, "priority");
  submit.priority = kPriorityMax + 1;
  expect_refused(submit, "priority");
  submit.priority = kPriorityMax;
  submit.name = "caf\xc3\xa9 <b>&amp;";
  EXPECT_TRUE(validate(submit).ok());
  submit.name = "two\nlines";
  expect_refused(submit, "name");
  for (const char* controls : {"bell\x07", "csi\302\23331m", "tab\t"}) {
    submit.name = controls;
    expect_refused(submit, "name");
  }
  submit.name = std::string(kNameBytesMax + 1, 'n');
  expect_refused(submit, "name");
  submit.name.clear();
  submit.in_flight = kInFlightMax + 1;
  expect_refused(submit, "in_flight");

  PlanReady ready{1, 2, digest_of("k"), digest_of("p"), CacheOutcome::kHit, 0, 0, 0, 0, {}};
  ready.breakdown = {{"search", -1}};
  expect_refused(ready, "breakdown.ms");
  ready.breakdown = {{"search", std::numeric_limits<double>::quiet_NaN()}};
  expect_refused(ready, "breakdown.ms");
  ready.breakdown.assign(kStagesMax + 1, {"search", 1});
  expect_refused(ready, "breakdown");

  StatusReply reply{1, std::string(kStatusBytesMax + 1, ' ')};
  expect_refused(reply, "json");
}

TEST(WireCodec, LargestMessagesFitAnEnvelope) {
  Task task{{1, 1}, 1, 5, Bytes(kPayloadBytesMax), {}};
  task.blobs.assign(kDigestsMax, digest_of("x"));
  auto decoded = decode(encode(task));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_TRUE(*decoded == Message(task));
  EXPECT_FALSE(decode(Bytes(kEnvelopeBytesMax + 8)).ok());
}

TEST(WireCodec, DiagnosticsAreCleanedAndCut) {
  std::string raw = "error:\r \x1b[31mbad\x1b[0m \xff € ";
  while (raw.size() <= kTextBytesMax + 10) raw += "€";
  auto decoded = decode(encode(Refused{Code::kInternal, raw}));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  const auto& message = std::get<Refused>(*decoded).message;
  EXPECT_EQ(message.rfind("error:? ?[31mbad?[0m ? € ", 0), 0u) << message.substr(0, 40);
  EXPECT_LE(message.size(), kTextBytesMax);
  EXPECT_GT(message.size(), kTextBytesMax - 4);
  EXPECT_TRUE(is_clean_text(message, kTextBytesMax));
}

TEST(WireCodec, TwoVersionsAreSpokenAndOthersNamed) {
  for (uint32_t version = kProtocolVersion - 1; version <= kProtocolVersion; ++version) {
    uint32_t found = 0;
    auto decoded = decode(encode(Ping{4}, version), kProtocolsSpoken, &found);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_EQ(found, version);
  }
  struct Foreign {
    uint32_t version;
    std::string advice;
  };
  for (const Foreign& foreign : {Foreign{kProtocolVersion + 1, "update this side"},
                                 {99, "update this side"},
                                 {kProtocolVersion - 2, "update the sender"}}) {
    Bytes bytes = encode(Ping{4});
    // The version is the first number of the root struct: segment table, root pointer, then data.
    ASSERT_EQ(std::to_integer<uint32_t>(bytes[16]), kProtocolVersion);
    bytes[16] = static_cast<std::byte>(foreign.version);
    uint32_t found = 0;
    auto decoded = decode(bytes, kProtocolsSpoken, &found);
    ASSERT_FALSE(decoded.ok());
    EXPECT_EQ(found, foreign.version);
    EXPECT_EQ(decoded.error().code, Code::kUnsupported);
    for (const std::string& part :
         {cat("protocol ", foreign.version, " "),
          cat("protocol ", kProtocolVersion - 1, " to ", kProtocolVersion), foreign.advice}) {
      EXPECT_NE(decoded.error().message.find(part), std::string::npos) << decoded.error().message;
    }
  }
}

TEST(WireCodec, AMessageInAVersionThatLacksItIsRefused) {
  PlanNews news{digest_of("key"), "", digest_of("plan")};
  uint32_t since = introduced_in(news);
  Bytes bytes = encode(news, since);
  EXPECT_TRUE(decode(bytes, {1, since}).ok());
  bytes[16] = static_cast<std::byte>(since - 1);
  auto decoded = decode(bytes, {1, since});
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.error().code, Code::kInvalidInput);
  EXPECT_EQ(introduced_in(StatusRequest{1, StatusTopic::kPlans, "ab"}), 3u);
  EXPECT_EQ(introduced_in(StatusRequest{1, StatusTopic::kCache}), 1u);
}

// What a hello lacks that was written before its later fields were.
TEST(WireCodec, FieldsThatAreNotThereMeanWhatTheyMeantThen) {
  WorkerHello hello{"w1", "cpu", 1, 1, "b", 0};
  auto decoded = decode(encode(hello, 1));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::get<WorkerHello>(*decoded).protocol_max, 0u);
  EXPECT_EQ(agreed_version(kProtocolsSpoken, {1, 1}).value_or(0),
            kProtocolsSpoken.holds(1) ? 1u : 0u);
  EXPECT_EQ(agreed_version({1, 2}, {2, 3}), 2u);
  EXPECT_EQ(agreed_version({1, 2}, {3, 4}), std::nullopt);
  EXPECT_EQ(agreed_version({3, 4}, {1, 2}), std::nullopt);
}

TEST(WireCodec, BlobFramesAreTold) {
  Digest digest = digest_of("x");
  EXPECT_EQ(blob_frame_of(Blob{digest}), BlobFrame::kRequired);
  EXPECT_EQ(blob_digest_of(Blob{digest}), digest);
  EXPECT_EQ(blob_frame_of(Ping{1}), BlobFrame::kNone);
  Submit submit;
  submit.graph = digest;
  EXPECT_EQ(blob_frame_of(submit), BlobFrame::kOptional);
  EXPECT_EQ(blob_digest_of(submit), digest);
}

TEST(WireCodec, NamesMatchTheVariant) {
  EXPECT_STREQ(message_name(WorkerHello{}), "WorkerHello");
  EXPECT_STREQ(message_name(Blob{}), "Blob");
  EXPECT_STREQ(message_name(Submit{}), "Submit");
  EXPECT_STREQ(message_name(PlanReady{}), "PlanReady");
  EXPECT_STREQ(message_name(StatusReply{}), "StatusReply");
  EXPECT_STREQ(outcome_name(TaskOutcome::kCompileError), "compile_error");
  EXPECT_STREQ(cache_outcome_name(CacheOutcome::kPartial), "partial");
  EXPECT_STREQ(standing_name(Standing::kInterim), "interim");
}

TEST(WireCodec, OnlyTheShortestSpellingOfACharacterIsClean) {
  for (const char* text : {"a\n\tz", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x9a\x9c"}) {
    EXPECT_TRUE(is_clean_text(text, 100)) << text;
    EXPECT_EQ(clean_text(text), text);
  }
  for (const char* text : {"\x07", "\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80",
                           "\xe2\x82", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xff"}) {
    EXPECT_FALSE(is_clean_text(text, 100)) << text;
    EXPECT_TRUE(is_clean_text(clean_text(text), 100)) << text;
  }
}

}  // namespace
}  // namespace common
