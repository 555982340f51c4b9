#include "worker/profile/request.h"

#include <algorithm>
#include <cstring>

#include "common/process/pipe.h"
#include "common/wire/ir_codec.h"

namespace worker {
using common::Bytes;
using common::ByteView;
using common::Digest;
using common::FrameReader;
using common::FrameWriter;
using common::Result;

namespace {

void write_digest(FrameWriter& w, const Digest& digest) { w.bytes(digest.bytes); }

Digest read_digest(FrameReader& r) {
  Digest digest;
  ByteView bytes = r.bytes();
  if (bytes.size() == digest.bytes.size()) {
    std::memcpy(digest.bytes.data(), bytes.data(), bytes.size());
  }
  return digest;
}

void write_options(FrameWriter& w, const common::VerifyOptions& verify,
                   const common::MeasureOptions& measure) {
  w.u64(verify.sizes.size());
  for (const std::vector<int64_t>& sizes : verify.sizes) {
    w.bytes(std::as_bytes(std::span(sizes)));
  }
  w.bytes(std::as_bytes(std::span(verify.seeds)));
  w.u64(verify.adversarial);
  w.u64(verify.references_ms);
  w.u64(verify.always);
  w.u64(measure.warmups);
  w.u64(measure.repetitions);
  w.u64(measure.time_max_ms);
  w.u64(measure.give_up_ns);
  w.u64(measure.per_kernel);
  w.u64(measure.threads);
  w.u64(measure.sizes.size());
  for (const common::WeightedSizes& each : measure.sizes) {
    w.bytes(std::as_bytes(std::span(each.sizes)));
    w.f64(each.weight);
  }
}

template <class T>
std::vector<T> read_numbers(FrameReader& r) {
  ByteView bytes = r.bytes();
  std::vector<T> result(bytes.size() / sizeof(T));
  if (!result.empty()) std::memcpy(result.data(), bytes.data(), result.size() * sizeof(T));
  return result;
}

void read_options(FrameReader& r, common::VerifyOptions& verify, common::MeasureOptions& measure) {
  verify.sizes.resize(r.count());
  for (std::vector<int64_t>& sizes : verify.sizes) sizes = read_numbers<int64_t>(r);
  verify.seeds = read_numbers<uint64_t>(r);
  verify.adversarial = r.u64() != 0;
  verify.references_ms = static_cast<uint32_t>(r.u64());
  verify.always = static_cast<uint32_t>(r.u64());
  measure.warmups = static_cast<uint32_t>(r.u64());
  measure.repetitions = static_cast<uint32_t>(r.u64());
  measure.time_max_ms = static_cast<uint32_t>(r.u64());
  measure.give_up_ns = r.u64();
  measure.per_kernel = r.u64() != 0;
  measure.threads = static_cast<uint32_t>(r.u64());
  measure.sizes.resize(r.count());
  for (common::WeightedSizes& each : measure.sizes) {
    each.sizes = read_numbers<int64_t>(r);
    each.weight = r.f64();
  }
}

}  // namespace

Bytes encode(const ProfileRequest& request) {
  FrameWriter w;
  write_digest(w, request.graph);
  w.bytes(request.graph_bytes);
  w.bytes(common::encode_plan(request.plan));
  w.u64(request.objects.size());
  for (const ObjectBlob& object : request.objects) {
    write_digest(w, object.digest);
    w.bytes(object.bytes);
  }
  w.u64(request.rivals.size());
  for (const common::Plan& rival : request.rivals) w.bytes(common::encode_plan(rival));
  write_options(w, request.verify, request.measure);
  w.u64(request.candidate_ms);
  w.u64(request.one_by_one);
  return w.take();
}

Result<ProfileRequest> decode_request(ByteView frame) {
  FrameReader r(frame);
  ProfileRequest request;
  request.graph = read_digest(r);
  request.graph_bytes = common::to_bytes(r.bytes());
  ByteView plan = r.bytes();
  request.objects.resize(r.count());
  for (ObjectBlob& object : request.objects) {
    object.digest = read_digest(r);
    object.bytes = common::to_bytes(r.bytes());
  }
  std::vector<ByteView> rivals(r.count());
  for (ByteView& rival : rivals) rival = r.bytes();
  read_options(r, request.verify, request.measure);
  request.candidate_ms = static_cast<uint32_t>(r.u64());
  request.one_by_one = r.u64() != 0;
  if (!r.ok()) return common::corrupt("a request to the executor is cut off");
  LFARM_ASSIGN_OR_RETURN(request.plan, common::decode_plan(plan));
  for (ByteView rival : rivals) {
    LFARM_ASSIGN_OR_RETURN(common::Plan decoded, common::decode_plan(rival));
    request.rivals.push_back(std::move(decoded));
  }
  return request;
}

Bytes encode(const ProfileReply& reply) {
  FrameWriter w;
  w.u64(static_cast<uint64_t>(reply.kind));
  w.u64(static_cast<uint64_t>(reply.stage));
  w.u64(static_cast<uint64_t>(reply.outcome));
  w.bytes(common::as_bytes(reply.message));
  w.u64(reply.damaged);
  for (double value : {reply.max_error, reply.verify_ms, reply.measure_ms, reply.prepare_ms}) {
    w.f64(value);
  }
  w.u64(reply.measured.total_ns);
  w.u64(reply.measured.spread_ns);
  w.u64(reply.measured.runs);
  w.bytes(std::as_bytes(std::span(reply.measured.call_ns)));
  w.f64(reply.measured.disturbed);
  w.f64(reply.pace);
  w.u64(reply.rivals.size());
  for (const common::RivalReport& rival : reply.rivals) {
    w.u64(rival.total_ns);
    w.u64(rival.spread_ns);
    for (double value : {rival.speedup, rival.speedup_low, rival.speedup_high}) w.f64(value);
  }
  return w.take();
}

Result<ProfileReply> decode_reply(ByteView frame) {
  FrameReader r(frame);
  ProfileReply reply;
  uint64_t kind = r.u64(), stage = r.u64(), outcome = r.u64();
  reply.message = std::string(common::as_text(r.bytes()));
  reply.damaged = r.u64() != 0;
  for (double* value : {&reply.max_error, &reply.verify_ms, &reply.measure_ms, &reply.prepare_ms}) {
    *value = r.f64();
  }
  reply.measured.total_ns = r.u64();
  reply.measured.spread_ns = r.u64();
  reply.measured.runs = static_cast<uint32_t>(r.u64());
  reply.measured.call_ns = read_numbers<uint64_t>(r);
  reply.measured.disturbed = r.f64();
  reply.pace = r.f64();
  reply.rivals.resize(std::min<size_t>(r.count(), common::kRivalsMax));
  for (common::RivalReport& rival : reply.rivals) {
    rival.total_ns = r.u64();
    rival.spread_ns = r.u64();
    for (double* value : {&rival.speedup, &rival.speedup_low, &rival.speedup_high}) {
      *value = r.f64();
    }
  }
  // A candidate may have scribbled over the child's memory: nothing of it is taken on trust.
  if (!r.ok() || kind > static_cast<uint64_t>(ProfileReply::Kind::kDone) ||
      stage > static_cast<uint64_t>(ProfileStage::kMeasured) ||
      outcome > static_cast<uint64_t>(common::TaskOutcome::kInfra)) {
    return common::corrupt("the executor's answer is damaged");
  }
  reply.kind = static_cast<ProfileReply::Kind>(kind);
  reply.stage = static_cast<ProfileStage>(stage);
  reply.outcome = static_cast<common::TaskOutcome>(outcome);
  return reply;
}

}  // namespace worker
