@0x9e07d45ab1c8f326;
# Kernel plans as they are signed, stored and pulled, and the tasks that find them.
#
# A plan's bytes are what the farm signs: they are never decoded and encoded again on their way. The
# values are those of common/plan/plan.h and common/wire/task.h.

using Cxx = import "/capnp/c++.capnp";
using Ir = import "/schemas/ir.capnp";
$Cxx.namespace("schemas::plan");

struct Digest {
  # 256 bits: the digest's 32 bytes as four little-endian numbers, in order.
  word0 @0 :UInt64;
  word1 @1 :UInt64;
  word2 @2 :UInt64;
  word3 @3 :UInt64;
}

struct PlanKey {
  graphHash @0 :Digest;
  target @1 :Text;
  policy @2 :Text;
  epoch @3 :Text;
}

struct GemmOperand {
  # Expression references.
  offset @0 :Int64;
  batchStride @1 :Int64;
  rowStride @2 :Int64;
  columnStride @3 :Int64;
}

struct GemmForm {
  dtype @0 :Ir.DType;
  batch @1 :Int64;
  # Expression references, as m, n and k.
  m @2 :Int64;
  n @3 :Int64;
  k @4 :Int64;
  a @5 :GemmOperand;
  b @6 :GemmOperand;
  out @7 :GemmOperand;
  aInput @8 :Int32;
  bInput @9 :Int32;
}

struct PlanKernel {
  fingerprint @0 :Digest;
  library @1 :Bool;
  gemm @2 :GemmForm;
  # Only where library is true.
  object @3 :Int32 = -1;
  entry @4 :Text;
  units @5 :Int64;
  # Expression references, as scratchBytes.
  scratchBytes @6 :Int64;
  inPlaceInput @7 :Int32 = -1;
  # Of the first output; for readers that know no inPlaceInputs.
  predictedNs @8 :Int64;
  # Of one call, before the kernel was first measured; 0: nothing was said.
  measuredNs @9 :Int64;
  # Of one call in the plan's run; 0: not measured by itself.
  blockThreads @10 :Int32;
  # 0: the device runs ranges of units, not blocks of threads.
  blockUnits @11 :Int64 = 1;
  blockSharedBytes @12 :Int64;
  algorithm @13 :UInt8;
  # Of those that the library lists for the product; the first where there are fewer.
  inPlaceInputs @14 :List(Int32);
  # One an output; -1: none.
  waits @15 :Bool;
  # The code begins by waiting for the kernels launched before it.
  startsFromBases @16 :Bool;
  # Outputs with an input in inPlaceInputs hold its content before a launch.
  maps @17 :List(Text);
  # Tensor maps that a launch passes, as common/plan/tensor_map.h prints them.
}

struct Provenance {
  bestNs @0 :Int64;
  baselineNs @1 :Int64;
  predictedNs @2 :Int64;
  candidates @3 :Int64;
  seed @4 :UInt64;
  createdNs @5 :Int64;
  farm @6 :Text;
  worker @7 :Text;
  calibration @8 :Text;
  # What the predictions rest on: "measured", "default" or "none"; empty in older plans.
  toolchain @9 :Text;
  # Of the worker that made the machine code. Empty in older plans, as all that follows.
  tenant @10 :Text;
  # Whose search found it; empty in what other tenants get.
  submitter @11 :Text;
  # The id of the key that asked for it; empty without keys, and in what other tenants get.
  origin @12 :Digest;
  # Of the signed plan that this one was imported, published or rebuilt from.
  originSigner @13 :Data;
  # Ed25519 public key, 32 bytes, of the farm that signed an imported plan first.
  importedBy @14 :Text;
  # The farm that vouches for an imported plan.
  foundEpoch @15 :Text;
  # The compiler epoch of the search that found it, where it was rebuilt since.
  rankCorrelation @16 :Float64;
  # Spearman's, of the times that its search predicted; 0 in older plans.
  constantsCorrelation @17 :Float64;
  # Of what the cost model's constants predict of the same schedules.
  predictedSchedules @18 :UInt32;
  # Of how many schedules of kernels.
  speedup @19 :Float64;
  # The plain plan's time over this plan's, measured in alternation in one process; 0: not compared.
  speedupLow @20 :Float64;
  speedupHigh @21 :Float64;
  # The bounds of its 95 % confidence interval.
  disturbed @22 :Float64;
  # The share of samples that were discarded because something else ran meanwhile.
  machine @23 :Text;
  # The machine class that it was measured on. Empty in older plans.
  budgetCandidates @24 :Int64;
  budgetMs @25 :Int64;
  # What its search was given; 0: no limit of this kind.
  isInterim @26 :Bool;
  # It was stored while its search went on.
  secondWorker @27 :Text;
  # Another worker that compiled the same program to the same objects. Empty: none did.
}

struct Plan {
  exprs @0 :List(Ir.ExprEntry);
  key @1 :PlanKey;
  symbols @2 :List(Ir.SymbolRange);
  inputs @3 :List(Ir.GraphInput);
  outputs @4 :List(Ir.GraphOutput);
  buffers @5 :List(Ir.Buffer);
  kernels @6 :List(PlanKernel);
  calls @7 :List(Ir.Call);
  objects @8 :List(Digest);
  # Blobs that hold the machine code.
  provenance @9 :Provenance;
}

