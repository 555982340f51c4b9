// The limits that every message must keep, and the names of what messages hold.
#include <cmath>

#include "common/base/cat.h"
#include "common/wire/codec.h"

namespace common {
namespace {

// The length of the UTF-8 character at the front of `text`, or 0 when there is none.
size_t utf8_length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  auto continues = [&](size_t i) { return i < text.size() && (byte(i) & 0xc0) == 0x80; };
  unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return continues(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    if (!continues(1) || !continues(2)) return 0;
    bool overlong = first == 0xe0 && byte(1) < 0xa0;
    bool surrogate = first == 0xed && byte(1) >= 0xa0;
    return overlong || surrogate ? 0 : 3;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    bool overlong = first == 0xf0 && byte(1) < 0x90;
    bool beyond = first == 0xf4 && byte(1) >= 0x90;
    return overlong || beyond ? 0 : 4;
  }
  return 0;
}

bool is_control(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n') || c == 0x7f;
}

// Collects the first broken limit of one message.
class Checker {
 public:
  explicit Checker(const char* message) : message_(message) {}

  void name(const char* field, const std::string& text, bool may_be_empty = false) {
    if (text.empty() && !may_be_empty) return fail(field, "is empty");
    if (text.size() > kNameBytesMax) return too_large(field, text.size(), kNameBytesMax);
    for (unsigned char c : text) {
      if (c < 0x20 || c > 0x7e) return fail(field, "holds characters other than printable ASCII");
    }
  }
  void text(const char* field, const std::string& text, size_t max = kTextBytesMax) {
    if (text.size() > max) return too_large(field, text.size(), max);
    if (!is_clean_text(text, max)) fail(field, "is not clean UTF-8 text");
  }
  void line(const char* field, const std::string& text) {
    if (text.size() > kNameBytesMax) return too_large(field, text.size(), kNameBytesMax);
    if (!is_clean_line(text)) fail(field, "is not one line of clean UTF-8 text");
  }
  void digest(const char* field, const Digest& digest) {
    if (digest.is_zero()) fail(field, "is missing");
  }
  void digests(const char* field, const std::vector<Digest>& list) {
    count(field, list.size(), kDigestsMax);
    for (const Digest& entry : list) digest(field, entry);
  }
  void count(const char* field, uint64_t value, uint64_t max) {
    if (value > max) too_large(field, value, max);
  }
  void range(const char* field, uint64_t value, uint64_t min, uint64_t max) {
    if (value < min) return fail(field, cat("is ", value, "; at least ", min, " is accepted"));
    count(field, value, max);
  }
  void fail(const char* field, const std::string& problem) {
    if (status_.ok()) status_ = invalid_input(cat(message_, '.', field, ' ', problem));
  }
  Status status() const { return status_; }

