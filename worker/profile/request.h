// What the worker asks of its executor child, and what the child answers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/plan/plan.h"
#include "common/wire/messages.h"
#include "common/wire/task.h"
#include "worker/profile/measurement.h"

namespace worker {

struct ObjectBlob {
  common::Digest digest;
  common::Bytes bytes;
};

// Verify and measure one compiled candidate or, with rivals, measure it and them in alternation.
struct ProfileRequest {
  common::Digest graph;       // of the encoded graph
  common::Bytes graph_bytes;  // may be empty: the child answers kNeedGraph when it does not know it
  common::Plan plan;
  std::vector<ObjectBlob> objects;   // of the plan and of its rivals, each distinct one once
  std::vector<common::Plan> rivals;  // of a comparison, which verifies only the first case
  common::VerifyOptions verify;
  common::MeasureOptions measure;
  // For the candidate's own code; the child ends itself well beyond it, should nobody else.
  uint32_t candidate_ms = 0;
  // Waits for each call, so that an error that the device reports late names its kernel.
  bool one_by_one = false;
};

// What the child is busy with, so that a deadline or a crash is blamed on the right one.
enum class ProfileStage : uint8_t {
  kReference,  // the worker's own work: decoding, inputs, the reference interpreter, comparing
  kCandidate,  // code of the candidate runs
  kTurn,       // the worker's own work before, between and after measurements; waiting for the lock
  kMeasured,   // code of the candidate runs and is timed
};

inline bool runs_candidate(ProfileStage stage) {
  return stage == ProfileStage::kCandidate || stage == ProfileStage::kMeasured;
}
// Whether the worker may stop the child (SIGSTOP) while another worker measures.
inline bool may_stand_still(ProfileStage stage) {
  return stage == ProfileStage::kReference || stage == ProfileStage::kCandidate;
}

struct ProfileReply {
  enum class Kind : uint8_t { kStage, kNeedGraph, kDone };
  Kind kind = Kind::kDone;
  ProfileStage stage = ProfileStage::kReference;  // of kStage

  // Of kDone.
  common::TaskOutcome outcome = common::TaskOutcome::kInfra;
  std::string message;  // empty when the outcome is kOk
  // The child is to be replaced: the candidate wrote where it must not (kWrong), its kernel made
  // the device useless to the child (kCrash), or the device is sick.
  bool damaged = false;
  double max_error = 0;
  double verify_ms = 0, measure_ms = 0;
  double prepare_ms = 0;                    // what is computed once from the weights
  Measurement measured;                     // 0 ns for calls that do not run every time
  std::vector<common::RivalReport> rivals;  // of a comparison
  double pace = 0;                          // as TaskReport's
};

common::Bytes encode(const ProfileRequest& request);
common::Result<ProfileRequest> decode_request(common::ByteView frame);
common::Bytes encode(const ProfileReply& reply);
common::Result<ProfileReply> decode_reply(common::ByteView frame);

}  // namespace worker
