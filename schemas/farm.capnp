@0xd1f8c2a65b7e9043;
# The farm's protocol: every message between workers, clients and the coordinator.
#
# A message on the wire is one frame that holds an Envelope and, where the message says so, a second
# frame with the raw bytes of one blob. Blobs never travel inside the envelope, so that a large one
# is neither copied into nor counted against it.
#
# Evolution: fields and union members are only ever added, with the next ordinal and a default that
# means what their absence meant. A new message, or a field that must not be overlooked, raises the
# protocol's version. Every peer speaks two versions, its own and the one before, and refuses all
# others by name before anything else is read:
# - a hello is said in the lower one and names both; it can be read whatever its version, and so can
#   a refusal; Welcome names the highest version that both sides speak, which the peer speaks from
#   then on;
# - the coordinator answers in the version of the peer's last message, a refusal too, so that who is
#   refused can read why;
# - a message is never sent in a version that lacks it (introduced_in, common/wire/codec.h).
#
# Version 2, the lowest that is spoken: protocolMax in hellos, protocolVersion in Welcome, jobCancelled, importPlans,
# publishPlan, reverify, plansChanged, withObjects in PullPlan, askRevocations, revocations, askTrace
# and jobTrace.
#
# Version 3: planNews; machine in WorkerHello, Submit and PullPlan; force in Submit; watch and known
# in PullPlan; standing in PlanReady.
#
# Limits on sizes and counts are in common/wire/limits.h; a message beyond them is refused whole.

using Cxx = import "/capnp/c++.capnp";
using import "/schemas/plan.capnp".Digest;
using import "/schemas/plan.capnp".RevocationRule;
$Cxx.namespace("schemas::farm");

struct Envelope {
  protocolVersion @0 :UInt32;
  # In which this message is written. Read first; the rest is only read when the reader speaks it.

  build @1 :Text;
  # The sender's version, for people. Never compared.

  union {
    # Worker to coordinator.
    workerHello @2 :WorkerHello;
    credit @3 :Credit;
    heartbeat @4 :Heartbeat;
    taskResult @5 :TaskResult;
    leaseReturned @6 :TaskLease;
    # The worker gives the lease back untouched, for example while it drains.
    workerBye @7 :Void;
    # The worker holds no lease any more and goes away on purpose.

    # Coordinator to worker.
    welcome @8 :Welcome;
    # Answers both hellos.
    task @9 :Task;
    revoke @10 :TaskLease;
    # The lease is void: its result would be refused.
    drainRequest @11 :Void;
    # Finish or return leases, then say workerBye. No new tasks come.

    # Anyone.
    blobRequest @12 :Digest;
    blob @13 :Digest;
    # The second frame holds the bytes, whose digest this is.
    blobMissing @14 :Digest;
    # Answers a blobRequest for bytes that the other side does not hold.
    refused @15 :Refused;
    ping @16 :UInt64;
    pong @17 :UInt64;
    # The number of the ping.

    # Client to coordinator.
    clientHello @18 :ClientHello;
    submit @19 :Submit;
    # A second frame may hold the graph blob, which saves the round trip of a blobRequest.
    cancelJob @20 :UInt64;
    # The job's id.
    pullPlan @21 :PullPlan;
    statusRequest @22 :StatusRequest;

    # Coordinator to client.
    accepted @23 :Accepted;
    progress @24 :Progress;
    planReady @25 :PlanReady;
    # A second frame may hold the plan's bytes, which saves the round trip of a blobRequest.
    jobFailed @26 :JobFailed;
    planMissing @27 :UInt64;
    # Answers a pullPlan whose key the cache does not hold; the number is its request id.
    statusReply @28 :StatusReply;

    # Client to coordinator, and the answer.
    revokePlan @29 :RevokePlan;
    planRevoked @30 :PlanRevoked;

    # Coordinator to client, since version 2.
    jobCancelled @31 :UInt64;
    # Answers a cancelJob that had an effect.

    # Client to coordinator, and the answer to all three, since version 2. What cannot be done is a
    # jobFailed of the request.
    importPlans @32 :ImportPlans;
    # The coordinator requests the blobs that it lacks; the client answers with blob.
    publishPlan @33 :PublishPlan;
    reverify @34 :Reverify;
    plansChanged @35 :PlansChanged;
    # Client to coordinator, and the answer, since version 2.
    askRevocations @36 :AskRevocations;
    revocations @37 :Revocations;
    # A second frame holds the list, where it is not the one that the client knows.
    # Client to coordinator, and the answer, since version 2. What cannot be had is a jobFailed of the
    # request.
    askTrace @38 :AskTrace;
    jobTrace @39 :JobTrace;
    # A second frame holds the trace.
    # Coordinator to client, since version 3.
    planNews @40 :PlanNews;
    # The plan under a key that the client watches (PullPlan.watch) is another one now.
  }
}