 private:
  void too_large(const char* field, uint64_t value, uint64_t max) {
    fail(field, cat("is ", value, "; at most ", max, " is accepted"));
  }
  const char* message_;
  Status status_;
};

// Twice the longest deadline: what a worker took beyond it is told, too.
constexpr double kSpanMsMax = 2.0 * kDeadlineMsMax;

void check(Checker& c, const WorkerHello& m) {
  c.name("worker_id", m.worker_id);
  c.name("target", m.target);
  c.range("slots", m.slots, 1, kSlotsMax);
  c.name("build", m.build, true);
  c.name("toolchain", m.toolchain, true);
  c.name("machine", m.machine, true);
}
void check(Checker& c, const Credit& m) { c.count("count", m.count, kSlotsMax); }
void check(Checker& c, const Heartbeat& m) { c.count("leases", m.leases.size(), kLeasesMax); }
void check(Checker& c, const TaskResult& m) {
  c.text("message", m.message);
  c.count("report", m.report.size(), kPayloadBytesMax);
  c.digests("blobs", m.blobs);
  if (!std::isfinite(m.busy_ms) || m.busy_ms < 0) c.fail("busy_ms", "is not a duration");
  c.count("spans", m.spans.size(), kTaskSpansMax);
  for (const TaskSpan& span : m.spans) {
    c.name("spans.step", span.step);
    bool is_fine = std::isfinite(span.start_ms) && std::isfinite(span.ms) && span.start_ms >= 0 &&
                   span.ms >= 0 && span.start_ms + span.ms <= kSpanMsMax;
    if (!is_fine) c.fail("spans", "are not within the time of a task");
  }
}
void check(Checker& c, const Welcome& m) {
  c.name("coordinator_id", m.coordinator_id);
  c.range("heartbeat_ms", m.heartbeat_ms, 1, kHeartbeatMsMax);
  c.name("compiler_epoch", m.compiler_epoch, true);
  c.name("tenant", m.tenant, true);
}
void check(Checker& c, const Task& m) {
  c.range("deadline_ms", m.deadline_ms, 1, kDeadlineMsMax);
  c.count("payload", m.payload.size(), kPayloadBytesMax);
  c.digests("blobs", m.blobs);
}
void check(Checker& c, const BlobRequest& m) { c.digest("digest", m.digest); }
void check(Checker& c, const Blob& m) { c.digest("digest", m.digest); }
void check(Checker& c, const BlobMissing& m) { c.digest("digest", m.digest); }
void check(Checker& c, const Refused& m) { c.text("message", m.message); }
void check(Checker& c, const ClientHello& m) {
  c.name("client_id", m.client_id);
  c.name("build", m.build, true);
}
void check(Checker& c, const Submit& m) {
  c.digest("graph_hash", m.graph_hash);
  c.name("target", m.target, true);
  c.text("policy", m.policy);
  c.digest("graph", m.graph);
  if (m.in_flight > kInFlightMax && m.in_flight != kInFlightAuto) {
    c.fail("in_flight", "is beyond the bound of 64");
  }
  c.range("priority", m.priority, 1, kPriorityMax);
  c.line("name", m.name);
  c.name("machine", m.machine, true);
}
void check(Checker& c, const PullPlan& m) {
  c.digest("plan_key", m.plan_key);
  c.name("machine", m.machine, true);
}
void check(Checker& c, const PlanNews& m) {
  c.digest("plan_key", m.plan_key);
  c.name("machine", m.machine, true);
  c.digest("plan", m.plan);
}
void check(Checker& c, const Progress& m) {
  c.name("stage", m.stage, true);
  c.text("trouble", m.trouble);
}
void check(Checker& c, const PlanReady& m) {
  c.digest("plan_key", m.plan_key);
  c.digest("plan", m.plan);
  c.count("breakdown", m.breakdown.size(), kStagesMax);
  for (const StageTime& stage : m.breakdown) {
    c.name("breakdown.stage", stage.stage);
    if (!std::isfinite(stage.ms) || stage.ms < 0) c.fail("breakdown.ms", "is not a duration");
  }
  c.text("note", m.note);
  c.count("parts", m.parts.size(), kDigestsMax);
  for (const BlobPart& part : m.parts) {
    c.digest("parts.digest", part.digest);
    c.count("parts.bytes", part.bytes, kBlobBytesMax);
  }
  if (!m.parts.empty() && m.parts[0].digest != m.plan)
    c.fail("parts", "do not begin with the plan");
}
void check(Checker& c, const JobFailed& m) {
  c.text("message", m.message);
  c.name("endpoint", m.endpoint, true);
  c.name("server_key", m.server_key, true);
}
void check(Checker& c, const StatusReply& m) { c.text("json", m.json, kStatusBytesMax); }
void check(Checker& c, const RevokePlan& m) {
  if (m.rule.is_none()) c.digest("id", m.id);
  c.text("reason", m.reason);
  c.name("rule.worker", m.rule.worker, true);
  c.text("rule.toolchain", m.rule.toolchain);
}
void check(Checker& c, const PlanRevoked& m) { c.digests("plans", m.plans); }
void check(Checker& c, const ImportPlans& m) {
  c.digests("plans", m.plans);
  if (m.plans.empty()) c.fail("plans", "is empty");
}
void check(Checker& c, const PublishPlan& m) {
  c.digest("plan_key", m.plan_key);
  c.count("tenants", m.tenants.size(), kTenantsMax);
  for (const std::string& tenant : m.tenants) c.name("tenants", tenant);
}
void check(Checker& c, const JobTrace& m) { c.digest("trace", m.trace); }
void check(Checker& c, const PlansChanged& m) { c.digests("plans", m.plans); }

// Messages of numbers only, every one of which is accepted.
void check(Checker&, const LeaseReturned&) {}
void check(Checker&, const WorkerBye&) {}
void check(Checker&, const Revoke&) {}
void check(Checker&, const DrainRequest&) {}
void check(Checker&, const Ping&) {}
void check(Checker&, const Pong&) {}
void check(Checker&, const CancelJob&) {}
void check(Checker& c, const StatusRequest& m) {
  c.name("begins", m.begins, true);
  c.name("after", m.after, true);
}
void check(Checker&, const Accepted&) {}
void check(Checker&, const PlanMissing&) {}
void check(Checker&, const JobCancelled&) {}
void check(Checker&, const Reverify&) {}
void check(Checker&, const AskTrace&) {}
void check(Checker&, const AskRevocations&) {}
void check(Checker&, const RevocationsAre&) {}

// In the order of the variant.
constexpr const char* kMessageNames[] = {
    "WorkerHello",    "Credit",      "Heartbeat",   "TaskResult",   "LeaseReturned",
    "WorkerBye",      "Welcome",     "Task",        "Revoke",       "DrainRequest",
    "BlobRequest",    "Blob",        "BlobMissing", "Refused",      "Ping",
    "Pong",           "ClientHello", "Submit",      "CancelJob",    "PullPlan",
    "StatusRequest",  "Accepted",    "Progress",    "PlanReady",    "JobFailed",
    "PlanMissing",    "StatusReply", "RevokePlan",  "PlanRevoked",  "JobCancelled",
    "ImportPlans",    "PublishPlan", "Reverify",    "PlansChanged", "AskRevocations",
    "RevocationsAre", "AskTrace",    "JobTrace",    "PlanNews"};
static_assert(std::size(kMessageNames) == std::variant_size_v<Message>);

}  // namespace

