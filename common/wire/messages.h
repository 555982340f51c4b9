// The farm's messages as plain values. What each means on the wire is said in schemas/farm.capnp.
//
// A conversation: the peer connects and says WorkerHello or ClientHello; the coordinator answers
// Welcome. A peer that gets Refused with kUnavailable to anything else says its hello again: the
// coordinator does not know this connection, because it or the connection is new. Ping may be sent
// before a hello.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/outcome.h"
#include "common/base/result.h"
#include "common/base/signing.h"
#include "common/plan/revocation_rule.h"
#include "common/wire/limits.h"

namespace common {

// ---- Worker to coordinator ---------------------------------------------------------------------

struct WorkerHello {
  std::string worker_id;
  std::string target;
  uint32_t slots = 1;
  uint32_t protocol_min = kProtocolsSpoken.min;
  std::string build;
  uint32_t protocol_max = kProtocolsSpoken.max;  // 0: the same as the lowest
  std::string toolchain = {};  // what makes its machine code, for people and provenance
  std::string machine = {};    // machine class: what its times hold for; empty: not known
  bool reproducible = false;   // it heeds Task::reproducible and Task::only_build
  friend bool operator==(const WorkerHello&, const WorkerHello&) = default;
};

// Room for `count` more tasks.
struct Credit {
  uint32_t count = 0;
  friend bool operator==(const Credit&, const Credit&) = default;
};

// A task in one of its leases; every new lease of a task has a higher epoch.
struct TaskLease {
  uint64_t task_id = 0;
  uint64_t epoch = 0;
  friend auto operator<=>(const TaskLease&, const TaskLease&) = default;
};

// Every lease the worker still works on.
struct Heartbeat {
  std::vector<TaskLease> leases;
  friend bool operator==(const Heartbeat&, const Heartbeat&) = default;
};

// A part of what a worker does with a task: "fetch", "compile", "wait", "run", "verify", "measure".
// Spans nest or follow each other.
struct TaskSpan {
  std::string step;
  double start_ms = 0;  // since the task came
  double ms = 0;
  friend bool operator==(const TaskSpan&, const TaskSpan&) = default;
};

struct TaskResult {
  TaskLease lease;
  TaskOutcome outcome = TaskOutcome::kOk;
  std::string message;               // diagnostics; cut to kTextBytesMax on encoding
  Bytes report;                      // an encoded TaskReport (common/wire/ir_codec.h) when kOk
  std::vector<Digest> blobs;         // the report's blobs; the coordinator requests those it lacks
  double busy_ms = 0;                // what compiling, verifying and measuring took
  std::vector<TaskSpan> spans = {};  // what of it took how long; empty from who does not say
  friend bool operator==(const TaskResult&, const TaskResult&) = default;
};

// The worker gives the lease back untouched.
struct LeaseReturned {
  TaskLease lease;
  friend bool operator==(const LeaseReturned&, const LeaseReturned&) = default;
};

// The worker holds no lease any more and goes away on purpose.
struct WorkerBye {
  friend bool operator==(const WorkerBye&, const WorkerBye&) = default;
};

// ---- Coordinator to worker ---------------------------------------------------------------------

// Answers both hellos.
struct Welcome {
  std::string coordinator_id;  // new at every start of the coordinator
  uint32_t heartbeat_ms = 0;
  PublicKey signing_key{};     // plans of this farm are signed under it
  std::string compiler_epoch;  // part of the plan key: rules, code generator, toolchain
  std::string tenant;          // whom the farm takes this connection for
  uint32_t protocol_version = kProtocolVersion;  // to be spoken from now on
  friend bool operator==(const Welcome&, const Welcome&) = default;
};

struct Task {
  TaskLease lease;
  uint32_t attempt = 1;
  uint32_t deadline_ms = 0;   // from receipt
  Bytes payload;              // an encoded TaskPayload (common/wire/ir_codec.h)
  std::vector<Digest> blobs;  // needed by the payload; the worker requests those it lacks
  uint64_t job = 0;           // that it is part of, for the log; 0: not said
  // Objects hold kernels of this program alone: all workers of a toolchain make the same bytes.
  bool reproducible = false;
  bool only_build = false;  // report kernels and objects, run nothing
  friend bool operator==(const Task&, const Task&) = default;
};

// The lease is void: stop, its result would be refused.
struct Revoke {
  TaskLease lease;
  friend bool operator==(const Revoke&, const Revoke&) = default;
};

struct DrainRequest {
  friend bool operator==(const DrainRequest&, const DrainRequest&) = default;
};

// ---- Anyone ------------------------------------------------------------------------------------

struct BlobRequest {
  Digest digest;
  friend bool operator==(const BlobRequest&, const BlobRequest&) = default;
};

// The bytes are in the packet's blob frame (common/wire/socket.h).
struct Blob {
  Digest digest;
  friend bool operator==(const Blob&, const Blob&) = default;
};

// Answers a BlobRequest for bytes that this side does not hold.
struct BlobMissing {
  Digest digest;
  friend bool operator==(const BlobMissing&, const BlobMissing&) = default;
};

// The last message was not accepted and had no effect.
struct Refused {
  Code code = Code::kInternal;
  std::string message;  // cut to kTextBytesMax on encoding
  friend bool operator==(const Refused&, const Refused&) = default;
};

struct Ping {
  uint64_t number = 0;
  friend bool operator==(const Ping&, const Ping&) = default;
};

struct Pong {
  uint64_t number = 0;
  friend bool operator==(const Pong&, const Pong&) = default;
};

// ---- Client to coordinator ---------------------------------------------------------------------

struct ClientHello {
  std::string client_id;
  uint32_t protocol_min = kProtocolsSpoken.min;
  std::string build;
  uint32_t protocol_max = kProtocolsSpoken.max;  // 0: the same as the lowest
  friend bool operator==(const ClientHello&, const ClientHello&) = default;
};

// Budgets of 0 are no limit of that kind. The packet may carry the graph as its blob frame.
// As many candidates in flight as the target's workers have slots when the job begins.
inline constexpr uint32_t kInFlightAuto = 0xffffffff;
inline constexpr uint32_t kInFlightMax = 64;
inline constexpr uint32_t kPriorityDefault = 10;
inline constexpr uint32_t kPriorityMax = 100;

struct Submit {
  uint64_t request_id = 0;
  Digest graph_hash;
  std::string target;  // or its family, or "": any CPU worker's
  std::string policy;  // numerics policy, text form
  Digest graph;        // blob with the encoded graph
  uint64_t budget_candidates = 0;
  uint64_t budget_ms = 0;
  uint64_t seed = 0;
  uint64_t max_wait_ms = 0;  // longest time without a worker of the target; 0: the farm's default
  uint32_t in_flight = 0;    // candidates sent before a result must be known; 0: 12
  uint32_t priority = kPriorityDefault;  // 1 to kPriorityMax: share among the tenant's jobs
  bool only_reverify = false;            // no search after a plan of another epoch was made anew
  std::string name = {};                 // what people call the model, in one line; may be empty
  std::string machine =
      {};              // machine class to choose for; empty: that of most workers of the target
  bool force = false;  // search on although the cached plan was given as much
  friend bool operator==(const Submit&, const Submit&) = default;
};

struct CancelJob {
  uint64_t job_id = 0;
  friend bool operator==(const CancelJob&, const CancelJob&) = default;
};

struct PullPlan {
  uint64_t request_id = 0;
  Digest plan_key;
  bool with_objects = false;  // the client has none of them: they may come with the answer
  std::string machine = {};   // the client's machine class; empty: any
  bool watch = false;         // send PlanNews from now on
  Digest known = {};          // the plan that the client has; zero: none
  Digest graph_hash = {};     // of the plan key; zero: not said
  friend bool operator==(const PullPlan&, const PullPlan&) = default;
};

// What the farm has revoked, for who knows the list `known` (zero: none).
struct AskRevocations {
  uint64_t request_id = 0;
  Digest known;
  friend bool operator==(const AskRevocations&, const AskRevocations&) = default;
};

// What a job's time went on, of a job of the asker's tenant, or an administrator's of any. Answered
// with JobTrace or JobFailed.
struct AskTrace {
  uint64_t request_id = 0;
  uint64_t job_id = 0;
  friend bool operator==(const AskTrace&, const AskTrace&) = default;
};

enum class StatusTopic { kStatus, kWorkers, kJobs, kCache, kPlans };

struct StatusRequest {
  uint64_t request_id = 0;
  StatusTopic what = StatusTopic::kStatus;
  std::string begins = {};  // of kPlans: hexadecimal digits of plans' ids, keys or graphs
  std::string after = {};   // "next" of the page before; empty: the first page of the topic's list
  friend bool operator==(const StatusRequest&, const StatusRequest&) = default;
};

// Administrators only. The farm serves the plan no more, and tells whoever pulls from it.
struct RevokePlan {
  uint64_t request_id = 0;
  Digest id;  // a plan's, or a plan key; zero: plans that were made as `rule` says
  std::string reason;
  RevocationRule rule = {};
  friend bool operator==(const RevokePlan&, const RevokePlan&) = default;
};

// Administrators only. Answered with PlansChanged or JobFailed, as the next two. The farm requests
// the blobs that it lacks and takes all plans or none, as the asker's tenant's.
struct ImportPlans {
  uint64_t request_id = 0;
  std::vector<Digest> plans;  // blobs with signed plans
  PublicKey signer{};         // of all of them: what the asker trusts
  Digest revocations;         // blob with the signer's RevocationList; zero: none comes along
  friend bool operator==(const ImportPlans&, const ImportPlans&) = default;
};

// Lets other tenants have a plan of the asker's tenant.
struct PublishPlan {
  uint64_t request_id = 0;
  Digest plan_key;
  std::vector<std::string> tenants;  // empty: all
  bool withdraw = false;             // nobody new gets it; who has it keeps it
  friend bool operator==(const PublishPlan&, const PublishPlan&) = default;
};

// Makes plans of other compiler epochs anew: the asker's tenant's, an administrator's all.
struct Reverify {
  uint64_t request_id = 0;
  friend bool operator==(const Reverify&, const Reverify&) = default;
};

// ---- Coordinator to client ---------------------------------------------------------------------

struct Accepted {
  uint64_t request_id = 0;
  uint64_t job_id = 0;
  bool joined = false;  // another client's job already searches for this plan
  friend bool operator==(const Accepted&, const Accepted&) = default;
};

// Times of 0 are not yet known.
struct Progress {
  uint64_t job_id = 0;
  std::string stage;
  uint64_t candidates_done = 0;
  uint64_t candidates_total = 0;  // 0: the budget is a time
  uint64_t best_ns = 0;           // of the best whole program that was measured; never rises
  uint64_t baseline_ns = 0;
  uint64_t elapsed_ms = 0;
  uint32_t workers = 0;
  uint64_t expected_ns = 0;  // that the best parts found so far will take as a whole program
  std::string trouble;       // why the farm's disk takes no writes; empty: it takes them
  friend bool operator==(const Progress&, const Progress&) = default;
};

enum class CacheOutcome { kHit, kPartial, kMiss };
// "hit", "partial", "miss".
const char* cache_outcome_name(CacheOutcome outcome);

struct StageTime {
  std::string stage;
  double ms = 0;
  friend bool operator==(const StageTime&, const StageTime&) = default;
};

// How far a plan can be expected to be replaced (schemas/farm.capnp).
enum class Standing {
  kFinal,      // its search has ended, on the machine class that was asked for
  kInterim,    // its search goes on, or was cut off
  kNeighbour,  // it was chosen on another machine class
};
// "final", "interim", "neighbour".
const char* standing_name(Standing standing);

// A piece of a blob frame that holds several.
struct BlobPart {
  Digest digest;
  uint64_t bytes = 0;
  friend bool operator==(const BlobPart&, const BlobPart&) = default;
};

// Answers Submit (when its job is done) and PullPlan. The packet may carry the plan as its blob.
// What a job found in the cache instead of searching for it. All 0 for a plan that was there.
struct Reuse {
  uint64_t kernels = 0;        // of the plan
  uint64_t known_kernels = 0;  // that an earlier job had compiled and measured
  uint64_t regions = 0;        // of the graph
  uint64_t known_regions = 0;  // that an earlier job had searched as thoroughly
  uint64_t worker_ms = 0;      // what workers took for this job,
  uint64_t saved_ms = 0;       // and for earlier ones to find the known regions' programs
  friend bool operator==(const Reuse&, const Reuse&) = default;
};

struct PlanReady {
  uint64_t request_id = 0;
  uint64_t job_id = 0;  // 0 when no job was needed
  Digest plan_key;
  Digest plan;  // blob with the signed plan
  CacheOutcome cache = CacheOutcome::kMiss;
  uint64_t candidates = 0;
  uint64_t best_ns = 0;
  uint64_t baseline_ns = 0;
  uint64_t elapsed_ms = 0;
  std::vector<StageTime> breakdown;
  Digest revocations;  // blob with the farm's signed RevocationList; zero: nothing is revoked
  std::string note;    // for people: why the search ended early, or that it goes on
  Reuse reuse;
  // Of the packet's blob: the plan and its objects, each at the next multiple of kPartAlignment.
  // Empty: the blob is the plan alone.
  std::vector<BlobPart> parts;
  Standing standing = Standing::kFinal;
  friend bool operator==(const PlanReady&, const PlanReady&) = default;
};

// To a client that watches the key: the plan under it is another one now. The client pulls it.
struct PlanNews {
  Digest plan_key;
  std::string machine;  // as the client asked for it
  Digest plan;          // blob with the signed plan
  Standing standing = Standing::kFinal;
  uint64_t best_ns = 0;
  uint64_t baseline_ns = 0;
  friend bool operator==(const PlanNews&, const PlanNews&) = default;
};

struct JobFailed {
  uint64_t request_id = 0;
  uint64_t job_id = 0;  // 0 when it failed before it became a job
  Code code = Code::kInternal;
  std::string message;          // cut to kTextBytesMax on encoding
  std::string endpoint = {};    // of the coordinator to ask instead; empty: none
  std::string server_key = {};  // its public key, where it has one
  uint32_t again_ms = 0;        // ask again after so long; 0: do not
  friend bool operator==(const JobFailed&, const JobFailed&) = default;
};

// Answers a PullPlan whose key the cache does not hold.
struct PlanMissing {
  uint64_t request_id = 0;
  friend bool operator==(const PlanMissing&, const PlanMissing&) = default;
};

struct StatusReply {
  uint64_t request_id = 0;
  std::string json;
  friend bool operator==(const StatusReply&, const StatusReply&) = default;
};

struct PlanRevoked {
  uint64_t request_id = 0;
  std::vector<Digest> plans;  // one, or those that tenants have under the key
  friend bool operator==(const PlanRevoked&, const PlanRevoked&) = default;
};

// Answers a CancelJob that had an effect.
struct JobCancelled {
  uint64_t job_id = 0;
  friend bool operator==(const JobCancelled&, const JobCancelled&) = default;
};

struct PlansChanged {
  uint64_t request_id = 0;
  std::vector<Digest> plans;  // kept, published, or being made anew
  friend bool operator==(const PlansChanged&, const PlansChanged&) = default;
};

// Answers AskRevocations. The packet carries the list unless it is the one that the client knows.
struct RevocationsAre {
  uint64_t request_id = 0;
  Digest list;  // zero: nothing is revoked
  friend bool operator==(const RevocationsAre&, const RevocationsAre&) = default;
};

// Answers AskTrace. The packet carries the trace: JSON in the format of Chrome's trace events.
struct JobTrace {
  uint64_t request_id = 0;
  Digest trace;
  friend bool operator==(const JobTrace&, const JobTrace&) = default;
};

using Message =
    std::variant<WorkerHello, Credit, Heartbeat, TaskResult, LeaseReturned, WorkerBye, Welcome,
                 Task, Revoke, DrainRequest, BlobRequest, Blob, BlobMissing, Refused, Ping, Pong,
                 ClientHello, Submit, CancelJob, PullPlan, StatusRequest, Accepted, Progress,
                 PlanReady, JobFailed, PlanMissing, StatusReply, RevokePlan, PlanRevoked,
                 JobCancelled, ImportPlans, PublishPlan, Reverify, PlansChanged, AskRevocations,
                 RevocationsAre, AskTrace, JobTrace, PlanNews>;

// The message's type name, such as "TaskResult", for logs and counters.
const char* message_name(const Message& message);

}  // namespace common
