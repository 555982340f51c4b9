#include "coordinator/service/observe/timeline.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "cache/store/records.h"
#include "common/base/cat.h"

namespace coordinator::service {

using common::cat;
using common::Result;
using Json = nlohmann::json;

namespace {

constexpr std::string_view kPrefix = "trace-";
constexpr uint64_t kHead = 0;
constexpr uint64_t kFirstRow = 1;
constexpr int kVersion = 1;
// Texts in rows are names; what is longer is cut.
constexpr size_t kTextMax = 256;

enum class Kind : uint8_t { kTask, kStage, kRound, kMark };

std::string segment_name(farm::JobId job, uint64_t segment) {
  return cat(kPrefix, job, '-', segment);
}

// What segment_name() was made of.
std::optional<std::pair<farm::JobId, uint64_t>> parse_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const char* end = name.data() + name.size();
  farm::JobId job = 0;
  uint64_t segment = 0;
  auto first = std::from_chars(name.data() + kPrefix.size(), end, job);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') return std::nullopt;
  auto second = std::from_chars(first.ptr + 1, end, segment);
  if (second.ec != std::errc() || second.ptr != end) return std::nullopt;
  return std::make_pair(job, segment);
}

void put(std::string& out, int64_t value) { cache::append_u64(out, static_cast<uint64_t>(value)); }
void put(std::string& out, uint64_t value) { cache::append_u64(out, value); }
void put(std::string& out, std::string_view text) {
  text = text.substr(0, kTextMax);
  cache::append_u32(out, static_cast<uint32_t>(text.size()));
  out += text;
}

// What the disk has damaged is wrong, and still some time.
int64_t time(cache::FieldReader& in) {
  return std::clamp<int64_t>(static_cast<int64_t>(in.u64()), 0, int64_t{1} << 62);
}
double duration_ms(cache::FieldReader& in) {
  double ms = in.f64();
  return ms >= 0 && ms <= 1e12 ? ms : 0;
}
std::string text(cache::FieldReader& in) { return std::string(in.take(in.u32())); }

void put(std::string& out, const TimelineTask& row) {
  put(out, row.task);
  put(out, row.candidate);
  out += static_cast<char>(row.kind);
  out += static_cast<char>(row.outcome);
  put(out, int64_t{row.region});
  put(out, row.origin);
  cache::append_digest(out, row.fingerprint);
  put(out, row.measured_ns);
  put(out, row.queued_ns);
  put(out, row.ended_ns);
  put(out, row.kept_ns);
  cache::append_u32(out, static_cast<uint32_t>(row.leases.size()));
  for (const TimelineLease& lease : row.leases) {
    put(out, lease.worker);
    put(out, lease.sent_ns);
    put(out, lease.ended_ns);
    put(out, lease.end);
  }
  cache::append_u32(out, static_cast<uint32_t>(row.spans.size()));
  for (const common::TaskSpan& span : row.spans) {
    put(out, span.step);
    cache::append_f64(out, span.start_ms);
    cache::append_f64(out, span.ms);
  }
  put(out, row.slowest.kernel);
  put(out, row.slowest.schedule);
  put(out, row.slowest.ns);
}

void put(std::string& out, const TimelineStage& row) {
  put(out, row.stage);
  out += static_cast<char>(row.is_part);
  put(out, row.from_ns);
  put(out, row.to_ns);
}

void put(std::string& out, const TimelineRound& row) {
  put(out, row.from_ns);
  put(out, row.to_ns);
  for (uint64_t count :
       {row.learned, row.proposed, row.completed, row.best_ns, row.in_flight, row.expected_ns}) {
    put(out, count);
  }
}

void put(std::string& out, const TimelineMark& row) {
  put(out, row.at_ns);
  put(out, row.text);
}

std::optional<TimelineRow> read_task(cache::FieldReader& in) {
  TimelineTask row;
  row.task = in.u64();
  row.candidate = in.u64();
  uint8_t kind = in.u8(), outcome = in.u8();
  if (kind > static_cast<uint8_t>(common::TaskKind::kComparison)) return std::nullopt;
  if (outcome >= common::kOutcomes) return std::nullopt;
  row.kind = static_cast<common::TaskKind>(kind);
  row.outcome = static_cast<common::TaskOutcome>(outcome);
  row.region = static_cast<int>(in.u64());
  row.origin = text(in);
  row.fingerprint = in.digest();
  row.measured_ns = in.u64();
  row.queued_ns = time(in);
  row.ended_ns = time(in);
  row.kept_ns = time(in);
  for (uint32_t left = in.u32(); in.ok() && left > 0; --left) {
    TimelineLease lease;
    lease.worker = text(in);
    lease.sent_ns = time(in);
    lease.ended_ns = time(in);
    lease.end = text(in);
    row.leases.push_back(std::move(lease));
  }
  for (uint32_t left = in.u32(); in.ok() && left > 0; --left) {
    common::TaskSpan span;
    span.step = text(in);
    span.start_ms = duration_ms(in);
    span.ms = duration_ms(in);
    row.spans.push_back(std::move(span));
  }
  if (in.done()) return row;
  row.slowest.kernel = text(in);
  row.slowest.schedule = text(in);
  row.slowest.ns = in.u64();
  return row;
}

std::optional<TimelineRow> read_row(Kind kind, cache::FieldReader& in) {
  switch (kind) {
    case Kind::kTask:
      return read_task(in);
    case Kind::kStage: {
      TimelineStage row;
      row.stage = text(in);
      row.is_part = in.u8() != 0;
      row.from_ns = time(in);
      row.to_ns = time(in);
      return row;
    }
    case Kind::kRound: {
      TimelineRound row;
      row.from_ns = time(in);
      row.to_ns = time(in);
      for (uint64_t* count :
           {&row.learned, &row.proposed, &row.completed, &row.best_ns, &row.in_flight}) {
        *count = in.u64();
      }
      if (!in.done()) row.expected_ns = in.u64();
      return row;
    }
    case Kind::kMark: {
      TimelineMark row;
      row.at_ns = time(in);
      row.text = text(in);
      return row;
    }
  }
  return std::nullopt;
}

std::string encode_head(const TimelineHead& head) {
  return Json{{"version", kVersion},
              {"job", head.job},
              {"tenant", head.tenant},
              {"graph", head.graph},
              {"target", head.target},
              {"policy", head.policy},
              {"segment_rows", head.segment_rows}}
      .dump(-1, ' ', true, Json::error_handler_t::replace);
}

Result<TimelineHead> decode_head(farm::JobId job, const std::string& text) {
  try {
    Json record = Json::parse(text);
    if (record.at("version") != kVersion) {
      return common::unsupported(cat("the trace of job ", job, " is of another version"));
    }
    TimelineHead head{record.at("job"),    record.at("tenant"), record.at("graph"),
                      record.at("target"), record.at("policy"), record.at("segment_rows")};
    if (head.job != job) return common::corrupt(cat("the trace of job ", job, " is another's"));
    return head;
  } catch (const Json::exception& exception) {
    return common::corrupt(cat("the trace of job ", job, " is damaged: ", exception.what()));
  }
}

}  // namespace

