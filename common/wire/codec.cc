// Long because every message has its functions here.
#include "common/wire/codec.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/wire/capnp_support.h"
#include "schemas/farm.capnp.h"

namespace common {
namespace {

namespace farm = schemas::farm;
using common::get;
using common::put;

// ---- Pieces ------------------------------------------------------------------------------------

void put(farm::TaskLease::Builder out, const TaskLease& lease) {
  out.setTaskId(lease.task_id);
  out.setEpoch(lease.epoch);
}

TaskLease get(farm::TaskLease::Reader in) { return {in.getTaskId(), in.getEpoch()}; }

// Texts are bounded by the envelope here and by validate() afterwards.
std::string get(capnp::Text::Reader in) { return get_text(in, kEnvelopeBytesMax); }
Bytes get(capnp::Data::Reader in) { return get_data(in, kPayloadBytesMax); }

static_assert(static_cast<int>(farm::Code::INTERNAL) == static_cast<int>(Code::kInternal));
static_assert(static_cast<int>(farm::Outcome::INFRA) == static_cast<int>(TaskOutcome::kInfra));
static_assert(static_cast<int>(farm::PlanReady::Cache::MISS) ==
              static_cast<int>(CacheOutcome::kMiss));
static_assert(static_cast<int>(farm::StatusRequest::What::PLANS) ==
              static_cast<int>(StatusTopic::kPlans));

Code get(farm::Code code) { return get_enum(code, Code::kInternal, "error code"); }

// ---- Values to envelopes -----------------------------------------------------------------------

using Out = farm::Envelope::Builder;

void write(Out e, const WorkerHello& m) {
  auto out = e.initWorkerHello();
  out.setWorkerId(kj_text(m.worker_id));
  out.setTarget(kj_text(m.target));
  out.setSlots(m.slots);
  out.setProtocolVersion(m.protocol_min);
  out.setBuild(kj_text(m.build));
  out.setProtocolMax(m.protocol_max);
  out.setToolchain(kj_text(m.toolchain));
  if (!m.machine.empty()) out.setMachine(kj_text(m.machine));
  out.setReproducible(m.reproducible);
}

void write(Out e, const Credit& m) { e.initCredit().setCount(m.count); }

void write(Out e, const Heartbeat& m) {
  auto out = e.initHeartbeat().initLeases(m.leases.size());
  for (size_t i = 0; i < m.leases.size(); ++i) put(out[i], m.leases[i]);
}

void write(Out e, const TaskResult& m) {
  auto out = e.initTaskResult();
  put(out.initLease(), m.lease);
  out.setOutcome(static_cast<farm::Outcome>(m.outcome));
  out.setMessage(kj_text(clean_text(m.message)));
  out.setReport(kj_data(m.report));
  put(out.initBlobs(m.blobs.size()), m.blobs);
  out.setBusyMs(m.busy_ms);
  if (m.spans.empty()) return;
  auto spans = out.initSpans(m.spans.size());
  for (size_t i = 0; i < m.spans.size(); ++i) {
    spans[i].setStep(kj_text(m.spans[i].step));
    spans[i].setStartMs(m.spans[i].start_ms);
    spans[i].setMs(m.spans[i].ms);
  }
}

void write(Out e, const LeaseReturned& m) { put(e.initLeaseReturned(), m.lease); }
void write(Out e, const WorkerBye&) { e.setWorkerBye(); }

void write(Out e, const Welcome& m) {
  auto out = e.initWelcome();
  out.setCoordinatorId(kj_text(m.coordinator_id));
  out.setHeartbeatMs(m.heartbeat_ms);
  out.setSigningKey(kj_data(m.signing_key));
  out.setCompilerEpoch(kj_text(m.compiler_epoch));
  out.setTenant(kj_text(m.tenant));
  out.setProtocolVersion(m.protocol_version);
}

void write(Out e, const Task& m) {
  auto out = e.initTask();
  put(out.initLease(), m.lease);
  out.setAttempt(m.attempt);
  out.setDeadlineMs(m.deadline_ms);
  out.setPayload(kj_data(m.payload));
  put(out.initBlobs(m.blobs.size()), m.blobs);
  out.setJob(m.job);
  out.setReproducible(m.reproducible);
  out.setOnlyBuild(m.only_build);
}

void write(Out e, const Revoke& m) { put(e.initRevoke(), m.lease); }
void write(Out e, const DrainRequest&) { e.setDrainRequest(); }
void write(Out e, const BlobRequest& m) { put(e.initBlobRequest(), m.digest); }
void write(Out e, const Blob& m) { put(e.initBlob(), m.digest); }
void write(Out e, const BlobMissing& m) { put(e.initBlobMissing(), m.digest); }

void write(Out e, const Refused& m) {
  auto out = e.initRefused();
  out.setCode(static_cast<farm::Code>(m.code));
  out.setMessage(kj_text(clean_text(m.message)));
}

void write(Out e, const Ping& m) { e.setPing(m.number); }
void write(Out e, const Pong& m) { e.setPong(m.number); }

void write(Out e, const ClientHello& m) {
  auto out = e.initClientHello();
  out.setClientId(kj_text(m.client_id));
  out.setProtocolVersion(m.protocol_min);
  out.setBuild(kj_text(m.build));
  out.setProtocolMax(m.protocol_max);
}

void write(Out e, const Submit& m) {
  auto out = e.initSubmit();
  out.setRequestId(m.request_id);
  put(out.initGraphHash(), m.graph_hash);
  out.setTarget(kj_text(m.target));
  out.setPolicy(kj_text(m.policy));
  put(out.initGraph(), m.graph);
  out.setBudgetCandidates(m.budget_candidates);
  out.setBudgetMs(m.budget_ms);
  out.setSeed(m.seed);
  out.setMaxWaitMs(m.max_wait_ms);
  out.setInFlight(m.in_flight);
  out.setPriority(m.priority);
  out.setOnlyReverify(m.only_reverify);
  if (!m.name.empty()) out.setName(kj_text(m.name));
  if (!m.machine.empty()) out.setMachine(kj_text(m.machine));
  out.setForce(m.force);
}

void write(Out e, const CancelJob& m) { e.setCancelJob(m.job_id); }

void write(Out e, const PullPlan& m) {
  auto out = e.initPullPlan();
  out.setRequestId(m.request_id);
  put(out.initPlanKey(), m.plan_key);
  out.setWithObjects(m.with_objects);
  if (!m.machine.empty()) out.setMachine(kj_text(m.machine));
  out.setWatch(m.watch);
  if (!m.known.is_zero()) put(out.initKnown(), m.known);
  if (!m.graph_hash.is_zero()) put(out.initGraphHash(), m.graph_hash);
}

void write(Out e, const AskTrace& m) {
  auto out = e.initAskTrace();
  out.setRequestId(m.request_id);
  out.setJobId(m.job_id);
}

void write(Out e, const JobTrace& m) {
  auto out = e.initJobTrace();
  out.setRequestId(m.request_id);
  put(out.initTrace(), m.trace);
}

void write(Out e, const AskRevocations& m) {
  auto out = e.initAskRevocations();
  out.setRequestId(m.request_id);
  if (!m.known.is_zero()) put(out.initKnown(), m.known);
}

void write(Out e, const RevocationsAre& m) {
  auto out = e.initRevocations();
  out.setRequestId(m.request_id);
  if (!m.list.is_zero()) put(out.initList(), m.list);
}

void write(Out e, const StatusRequest& m) {
  auto out = e.initStatusRequest();
  out.setRequestId(m.request_id);
  out.setWhat(static_cast<farm::StatusRequest::What>(m.what));
  if (!m.begins.empty()) out.setBegins(kj_text(m.begins));
  if (!m.after.empty()) out.setAfter(kj_text(m.after));
}

void write(Out e, const Accepted& m) {
  auto out = e.initAccepted();
  out.setRequestId(m.request_id);
  out.setJobId(m.job_id);
  out.setJoined(m.joined);
}

void write(Out e, const Progress& m) {
  auto out = e.initProgress();
  out.setJobId(m.job_id);
  out.setStage(kj_text(m.stage));
  out.setCandidatesDone(m.candidates_done);
  out.setCandidatesTotal(m.candidates_total);
  out.setBestNs(m.best_ns);
  out.setBaselineNs(m.baseline_ns);
  out.setElapsedMs(m.elapsed_ms);
  out.setWorkers(m.workers);
  out.setExpectedNs(m.expected_ns);
  if (!m.trouble.empty()) out.setTrouble(kj_text(clean_text(m.trouble)));
}

void write(Out e, const PlanReady& m) {
  auto out = e.initPlanReady();
  out.setRequestId(m.request_id);
  out.setJobId(m.job_id);
  put(out.initPlanKey(), m.plan_key);
  put(out.initPlan(), m.plan);
  out.setCache(static_cast<farm::PlanReady::Cache>(m.cache));
  out.setCandidates(m.candidates);
  out.setBestNs(m.best_ns);
  out.setBaselineNs(m.baseline_ns);
  out.setElapsedMs(m.elapsed_ms);
  if (!m.revocations.is_zero()) put(out.initRevocations(), m.revocations);
  auto reuse = out.initReuse();
  reuse.setKernels(m.reuse.kernels);
  reuse.setKnownKernels(m.reuse.known_kernels);
  reuse.setRegions(m.reuse.regions);
  reuse.setKnownRegions(m.reuse.known_regions);
  reuse.setWorkerMs(m.reuse.worker_ms);
  reuse.setSavedMs(m.reuse.saved_ms);
  auto stages = out.initBreakdown(m.breakdown.size());
  for (size_t i = 0; i < m.breakdown.size(); ++i) {
    stages[i].setStage(kj_text(m.breakdown[i].stage));
    stages[i].setMs(m.breakdown[i].ms);
  }
  if (!m.note.empty()) out.setNote(kj_text(clean_text(m.note)));
  out.setStanding(static_cast<farm::Standing>(m.standing));
  if (m.parts.empty()) return;
  auto parts = out.initParts(static_cast<unsigned>(m.parts.size()));
  for (unsigned i = 0; i < parts.size(); ++i) {
    put(parts[i].initDigest(), m.parts[i].digest);
    parts[i].setBytes(m.parts[i].bytes);
  }
}

void write(Out e, const PlanNews& m) {
  auto out = e.initPlanNews();
  put(out.initPlanKey(), m.plan_key);
  if (!m.machine.empty()) out.setMachine(kj_text(m.machine));
  put(out.initPlan(), m.plan);
  out.setStanding(static_cast<farm::Standing>(m.standing));
  out.setBestNs(m.best_ns);
  out.setBaselineNs(m.baseline_ns);
}

void write(Out e, const JobFailed& m) {
  auto out = e.initJobFailed();
  out.setRequestId(m.request_id);
  out.setJobId(m.job_id);
  out.setCode(static_cast<farm::Code>(m.code));
  out.setMessage(kj_text(clean_text(m.message)));
  if (!m.endpoint.empty()) out.setEndpoint(kj_text(m.endpoint));
  if (!m.server_key.empty()) out.setServerKey(kj_text(m.server_key));
  out.setAgainMs(m.again_ms);
}

void write(Out e, const PlanMissing& m) { e.setPlanMissing(m.request_id); }

void write(Out e, const StatusReply& m) {
  auto out = e.initStatusReply();
  out.setRequestId(m.request_id);
  out.setJson(kj_text(m.json));
}

void write(Out e, const RevokePlan& m) {
  auto out = e.initRevokePlan();
  out.setRequestId(m.request_id);
  put(out.initId(), m.id);
  out.setReason(kj_text(m.reason));
  if (!m.rule.is_none()) put(out.initRule(), m.rule);
}

void write(Out e, const PlanRevoked& m) {
  auto out = e.initPlanRevoked();
  out.setRequestId(m.request_id);
  put(out.initPlans(m.plans.size()), m.plans);
}

void write(Out e, const JobCancelled& m) { e.setJobCancelled(m.job_id); }

void write(Out e, const ImportPlans& m) {
  auto out = e.initImportPlans();
  out.setRequestId(m.request_id);
  put(out.initPlans(m.plans.size()), m.plans);
  out.setSigner(kj_data(m.signer));
  if (!m.revocations.is_zero()) put(out.initRevocations(), m.revocations);
}

void write(Out e, const PublishPlan& m) {
  auto out = e.initPublishPlan();
  out.setRequestId(m.request_id);
  put(out.initPlanKey(), m.plan_key);
  auto tenants = out.initTenants(m.tenants.size());
  for (size_t i = 0; i < m.tenants.size(); ++i) tenants.set(i, kj_text(m.tenants[i]));
  out.setWithdraw(m.withdraw);
}

void write(Out e, const Reverify& m) { e.initReverify().setRequestId(m.request_id); }

void write(Out e, const PlansChanged& m) {
  auto out = e.initPlansChanged();
  out.setRequestId(m.request_id);
  put(out.initPlans(m.plans.size()), m.plans);
}

// ---- Envelopes to values -----------------------------------------------------------------------

WorkerHello read(farm::WorkerHello::Reader in) {
  return {get(in.getWorkerId()),   get(in.getTarget()),  in.getSlots(),
          in.getProtocolVersion(), get(in.getBuild()),   in.getProtocolMax(),
          get(in.getToolchain()),  get(in.getMachine()), in.getReproducible()};
}

Heartbeat read(farm::Heartbeat::Reader in) {
  auto leases = in.getLeases();
  check_count(leases, kLeasesMax, "leases");
  Heartbeat m;
  m.leases.reserve(leases.size());
  for (auto lease : leases) m.leases.push_back(get(lease));
  return m;
}

TaskResult read(farm::TaskResult::Reader in) {
  TaskResult m{get(in.getLease()),
               get_enum(in.getOutcome(), TaskOutcome::kInfra, "task outcome"),
               get(in.getMessage()),
               get(in.getReport()),
               get(in.getBlobs()),
               in.getBusyMs(),
               {}};
  check_count(in.getSpans(), kTaskSpansMax, "spans");
  for (auto span : in.getSpans()) {
    m.spans.push_back({get(span.getStep()), span.getStartMs(), span.getMs()});
  }
  return m;
}

PublicKey get_public_key(capnp::Data::Reader in) {
  PublicKey key;
  if (in.size() != key.size()) {
    throw Malformed{cat("a signing key of ", in.size(), " bytes; it has 32")};
  }
  std::memcpy(key.data(), in.begin(), in.size());
  return key;
}

Welcome read(farm::Welcome::Reader in) {
  Welcome m;
  m.coordinator_id = get(in.getCoordinatorId());
  m.heartbeat_ms = in.getHeartbeatMs();
  m.signing_key = get_public_key(in.getSigningKey());
  m.compiler_epoch = get(in.getCompilerEpoch());
  m.tenant = get(in.getTenant());
  m.protocol_version = in.getProtocolVersion();
  return m;
}

Task read(farm::Task::Reader in) {
  return {get(in.getLease()), in.getAttempt(), in.getDeadlineMs(),   get(in.getPayload()),
          get(in.getBlobs()), in.getJob(),     in.getReproducible(), in.getOnlyBuild()};
}

Refused read(farm::Refused::Reader in) { return {get(in.getCode()), get(in.getMessage())}; }

ClientHello read(farm::ClientHello::Reader in) {
  return {get(in.getClientId()), in.getProtocolVersion(), get(in.getBuild()), in.getProtocolMax()};
}

Submit read(farm::Submit::Reader in) {
  Submit m;
  m.request_id = in.getRequestId();
  m.graph_hash = get(in.getGraphHash());
  m.target = get(in.getTarget());
  m.policy = get(in.getPolicy());
  m.graph = get(in.getGraph());
  m.budget_candidates = in.getBudgetCandidates();
  m.budget_ms = in.getBudgetMs();
  m.seed = in.getSeed();
  m.max_wait_ms = in.getMaxWaitMs();
  m.in_flight = in.getInFlight();
  m.priority = in.getPriority();
  m.only_reverify = in.getOnlyReverify();
  m.name = get(in.getName());
  m.machine = get(in.getMachine());
  m.force = in.getForce();
  return m;
}

PullPlan read(farm::PullPlan::Reader in) {
  return {in.getRequestId(),
          get(in.getPlanKey()),
          in.getWithObjects(),
          get(in.getMachine()),
          in.getWatch(),
          in.hasKnown() ? get(in.getKnown()) : Digest{},
          in.hasGraphHash() ? get(in.getGraphHash()) : Digest{}};
}

AskRevocations read(farm::AskRevocations::Reader in) {
  return {in.getRequestId(), in.hasKnown() ? get(in.getKnown()) : Digest{}};
}

RevocationsAre read(farm::Revocations::Reader in) {
  return {in.getRequestId(), in.hasList() ? get(in.getList()) : Digest{}};
}

JobTrace read(farm::JobTrace::Reader in) { return {in.getRequestId(), get(in.getTrace())}; }

StatusRequest read(farm::StatusRequest::Reader in) {
  return {in.getRequestId(), get_enum(in.getWhat(), StatusTopic::kPlans, "status topic"),
          get(in.getBegins()), get(in.getAfter())};
}

Accepted read(farm::Accepted::Reader in) {
  return {in.getRequestId(), in.getJobId(), in.getJoined()};
}

Progress read(farm::Progress::Reader in) {
  Progress m;
  m.job_id = in.getJobId();
  m.stage = get(in.getStage());
  m.candidates_done = in.getCandidatesDone();
  m.candidates_total = in.getCandidatesTotal();
  m.best_ns = in.getBestNs();
  m.baseline_ns = in.getBaselineNs();
  m.elapsed_ms = in.getElapsedMs();
  m.workers = in.getWorkers();
  m.expected_ns = in.getExpectedNs();
  m.trouble = get(in.getTrouble());
  return m;
}

PlanReady read(farm::PlanReady::Reader in) {
  PlanReady m;
  m.request_id = in.getRequestId();
  m.job_id = in.getJobId();
  m.plan_key = get(in.getPlanKey());
  m.plan = get(in.getPlan());
  m.cache = get_enum(in.getCache(), CacheOutcome::kMiss, "cache outcome");
  m.candidates = in.getCandidates();
  m.best_ns = in.getBestNs();
  m.baseline_ns = in.getBaselineNs();
  m.elapsed_ms = in.getElapsedMs();
  auto stages = in.getBreakdown();
  check_count(stages, kStagesMax, "stages");
  m.breakdown.reserve(stages.size());
  for (auto stage : stages) m.breakdown.push_back({get(stage.getStage()), stage.getMs()});
  if (in.hasRevocations()) m.revocations = get(in.getRevocations());
  m.note = get(in.getNote());
  auto reuse = in.getReuse();
  m.reuse = {reuse.getKernels(),      reuse.getKnownKernels(), reuse.getRegions(),
             reuse.getKnownRegions(), reuse.getWorkerMs(),     reuse.getSavedMs()};
  auto parts = in.getParts();
  check_count(parts, kDigestsMax, "parts");
  m.parts.reserve(parts.size());
  for (auto part : parts) m.parts.push_back({get(part.getDigest()), part.getBytes()});
  m.standing = get_enum(in.getStanding(), Standing::kNeighbour, "standing");
  return m;
}

PlanNews read(farm::PlanNews::Reader in) {
  PlanNews m;
  m.plan_key = get(in.getPlanKey());
  m.machine = get(in.getMachine());
  m.plan = get(in.getPlan());
  m.standing = get_enum(in.getStanding(), Standing::kNeighbour, "standing");
  m.best_ns = in.getBestNs();
  m.baseline_ns = in.getBaselineNs();
  return m;
}

JobFailed read(farm::JobFailed::Reader in) {
  return {in.getRequestId(),     in.getJobId(),          get(in.getCode()), get(in.getMessage()),
          get(in.getEndpoint()), get(in.getServerKey()), in.getAgainMs()};
}

StatusReply read(farm::StatusReply::Reader in) { return {in.getRequestId(), get(in.getJson())}; }

RevokePlan read(farm::RevokePlan::Reader in) {
  RevokePlan m{in.getRequestId(), get(in.getId()), get(in.getReason()), {}};
  if (in.hasRule()) m.rule = get_rule(in.getRule());
  return m;
}

ImportPlans read(farm::ImportPlans::Reader in) {
  ImportPlans m{in.getRequestId(), get(in.getPlans()), get_public_key(in.getSigner()), {}};
  if (in.hasRevocations()) m.revocations = get(in.getRevocations());
  return m;
}

PublishPlan read(farm::PublishPlan::Reader in) {
  PublishPlan m{in.getRequestId(), get(in.getPlanKey()), {}, in.getWithdraw()};
  auto tenants = in.getTenants();
  check_count(tenants, kTenantsMax, "tenants");
  for (auto tenant : tenants) m.tenants.push_back(get(tenant));
  return m;
}

// Long because every message has its line.
Message read(farm::Envelope::Reader e) {
  using Kind = farm::Envelope;
  switch (e.which()) {
    case Kind::WORKER_HELLO:
      return read(e.getWorkerHello());
    case Kind::CREDIT:
      return Credit{e.getCredit().getCount()};
    case Kind::HEARTBEAT:
      return read(e.getHeartbeat());
    case Kind::TASK_RESULT:
      return read(e.getTaskResult());
    case Kind::LEASE_RETURNED:
      return LeaseReturned{get(e.getLeaseReturned())};
    case Kind::WORKER_BYE:
      return WorkerBye{};
    case Kind::WELCOME:
      return read(e.getWelcome());
    case Kind::TASK:
      return read(e.getTask());
    case Kind::REVOKE:
      return Revoke{get(e.getRevoke())};
    case Kind::DRAIN_REQUEST:
      return DrainRequest{};
    case Kind::BLOB_REQUEST:
      return BlobRequest{get(e.getBlobRequest())};
    case Kind::BLOB:
      return Blob{get(e.getBlob())};
    case Kind::BLOB_MISSING:
      return BlobMissing{get(e.getBlobMissing())};
    case Kind::REFUSED:
      return read(e.getRefused());
    case Kind::PING:
      return Ping{e.getPing()};
    case Kind::PONG:
      return Pong{e.getPong()};
    case Kind::CLIENT_HELLO:
      return read(e.getClientHello());
    case Kind::SUBMIT:
      return read(e.getSubmit());
    case Kind::CANCEL_JOB:
      return CancelJob{e.getCancelJob()};
    case Kind::PULL_PLAN:
      return read(e.getPullPlan());
    case Kind::STATUS_REQUEST:
      return read(e.getStatusRequest());
    case Kind::ACCEPTED:
      return read(e.getAccepted());
    case Kind::PROGRESS:
      return read(e.getProgress());
    case Kind::PLAN_READY:
      return read(e.getPlanReady());
    case Kind::JOB_FAILED:
      return read(e.getJobFailed());
    case Kind::PLAN_MISSING:
      return PlanMissing{e.getPlanMissing()};
    case Kind::STATUS_REPLY:
      return read(e.getStatusReply());
    case Kind::REVOKE_PLAN:
      return read(e.getRevokePlan());
    case Kind::PLAN_REVOKED: {
      auto in = e.getPlanRevoked();
      return PlanRevoked{in.getRequestId(), get(in.getPlans())};
    }
    case Kind::JOB_CANCELLED:
      return JobCancelled{e.getJobCancelled()};
    case Kind::IMPORT_PLANS:
      return read(e.getImportPlans());
    case Kind::PUBLISH_PLAN:
      return read(e.getPublishPlan());
    case Kind::REVERIFY:
      return Reverify{e.getReverify().getRequestId()};
    case Kind::PLANS_CHANGED: {
      auto in = e.getPlansChanged();
      return PlansChanged{in.getRequestId(), get(in.getPlans())};
    }
    case Kind::ASK_REVOCATIONS:
      return read(e.getAskRevocations());
    case Kind::REVOCATIONS:
      return read(e.getRevocations());
    case Kind::ASK_TRACE:
      return AskTrace{e.getAskTrace().getRequestId(), e.getAskTrace().getJobId()};
    case Kind::JOB_TRACE:
      return read(e.getJobTrace());
    case Kind::PLAN_NEWS:
      return read(e.getPlanNews());
  }
  throw Malformed{cat("a message of unknown kind ", static_cast<int>(e.which()),
                      "; the sender is newer, update this side")};
}

// By which peers without a version in common still learn so. They are read in any version, and so
// never change their meaning.
bool is_for_all_versions(farm::Envelope::Which kind) {
  using Kind = farm::Envelope;
  return kind == Kind::WORKER_HELLO || kind == Kind::CLIENT_HELLO || kind == Kind::REFUSED;
}

Result<Message> read_envelope(farm::Envelope::Reader envelope, const ProtocolRange& spoken,
                              uint32_t* version) {
  *version = envelope.getProtocolVersion();
  if (!spoken.holds(*version) && !is_for_all_versions(envelope.which())) {
    return unsupported(cat("message of protocol ", *version, " from build ",
                           clean_text(get(envelope.getBuild()).substr(0, kNameBytesMax)),
                           "; this side (", build_name(), ") speaks ", text_of(spoken), ": update ",
                           *version > spoken.max ? "this side" : "the sender"));
  }
  Message message = read(envelope);
  if (introduced_in(message) > *version) {
    return invalid_input(
        cat(message_name(message), " in a message of protocol ", *version, ", which has none"));
  }
  LFARM_RETURN_IF_ERROR(validate(message));
  return message;
}

}  // namespace

std::string_view build_name() { return LFARM_BUILD_NAME; }

// The first segment is made so large that almost every message is built in one piece.
Bytes encode(const Message& message, uint32_t version) {
  LFARM_CHECK(introduced_in(message) <= version, message_name(message));
  size_t words = envelope_bytes_about(message) / sizeof(capnp::word) + 1;
  capnp::MallocMessageBuilder builder(static_cast<unsigned>(words));
  auto envelope = builder.initRoot<farm::Envelope>();
  envelope.setProtocolVersion(version);
  envelope.setBuild(LFARM_BUILD_NAME);
  std::visit([&](const auto& value) { write(envelope, value); }, message);
  return flatten(builder);
}

Result<Message> decode(ByteView envelope, const ProtocolRange& spoken, uint32_t* version) {
  uint32_t found = 0;
  auto message = decode_flat<Message, farm::Envelope>(
      envelope, "message", kEnvelopeBytesMax, kNestingMax,
      [&](farm::Envelope::Reader reader) { return read_envelope(reader, spoken, &found); });
  if (version != nullptr) *version = found;
  return message;
}

}  // namespace common