struct TaskLease {
  # A task in one of its leases. Each new lease of a task has a higher epoch, and only the current
  # epoch may report a result.
  taskId @0 :UInt64;
  epoch @1 :UInt64;
}

enum Code {
  # What the other side should do next; the same names as common::Code.
  invalidInput @0;
  unsupported @1;
  unavailable @2;
  verification @3;
  corrupt @4;
  timedOut @5;
  deviceSick @6;
  internal @7;
}

struct Refused {
  # The last message was not accepted. Nothing has happened because of it.
  code @0 :Code;
  message @1 :Text;
  # One line: what, where, what to do.
}

# ---- Workers ----------------------------------------------------------------------------------

struct WorkerHello {
  # First message on every connection. A worker that is told to say hello (Refused with unavailable)
  # repeats it: the coordinator has restarted or the connection is a new one.
  workerId @0 :Text;
  # Chosen by the worker, the same for its whole life.
  target @1 :Text;
  # What its device is, in the words of the plan key, such as "cuda-sm90" or "cpu-x86_64-avx512".
  slots @2 :UInt32;
  # How many tasks it is willing to hold at once; credits never exceed this.
  protocolVersion @3 :UInt32;
  # The lowest that it speaks.
  build @4 :Text;
  protocolMax @5 :UInt32;
  # The highest; 0: the same.
  toolchain @6 :Text;
  # What makes its machine code, for people and provenance: a compiler's version, a driver's.
  machine @7 :Text;
  # The machine class: what its measured times hold for, in one line of printable ASCII, such as
  # "AMD EPYC 7763, L2 512 KiB, L3 32 MiB, 2 threads". Workers of one class share measurements. Empty:
  # not known.
  reproducible @8 :Bool;
  # It heeds Task.reproducible and Task.onlyBuild.
}

struct Credit {
  # The worker takes this many more tasks. Without credit the coordinator sends none.
  count @0 :UInt32;
}

struct Heartbeat {
  # Sent every Welcome.heartbeatMs. Names every lease the worker still works on, which extends them;
  # a lease that the coordinator knows and the worker does not name has been lost.
  leases @0 :List(TaskLease);
}

enum Outcome {
  ok @0;
  compileError @1;
  wrong @2;
  # The outputs differ from the reference.
  crash @3;
  # The executor child died while it ran the candidate.
  hang @4;
  infra @5;
  # The worker's own fault. Says nothing about the candidate: the task runs again elsewhere.
}

struct TaskResult {
  lease @0 :TaskLease;
  outcome @1 :Outcome;
  message @2 :Text;
  # Diagnostics, cut to the limit.
  report @3 :Data;
  # A TaskReport of plan.capnp; empty unless the outcome is ok.
  blobs @4 :List(Digest);
  # Blobs that the report names and this worker holds. The coordinator requests those it lacks.
  busyMs @5 :Float64;
  # What compiling, verifying and measuring took, whatever came of it.
  spans @6 :List(TaskSpan);
  # What of it took how long, in the order in which it began. Empty from a worker that does not say.
}

struct TaskSpan {
  # A part of what a worker does with a task. Spans nest or follow each other.
  step @0 :Text;
  # "fetch", "compile", "wait", "run", "verify", "measure".
  startMs @1 :Float64;
  # Since the task came.
  ms @2 :Float64;
}

struct Welcome {
  coordinatorId @0 :Text;
  # New at every start, so that a peer notices a restart.
  heartbeatMs @1 :UInt32;
  signingKey @2 :Data;
  # Ed25519 public key, 32 bytes, under which this farm signs plans.
  compilerEpoch @3 :Text;
  # The part of the plan key that stands for rules, code generator and toolchain.
  tenant @4 :Text = "local";
  # Whom the farm takes this connection for.
  protocolVersion @5 :UInt32 = 1;
  # The highest that both sides speak.
}

struct Task {
  lease @0 :TaskLease;
  attempt @1 :UInt32;
  # 1 for the first.
  deadlineMs @2 :UInt32;
  # From receipt. The worker reports a hang itself before the coordinator would.
  payload @3 :Data;
  # A TaskPayload of plan.capnp.
  blobs @4 :List(Digest);
  # Blobs the payload needs. The worker requests those it lacks.
  job @5 :UInt64;
  # That the task is part of, for the worker's log. 0: of none, or not said.
  reproducible @6 :Bool;
  # Objects hold kernels of this program alone, so that another worker of the toolchain makes the same
  # bytes. Without it they are those that the worker compiled earlier, with kernels of other programs.
  onlyBuild @7 :Bool;
  # Compile the program and report kernels and objects; run nothing.
}