// ---- Recording ---------------------------------------------------------------------------------

Timeline::Timeline(TimelineHead head, size_t rows_max, int64_t wall_ns, int64_t clock_ns)
    : head_(std::move(head)), offset_ns_(wall_ns - clock_ns) {
  head_.segment_rows = rows_max == 0 ? 0 : std::max<uint64_t>(1, rows_max / kTimelineSegments);
}

// By the records' numbers, whatever they hold: no number may be used twice.
void Timeline::go_on(cache::Store& store, const std::vector<uint64_t>& segments) {
  if (segments.empty() || head_.segment_rows == 0) return;
  uint64_t last = segments.back();
  next_ = (last + 1) * head_.segment_rows;
  auto records = store.read_job(segment_name(head_.job, last));
  if (!records.ok() || records->empty() || records->front().sequence != kHead) return;
  auto head = decode_head(head_.job, records->front().bytes);
  if (!head.ok() || head->segment_rows != head_.segment_rows) return;
  next_ = last * head_.segment_rows + records->back().sequence;
}

void Timeline::add(TimelineRow row) {
  if (head_.segment_rows != 0) fresh_.emplace_back(next_++, std::move(row));
}

void Timeline::stage(const std::string& stage, int64_t from_clock_ns, int64_t to_clock_ns,
                     bool is_part) {
  add(TimelineStage{stage, is_part, wall(from_clock_ns), wall(to_clock_ns)});
}