struct Sealed {
  # The content of a plan's or a revocation list's blob.
  content @0 :Data;
  # The bytes of one PlanGrant message, or of one RevocationList.
  signer @1 :Data;
  # Ed25519 public key, 32 bytes; or the delegation under which another key has signed, 160 bytes of
  # which the first 32 are the root key that clients trust (common/plan/delegation.h).
  signature @2 :Data;
  # 64 bytes, over the content's digest; for revocations see there.
}

struct PlanGrant {
  tenant @0 :Text;
  # Only this tenant's clients take the plan. On a farm without keys all are "local".
  plan @1 :Data;
  # The bytes of one Plan message.
}

# ---- Tasks ------------------------------------------------------------------------------------

struct TaskPayload {
  # What a worker does with one candidate.
  enum Kind {
    candidate @0;
    # Verify and measure.
    baseline @1;
    # The plain program, whose time the candidates are held against.
    finalist @2;
    # Verify and measure thoroughly, and keep the objects for the plan.
    comparison @3;
    # Measure the program and its rivals in alternation. All of them have been verified before.
  }
  kind @0 :Kind;
  graph @1 :Digest;
  # Blob with the graph that the program implements: the reference for its outputs.
  program @2 :Ir.Program;
  sizes @3 :List(List(Int64));
  # Values for the program's symbols, all of which are verified.
  seeds @4 :List(UInt64);
  # Of the random inputs; every one is verified at every size.
  adversarial @5 :Bool;
  # Also verify inputs of zeros, extremes, infinities and NaN.
  errorFactorMax @6 :Float64;
  # 2. Workers of earlier releases refuse more where it is less.
  baselineError @7 :Float64;
  # Nobody reads it any more.
  warmups @8 :UInt32;
  repetitions @9 :UInt32;
  timeMaxMs @10 :UInt32;
  # Stop measuring after this long.
  giveUpNs @11 :UInt64;
  # Stop measuring once a run takes longer. 0: never.
  perKernel @12 :Bool;
  # Also measure each kernel alone.
  threads @13 :UInt32;
  # CPU threads of a run. 0: all that the worker has.
  rivals @14 :List(Ir.Program);
  # Of a comparison, at most 8.
  referencesMs @15 :UInt32;
  # For computing references that the worker does not have; inputs beyond are not verified. 0: all.
  alwaysSizes @16 :UInt32;
  # The number of sizes, from the first, that are verified whatever the time. 0: one.
  measured @17 :List(WeightedSizes);
  # Times are weighted means over these. Empty, and in earlier releases: the first of `sizes`.
}

struct WeightedSizes {
  sizes @0 :List(Int64);
  weight @1 :Float64;
  # More than 0; of a list they sum to 1.
}

struct TaskReport {
  # What a worker found out about a candidate that is right.
  kernels @0 :List(PlanKernel);
  # In the program's order.
  objects @1 :List(Digest);
  exprs @2 :List(Ir.ExprEntry);
  kernelNs @3 :List(UInt64);
  # In the program's order; empty when they were not measured one by one.
  totalNs @4 :UInt64;
  # Of one run, the mean of the middle half.
  spreadNs @5 :UInt64;
  # From the first to the third quartile.
  runs @6 :UInt32;
  compileMs @7 :Float64;
  kernelsCompiled @8 :UInt32;
  # The others came from the worker's cache.
  maxError @9 :Float64;
  # Largest error against float64, over all outputs, sizes and inputs.
  baselineError @10 :Float64;
  # Nobody reads it any more.
  detail @11 :Text;
  rivals @12 :List(Rival);
  # Of a comparison, in the order of the payload's rivals.
  disturbed @13 :Float64;
  # The share of samples that were discarded because something else ran meanwhile.
  pace @14 :Float64;
  # What a reference kernel took beside the samples, over the least it ever took in this process; 0:
  # not measured.
  toolchain @15 :Text;
  # That the worker's hello named. The coordinator fills it in, for its journal.

  struct Rival {
    totalNs @0 :UInt64;
    spreadNs @1 :UInt64;
    speedup @2 :Float64;
    # The program's time over the rival's, the median over rounds in which both ran.
    speedupLow @3 :Float64;
    speedupHigh @4 :Float64;
    # The bounds of its 95 % confidence interval.
  }
}

struct RevocationList {
  # Plans that nobody may load any more, whoever still has them. It travels in a Sealed whose
  # signature is over the digest of "lfarm revocations" and the list's bytes.
  plans @0 :List(Digest);
  # The digests of their Sealed messages. A farm's list only ever grows.
  rules @1 :List(RevocationRule);
  # By what made them. Releases that do not know of rules go by the plans alone, which the farm adds.
  number @2 :UInt64;
  # Grows with each list that a farm signs; 0 in earlier releases.
  untilNs @3 :Int64;
  # Wall clock, until which clients take the list from a farm; 0: for ever.
}

struct RevocationRule {
  # Plans of which all that the rule names is true.
  worker @0 :Text;
  toolchain @1 :Text;
  # A part of its name. Empty: any, as above.
  fromNs @2 :Int64;
  untilNs @3 :Int64;
  # Wall clock; 0: no rule.
}

struct PlanBundle {
  # A plan and all that it takes to load it: a file of a client's disk cache.
  signedPlan @0 :Data;
  objects @1 :List(Data);
  # In the plan's order, each distinct one once.
  stamp @2 :Data;
  # By which a client knows that it has checked the signature before; empty: not yet.
}