# ---- Clients ----------------------------------------------------------------------------------

struct ClientHello {
  clientId @0 :Text;
  protocolVersion @1 :UInt32;
  # The lowest that it speaks.
  build @2 :Text;
  protocolMax @3 :UInt32;
  # The highest; 0: the same.
}

struct Submit {
  requestId @0 :UInt64;
  # Chosen by the client; every answer names it.
  graphHash @1 :Digest;
  target @2 :Text;
  # Exact, or what a target begins with ("cuda"): that of the farm's workers of this family. Empty:
  # any CPU worker's.
  policy @3 :Text;
  # Numerics policy in its text form.
  graph @4 :Digest;
  # Blob with a Graph of ir.capnp.
  budgetCandidates @5 :UInt64;
  # 0: no limit of this kind.
  budgetMs @6 :UInt64;
  # 0: no limit of this kind.
  seed @7 :UInt64;
  maxWaitMs @8 :UInt64;
  # The job fails when no worker of the target has been there for this long. 0: the farm's default.
  inFlight @9 :UInt32;
  # Candidates that the search sends before it has to learn of the first one's result: the course of
  # a search depends on it. 0: as many as the target's workers have slots when the job begins, between
  # 12 and 64 and at most a fifth of the budget. 0xffffffff: the same whatever the budget.
  priority @10 :UInt32 = 10;
  # 1 to 100. Jobs of one tenant share the workers in proportion to it.
  onlyReverify @11 :Bool;
  # Where a plan of another compiler epoch is made anew, that is all: no search follows.
  name @12 :Text;
  # What people call the model: shown with the job, and part of no hash. Empty: nothing.
  machine @13 :Text;
  # The machine class that the plan is to be chosen for. Empty: that of most of the target's workers.
  force @14 :Bool;
  # Search on although the plan in the cache was given as much; the better of the two is kept.
}

struct PullPlan {
  requestId @0 :UInt64;
  planKey @1 :Digest;
  withObjects @2 :Bool;
  # The client has none of the plan's objects: they may come with the answer.
  machine @3 :Text;
  # The client's machine class. A plan of another class is given where there is none of this one, with
  # the standing of a neighbour. Empty: any class.
  watch @4 :Bool;
  # Send planNews from now on, for as long as the connection lasts.
  known @5 :Digest;
  # The plan that the client has: where it is still the one, the answer carries no second frame.
  graphHash @6 :Digest;
  # Of the plan key. Absent or zero: not said, and a coordinator that does not serve the graph's shard
  # answers with what its own store has.
}

enum Standing {
  # How far a plan can be expected to be replaced.
  final @0;
  # Its search has ended, on the machine class that was asked for.
  interim @1;
  # Its search goes on, or was cut off.
  neighbour @2;
  # It was chosen on another machine class, and is searched for again once a worker of the right class
  # is there.
}

struct PlanNews {
  planKey @0 :Digest;
  machine @1 :Text;
  # As the client asked for it.
  plan @2 :Digest;
  # Blob with the signed plan, which the client pulls.
  standing @3 :Standing;
  bestNs @4 :UInt64;
  baselineNs @5 :UInt64;
}

struct AskRevocations {
  requestId @0 :UInt64;
  known @1 :Digest;
  # The list that the client has; absent or zero: none.
}

struct Revocations {
  requestId @0 :UInt64;
  list @1 :Digest;
  # Of a signed RevocationList of plan.capnp; absent or zero while nothing is revoked.
}

struct AskTrace {
  requestId @0 :UInt64;
  jobId @1 :UInt64;
}

struct JobTrace {
  requestId @0 :UInt64;
  trace @1 :Digest;
  # Of a JSON text in the format of Chrome's trace events: what the job's time went on.
}

struct StatusRequest {
  enum What {
    status @0;
    workers @1;
    jobs @2;
    cache @3;
    plans @4;  # since protocol 3
  }
  requestId @0 :UInt64;
  what @1 :What;
  begins @2 :Text;
  # Of `plans`: those whose id, plan key or graph hash begins with these hexadecimal digits.
  after @3 :Text;
  # The page of the list behind the one whose "next" this is: of workers, of jobs, of plans without `begins`, of
  # tenants in `status` and `cache`. Empty: the first page. Earlier releases answer with the first page.
}

struct Accepted {
  requestId @0 :UInt64;
  jobId @1 :UInt64;
  joined @2 :Bool;
  # Another client's job already searches for this plan; both get its result.
}

