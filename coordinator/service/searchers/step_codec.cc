// Steps of searches as bytes (search_frames.h).
#include <type_traits>

#include "common/base/cat.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/plans/priors.h"
#include "coordinator/service/plans/stored_tuning_records.h"
#include "coordinator/service/searchers/fields.h"
#include "coordinator/service/searchers/search_frames.h"
#include "coordinator/service/searchers/shared_fields.h"

namespace coordinator::service {

using common::cat;
using common::Result;

namespace {

// Plans and such are as they are stored elsewhere: the step as it travels.
struct SentOutcome {
  std::string plan;  // encode_plan()
  std::string worker;
  uint64_t candidate = 0;
  std::string note;
};

struct SentProposal {
  CandidateFacts facts;
  common::TaskKind kind{};
  std::optional<std::string> known;  // result_record()
};

struct SentStep {
  uint64_t asked = 0;
  std::vector<std::pair<common::Digest, std::string>> graphs;
  std::vector<Candidate> candidates;  // without the graphs' bytes
  std::vector<SentProposal> proposals;
  SearchStatus status;
  std::vector<SentOutcome> interim;
  std::optional<uint64_t> finished_after;
  std::optional<SentOutcome> outcome;
  std::optional<SearchFailure> failure;  // in the outcome's place
  std::string learned;                   // encode_effects()
  std::vector<std::string> tuning_records;
};

std::string text_of(const common::Bytes& bytes) { return std::string(common::as_text(bytes)); }

}  // namespace

template <class Archive, class Value>
requires std::is_same_v<std::remove_const_t<Value>, common::ScheduleParameter>
void fields(Archive& archive, Value& parameter) { archive(parameter.name, parameter.value); }

template <class Archive, class Value>
requires std::is_same_v<std::remove_const_t<Value>, ScheduledForm>
void fields(Archive& archive, Value& form) { archive(form.form, form.body, form.schedule); }

template <class Archive, class Value>
requires std::is_same_v<std::remove_const_t<Value>, CandidateFacts>
void fields(Archive& archive, Value& facts) {
  archive(facts.id, facts.fingerprint, facts.region, facts.origin, facts.predicted_ns);
}

template <class Archive, class Value>
requires std::is_same_v<std::remove_const_t<Value>, Candidate>
void fields(Archive& archive, Value& candidate) {
  archive(candidate.id, candidate.fingerprint, candidate.region, candidate.origin,
          candidate.predicted_ns);
  archive(candidate.kind, candidate.kernels, candidate.forms, candidate.payload, candidate.graph);
}

template <class Archive, class Value>
requires std::is_same_v<std::remove_const_t<Value>, SentOutcome>
void fields(Archive& archive, Value& outcome) {
  archive(outcome.plan, outcome.worker, outcome.candidate, outcome.note);
}

template <class Archive, class Value>
requires std::is_same_v<std::remove_const_t<Value>, SentProposal>
void fields(Archive& archive, Value& proposal) {
  archive(proposal.facts, proposal.kind, proposal.known);
}

template <class Archive, class Value>
requires std::is_same_v<std::remove_const_t<Value>, SentStep>
void fields(Archive& archive, Value& step) {
  archive(step.asked, step.graphs, step.candidates, step.proposals, step.status, step.interim,
          step.finished_after, step.outcome, step.failure, step.learned, step.tuning_records);
}

namespace {

SentOutcome sent(const SearchOutcome& outcome) {
  return {text_of(common::encode_plan(outcome.plan)), outcome.worker, outcome.candidate,
          outcome.note};
}

Result<SearchOutcome> received(SentOutcome&& outcome) {
  LFARM_ASSIGN_OR_RETURN(common::Plan plan, common::decode_plan(common::as_bytes(outcome.plan)));
  return SearchOutcome{std::move(plan), std::move(outcome.worker), outcome.candidate,
                       std::move(outcome.note)};
}

common::Status take_graphs(SentStep& from, KnownGraphs& known) {
  for (auto& [digest, bytes] : from.graphs) {
    common::SharedBytes shared = common::share(common::to_bytes(common::as_bytes(bytes)));
    if (common::digest_of(shared.bytes) != digest) {
      return common::corrupt("a searcher's graph has another digest than it says");
    }
    known.insert_or_assign(digest, std::move(shared));
  }
  return {};
}

common::Status take_candidates(SentStep& from, const KnownGraphs& known, StepResult& step) {
  for (Candidate& candidate : from.candidates) {
    auto graph = known.find(candidate.graph);
    bool is_sound = graph != known.end() && candidate.kernels.size() == candidate.forms.size() &&
                    candidate.payload.size() <= common::kPayloadBytesMax;
    if (!is_sound) return common::corrupt("a searcher's candidate is damaged");
    candidate.graph_bytes = graph->second;
    step.candidates.push_back(std::make_shared<const Candidate>(std::move(candidate)));
  }
  for (SentProposal& proposal : from.proposals) {
    Proposal& to = step.proposals.emplace_back();
    static_cast<CandidateFacts&>(to) = std::move(proposal.facts);
    to.kind = proposal.kind;
    if (!proposal.known) continue;
    LFARM_ASSIGN_OR_RETURN(auto result, parse_result_record(*proposal.known));
    to.known = std::move(result.second);
  }
  return {};
}

common::Status take_end(SentStep& from, StepResult& step) {
  if (from.failure) {
    step.outcome =
        Result<SearchOutcome>(common::Error{from.failure->code, std::move(from.failure->message)});
  }
  if (from.outcome) {
    LFARM_ASSIGN_OR_RETURN(SearchOutcome outcome, received(std::move(*from.outcome)));
    step.outcome = Result<SearchOutcome>(std::move(outcome));
  }
  step.learned = decode_effects(from.learned);
  for (const std::string& bytes : from.tuning_records) {
    auto record = decode_tuning_record(bytes);
    if (!record) return common::corrupt("a searcher's tuning record is damaged");
    step.tuning_records.emplace(record->key, std::move(record->record));
  }
  return {};
}

}  // namespace

std::string encode_step(const StepResult& step, KnownGraphs& known) {
  SentStep to;
  to.asked = static_cast<uint64_t>(step.asked);
  for (const auto& candidate : step.candidates) {
    if (known.emplace(candidate->graph, candidate->graph_bytes).second) {
      to.graphs.emplace_back(candidate->graph,
                             std::string(common::as_text(candidate->graph_bytes.bytes)));
    }
    to.candidates.push_back(*candidate);
  }
  for (const Proposal& proposal : step.proposals) {
    SentProposal& added = to.proposals.emplace_back();
    added.facts = proposal;
    added.kind = proposal.kind;
    if (proposal.known) {
      added.known = result_record({proposal.kind, proposal.fingerprint}, *proposal.known);
    }
  }
  to.status = step.status;
  for (const SearchOutcome& outcome : step.interim) to.interim.push_back(sent(outcome));
  if (step.finished_after) to.finished_after = static_cast<uint64_t>(*step.finished_after);
  if (step.outcome && step.outcome->ok()) to.outcome = sent(**step.outcome);
  if (step.outcome && !step.outcome->ok()) {
    to.failure = SearchFailure{step.outcome->error().code, step.outcome->error().message};
  }
  to.learned = encode_effects(step.learned);
  for (const auto& [key, record] : step.tuning_records) {
    to.tuning_records.push_back(encode_tuning_record({key, 0, record}));
  }
  FieldsWriter writer;
  writer(to);
  return writer.take();
}

Result<StepResult> decode_step(std::string_view body, KnownGraphs& known) {
  SentStep from;
  FieldsReader reader(body);
  reader(from);
  if (!reader.done()) return common::corrupt("a searcher's step is damaged");
  StepResult step;
  step.asked = static_cast<int>(from.asked);
  LFARM_RETURN_IF_ERROR(take_graphs(from, known));
  LFARM_RETURN_IF_ERROR(take_candidates(from, known, step));
  step.status = from.status;
  for (SentOutcome& outcome : from.interim) {
    LFARM_ASSIGN_OR_RETURN(SearchOutcome plan, received(std::move(outcome)));
    step.interim.push_back(std::move(plan));
  }
  if (from.finished_after) step.finished_after = static_cast<int64_t>(*from.finished_after);
  LFARM_RETURN_IF_ERROR(take_end(from, step));
  return step;
}

}  // namespace coordinator::service