void Timeline::mark(int64_t clock_ns, std::string text) {
  add(TimelineMark{wall(clock_ns), std::move(text)});
}

Commits::Write Timeline::take() {
  if (fresh_.empty()) return [](cache::Changes&) {};
  auto rows = std::make_shared<const std::vector<std::pair<uint64_t, TimelineRow>>>(
      std::exchange(fresh_, {}));
  uint64_t in_segment = head_.segment_rows;
  bool begins_one = std::any_of(rows->begin(), rows->end(),
                                [&](const auto& row) { return row.first % in_segment == 0; });
  std::string head = begins_one ? encode_head(head_) : std::string();
  return [job = head_.job, head = std::move(head), rows, in_segment](cache::Changes& changes) {
    for (const auto& [number, row] : *rows) {
      uint64_t segment = number / in_segment, place = number % in_segment;
      std::string name = segment_name(job, segment);
      if (place == 0) {
        changes.records.push_back({name, {kHead, head}});
        if (segment >= kTimelineSegments) {
          changes.removed_jobs.push_back(segment_name(job, segment - kTimelineSegments));
        }
      }
      changes.records.push_back({name, {kFirstRow + place, encode_row(row)}});
    }
  };
}

std::vector<uint64_t> Timeline::segments() const {
  std::vector<uint64_t> all;
  if (next_ == 0) return all;
  uint64_t last = (next_ - 1) / head_.segment_rows;
  uint64_t first = last < kTimelineSegments ? 0 : last + 1 - kTimelineSegments;
  for (uint64_t segment = first; segment <= last; ++segment) all.push_back(segment);
  return all;
}

// ---- On the disk -------------------------------------------------------------------------------

std::string encode_row(const TimelineRow& row) {
  std::string out(1, static_cast<char>(row.index()));
  std::visit([&](const auto& one) { put(out, one); }, row);
  return out;
}

std::optional<TimelineRow> decode_row(std::string_view bytes) {
  cache::FieldReader in(bytes);
  uint8_t kind = in.u8();
  if (!in.ok() || kind >= std::variant_size_v<TimelineRow>) return std::nullopt;
  std::optional<TimelineRow> row = read_row(static_cast<Kind>(kind), in);
  if (!row || !in.done()) return std::nullopt;
  return row;
}

Result<StoredTimeline> read_timeline(cache::Store& store, farm::JobId job) {
  LFARM_ASSIGN_OR_RETURN(TimelineSegments all, list_timelines(store));
  auto segments = all.find(job);
  if (segments == all.end()) return common::invalid_input(cat("job ", job, " has no trace"));
  StoredTimeline timeline;
  for (uint64_t segment : segments->second) {
    LFARM_ASSIGN_OR_RETURN(std::vector<cache::JobRecord> records,
                           store.read_job(segment_name(job, segment)));
    if (records.empty()) continue;  // it gave way meanwhile
    if (records[0].sequence != kHead) {
      return common::corrupt(cat("the trace of job ", job, " has lost a beginning"));
    }
    LFARM_ASSIGN_OR_RETURN(timeline.head, decode_head(job, records[0].bytes));
    if (timeline.rows.empty()) timeline.dropped = segment * timeline.head.segment_rows;
    for (size_t i = 1; i < records.size(); ++i) {
      auto row = decode_row(records[i].bytes);
      row ? timeline.rows.push_back(*std::move(row)) : void(++timeline.damaged);
    }
  }
  if (timeline.head.job == job) return timeline;
  return common::invalid_input(cat("job ", job, " has no trace"));
}

Result<TimelineSegments> list_timelines(cache::Store& store) {
  LFARM_ASSIGN_OR_RETURN(std::vector<std::string> names, store.open_jobs());
  TimelineSegments all;
  for (const std::string& name : names) {
    if (auto parsed = parse_name(name)) all[parsed->first].push_back(parsed->second);
  }
  for (auto& [job, segments] : all) std::sort(segments.begin(), segments.end());
  return all;
}

void remove_timeline(cache::Changes& changes, farm::JobId job,
                     const std::vector<uint64_t>& segments) {
  for (uint64_t segment : segments) changes.removed_jobs.push_back(segment_name(job, segment));
}

}  // namespace coordinator::service