struct Progress {
  jobId @0 :UInt64;
  stage @1 :Text;
  candidatesDone @2 :UInt64;
  candidatesTotal @3 :UInt64;
  # 0: the budget is a time.
  bestNs @4 :UInt64;
  # Of the best whole program that was measured, so it never rises. 0: none was.
  baselineNs @5 :UInt64;
  # 0: not yet known.
  elapsedMs @6 :UInt64;
  workers @7 :UInt32;
  expectedNs @8 :UInt64;
  # That the best parts found so far will take as a whole program, an estimate. 0: not yet known.
  trouble @9 :Text;
  # Why the farm's disk takes no writes, for people. Empty: it takes them.
}

struct PlanReady {
  enum Cache {
    hit @0;
    partial @1;
    # Some regions or measurements came from the cache.
    miss @2;
  }
  struct StageTime {
    stage @0 :Text;
    ms @1 :Float64;
  }
  requestId @0 :UInt64;
  jobId @1 :UInt64;
  # 0 when no job was needed.
  planKey @2 :Digest;
  plan @3 :Digest;
  # Blob with a signed Plan of plan.capnp.
  cache @4 :Cache;
  candidates @5 :UInt64;
  bestNs @6 :UInt64;
  baselineNs @7 :UInt64;
  elapsedMs @8 :UInt64;
  breakdown @9 :List(StageTime);
  revocations @10 :Digest;
  # Blob with the farm's signed RevocationList of plan.capnp; absent or zero while nothing is revoked.
  note @11 :Text;
  # For people: why the search ended early, or that it goes on. Empty where there is nothing to say.
  struct Reuse {
    # What a job found in the cache instead of searching for it.
    kernels @0 :UInt64;
    # Of the plan.
    knownKernels @1 :UInt64;
    # That an earlier job had compiled and measured.
    regions @2 :UInt64;
    # Of the graph.
    knownRegions @3 :UInt64;
    # That an earlier job had searched as thoroughly.
    workerMs @4 :UInt64;
    # What workers took for this job's candidates.
    savedMs @5 :UInt64;
    # What they took in earlier jobs to find the known regions' programs.
  }
  reuse @12 :Reuse;
  # Absent or all 0 for a plan that was there.
  parts @13 :List(Part);
  # Of the second frame, each at the next multiple of 8 bytes: the plan and its objects, in the plan's
  # order. Empty: the frame is the plan alone. Only for who asked for them.
  standing @14 :Standing;

  struct Part {
    digest @0 :Digest;
    bytes @1 :UInt64;
  }
}

struct JobFailed {
  requestId @0 :UInt64;
  jobId @1 :UInt64;
  # 0 when it failed before it became a job.
  code @2 :Code;
  message @3 :Text;
  endpoint @4 :Text;
  # Of the coordinator that serves the graph's shard, and is to be asked instead. Empty: none is named.
  serverKey @5 :Text;
  # Its public key for transport security, where it has one.
  againMs @6 :UInt32;
  # The same question may be asked again after so long, as while a shard goes from one coordinator to
  # another. 0: that is of no use.
}

struct StatusReply {
  requestId @0 :UInt64;
  json @1 :Text;
}

struct RevokePlan {
  requestId @0 :UInt64;
  id @1 :Digest;
  # A plan's, or the plan key of whatever plan is kept under it. Zero where there is a rule.
  reason @2 :Text;
  rule @3 :RevocationRule;
  # Of what made the plans that are revoked; earlier releases refuse the message for its id.
}

struct PlanRevoked {
  requestId @0 :UInt64;
  plans @1 :List(Digest);
  # Which were revoked: one, or those that tenants have under the key.
}

struct ImportPlans {
  # Administrators only: the farm will vouch for machine code that another farm signed.
  requestId @0 :UInt64;
  plans @1 :List(Digest);
  # Blobs with signed plans of plan.capnp; they and their objects are kept whole or not at all, as
  # plans of the asker's tenant.
  signer @2 :Data;
  # Ed25519 public key, 32 bytes, that all of them are signed with: what the asker trusts.
  revocations @3 :Digest;
  # Blob with the signer's RevocationList; absent or zero: none comes along.
}

struct PublishPlan {
  # Lets other tenants have a plan of the asker's tenant.
  requestId @0 :UInt64;
  planKey @1 :Digest;
  tenants @2 :List(Text);
  # Empty: every tenant of the farm.
  withdraw @3 :Bool;
  # From now on nobody new gets it; who has it keeps it.
}

struct Reverify {
  # Makes plans of other compiler epochs anew: those of the asker's tenant, or an administrator's of
  # all tenants.
  requestId @0 :UInt64;
}

struct PlansChanged {
  requestId @0 :UInt64;
  plans @1 :List(Digest);
  # Ids of the plans that were kept, or published, or are being made anew.
}