Status validate(const Message& message) {
  Checker checker(message_name(message));
  std::visit([&](const auto& value) { check(checker, value); }, message);
  return checker.status();
}

BlobFrame blob_frame_of(const Message& message) {
  if (std::holds_alternative<Blob>(message) || std::holds_alternative<JobTrace>(message)) {
    return BlobFrame::kRequired;
  }
  if (std::holds_alternative<Submit>(message) || std::holds_alternative<PlanReady>(message) ||
      std::holds_alternative<RevocationsAre>(message)) {
    return BlobFrame::kOptional;
  }
  return BlobFrame::kNone;
}

Digest blob_digest_of(const Message& message) {
  if (auto* blob = std::get_if<Blob>(&message)) return blob->digest;
  if (auto* submit = std::get_if<Submit>(&message)) return submit->graph;
  if (auto* ready = std::get_if<PlanReady>(&message)) return ready->plan;
  if (auto* are = std::get_if<RevocationsAre>(&message)) return are->list;
  if (auto* trace = std::get_if<JobTrace>(&message)) return trace->trace;
  return {};
}

std::vector<BlobPart> blob_parts_of(const Message& message, size_t bytes) {
  auto* ready = std::get_if<PlanReady>(&message);
  if (ready != nullptr && !ready->parts.empty()) return ready->parts;
  return {{blob_digest_of(message), bytes}};
}

Result<std::vector<ByteView>> split_blob(ByteView blob, const std::vector<BlobPart>& parts) {
  std::vector<ByteView> pieces;
  size_t at = 0;
  for (const BlobPart& part : parts) {
    if (part.bytes > blob.size() - at) break;
    pieces.push_back(blob.subspan(at, part.bytes));
    if (digest_of(pieces.back()) != part.digest) {
      return corrupt(cat("blob ", part.digest.short_hex(), " of ", part.bytes,
                         " bytes has another digest; send it again"));
    }
    at = std::min(part_end(at + part.bytes), blob.size());
  }
  if (pieces.size() < parts.size() || at < blob.size()) {
    return corrupt(cat("a frame of ", blob.size(), " bytes does not hold its ", parts.size(),
                       " parts; send it again"));
  }
  return pieces;
}

const char* message_name(const Message& message) { return kMessageNames[message.index()]; }

const char* cache_outcome_name(CacheOutcome outcome) {
  switch (outcome) {
    case CacheOutcome::kHit:
      return "hit";
    case CacheOutcome::kPartial:
      return "partial";
    case CacheOutcome::kMiss:
      return "miss";
  }
  return "unknown";
}

const char* standing_name(Standing standing) {
  switch (standing) {
    case Standing::kFinal:
      return "final";
    case Standing::kInterim:
      return "interim";
    case Standing::kNeighbour:
      return "neighbour";
  }
  return "unknown";
}

std::string clean_text(std::string_view text) {
  std::string out;
  out.reserve(std::min(text.size(), kTextBytesMax));
  while (!text.empty()) {
    size_t length = utf8_length(text);
    bool bad = length == 0 || (length == 1 && is_control(text[0]));
    size_t taken = std::max<size_t>(length, 1);
    if (out.size() + taken > kTextBytesMax) break;
    if (bad) {
      out += '?';
    } else {
      out += text.substr(0, taken);
    }
    text.remove_prefix(taken);
  }
  return out;
}

bool is_clean_text(std::string_view text, size_t bytes_max) {
  if (text.size() > bytes_max) return false;
  while (!text.empty()) {
    size_t length = utf8_length(text);
    if (length == 0 || (length == 1 && is_control(text[0]))) return false;
    text.remove_prefix(length);
  }
  return true;
}

bool is_clean_line(std::string_view text) {
  if (!is_clean_text(text, kNameBytesMax)) return false;
  for (size_t k = 0; k < text.size(); ++k) {
    if (text[k] == '\t' || text[k] == '\n') return false;
    // U+0080 to U+009F, which terminals obey as well.
    bool is_control_pair = text[k] == '\xc2' && static_cast<unsigned char>(text[k + 1]) < 0xa0;
    if (is_control_pair) return false;
  }
  return true;
}

}  // namespace common
