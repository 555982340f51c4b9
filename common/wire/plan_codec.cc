// Plans, signed plans, task payloads and task reports on the wire.
#include <algorithm>
#include <cctype>
#include <cmath>

#include "common/ir/llir/horizontal.h"
#include "common/wire/codec.h"
#include "common/wire/ir_codec.h"
#include "common/wire/ir_pieces.h"
#include "schemas/plan.capnp.h"

namespace common {
namespace {

namespace wire = schemas::plan;
using common::get;
using common::put;

// What workers of earlier releases verify as all do now.
constexpr double kUsualErrorFactor = 2;

// ---- Pieces ------------------------------------------------------------------------------------

void put_operand(IrWriter& writer, wire::GemmOperand::Builder out, const GemmOperand& operand) {
  out.setOffset(writer.ref(operand.offset));
  out.setBatchStride(writer.ref(operand.batch_stride));
  out.setRowStride(writer.ref(operand.row_stride));
  out.setColumnStride(writer.ref(operand.column_stride));
}

// A kernel's expressions are over its body's symbols, whose number the calls say.
Expr get_kernel_expr(const IrReader& reader, int64_t ref) {
  return reader.size_expr(ref, kSymbolsMax);
}

GemmOperand get_operand(const IrReader& reader, wire::GemmOperand::Reader in) {
  return {get_kernel_expr(reader, in.getOffset()), get_kernel_expr(reader, in.getBatchStride()),
          get_kernel_expr(reader, in.getRowStride()),
          get_kernel_expr(reader, in.getColumnStride())};
}

void put_gemm(IrWriter& writer, wire::GemmForm::Builder out, const GemmForm& gemm) {
  out.setDtype(static_cast<schemas::ir::DType>(gemm.dtype));
  out.setBatch(writer.ref(gemm.batch));
  out.setM(writer.ref(gemm.m));
  out.setN(writer.ref(gemm.n));
  out.setK(writer.ref(gemm.k));
  put_operand(writer, out.initA(), gemm.a);
  put_operand(writer, out.initB(), gemm.b);
  put_operand(writer, out.initOut(), gemm.out);
  out.setAInput(gemm.a_input);
  out.setBInput(gemm.b_input);
}

GemmForm get_gemm(const IrReader& reader, wire::GemmForm::Reader in) {
  GemmForm gemm;
  gemm.dtype = get_enum(in.getDtype(), DType::kComplex64, "dtype");
  gemm.batch = get_kernel_expr(reader, in.getBatch());
  gemm.m = get_kernel_expr(reader, in.getM());
  gemm.n = get_kernel_expr(reader, in.getN());
  gemm.k = get_kernel_expr(reader, in.getK());
  gemm.a = get_operand(reader, in.getA());
  gemm.b = get_operand(reader, in.getB());
  gemm.out = get_operand(reader, in.getOut());
  gemm.a_input = in.getAInput();
  gemm.b_input = in.getBInput();
  if (gemm.dtype != DType::kFloat32 && gemm.dtype != DType::kFloat64) {
    throw Malformed{cat("a library product of ", dtype_name(gemm.dtype))};
  }
  return gemm;
}

void put_kernels(IrWriter& writer, capnp::List<wire::PlanKernel>::Builder out,
                 const std::vector<PlanKernel>& kernels) {
  for (size_t i = 0; i < kernels.size(); ++i) {
    const PlanKernel& kernel = kernels[i];
    auto entry = out[list_size(i)];
    put(entry.initFingerprint(), kernel.fingerprint);
    entry.setLibrary(kernel.library);
    if (kernel.library) put_gemm(writer, entry.initGemm(), kernel.gemm);
    entry.setAlgorithm(static_cast<uint8_t>(kernel.algorithm));
    entry.setObject(kernel.object);
    entry.setEntry(kj_text(kernel.entry.name));
    entry.setUnits(writer.ref(kernel.entry.units));
    entry.setScratchBytes(writer.ref(kernel.entry.scratch_bytes));
    entry.setBlockThreads(kernel.entry.block.threads);
    entry.setBlockUnits(kernel.entry.block.units);
    entry.setBlockSharedBytes(kernel.entry.block.shared_bytes);
    entry.setWaits(kernel.entry.waits);
    entry.setStartsFromBases(kernel.entry.starts_from_bases);
    auto maps = entry.initMaps(list_size(kernel.entry.maps.size()));
    for (uint32_t k = 0; k < maps.size(); ++k) maps.set(k, kj_text(print(kernel.entry.maps[k])));
    const std::vector<int>& bases = kernel.in_place_inputs;
    entry.setInPlaceInput(bases.empty() ? -1 : bases[0]);
    auto list = entry.initInPlaceInputs(list_size(bases.size()));
    for (size_t k = 0; k < bases.size(); ++k) list.set(list_size(k), bases[k]);
    entry.setPredictedNs(kernel.predicted_ns);
    entry.setMeasuredNs(kernel.measured_ns);
  }
}

// Plans of earlier versions name the first output's alone.
std::vector<int> get_bases(wire::PlanKernel::Reader in) {
  auto list = in.getInPlaceInputs();
  check_count(list, kHorizontalPartsMax, "outputs in place");
  std::vector<int> bases;
  for (int32_t base : list) bases.push_back(base);
  if (bases.empty() && in.getInPlaceInput() >= 0) bases.push_back(in.getInPlaceInput());
  return bases;
}

// What a map may be is verified with the calls of its kernel.
std::vector<TensorMap> get_maps(capnp::List<capnp::Text>::Reader in) {
  check_count(in, kTensorMapsMax, "tensor maps");
  std::vector<TensorMap> maps;
  for (auto text : in) {
    auto map = parse_tensor_map(get_clean_text(text, "a tensor map"));
    if (!map) throw Malformed{"a tensor map that cannot be read"};
    maps.push_back(*std::move(map));
  }
  return maps;
}

// A C identifier: it is looked up in an object.
std::string get_entry_name(capnp::Text::Reader in) {
  std::string name = get_name(in, "an entry point");
  for (unsigned char c : name) {
    if (!std::isalnum(c) && c != '_') throw Malformed{"an entry point that is no identifier"};
  }
  return name;
}

BlockShape get_block(wire::PlanKernel::Reader in) {
  BlockShape block{in.getBlockThreads(), in.getBlockUnits(), in.getBlockSharedBytes()};
  bool fits = block.threads >= 0 && block.threads <= kBlockThreadsMax && block.units >= 1 &&
              block.shared_bytes >= 0 && block.shared_bytes <= kBlockSharedBytesMax;
  if (!fits) throw Malformed{"a block of threads that no device has"};
  return block;
}

std::vector<PlanKernel> get_kernels(const IrReader& reader,
                                    capnp::List<wire::PlanKernel>::Reader in, size_t objects) {
  check_count(in, kKernelsMax, "kernels");
  std::vector<PlanKernel> kernels;
  kernels.reserve(in.size());
  for (auto entry : in) {
    PlanKernel kernel;
    kernel.fingerprint = get(entry.getFingerprint());
    kernel.library = entry.getLibrary();
    if (kernel.library) kernel.gemm = get_gemm(reader, entry.getGemm());
    kernel.algorithm = entry.getAlgorithm();
    kernel.object = entry.getObject();
    kernel.entry.name = get_entry_name(entry.getEntry());
    kernel.entry.units = get_kernel_expr(reader, entry.getUnits());
    kernel.entry.scratch_bytes = get_kernel_expr(reader, entry.getScratchBytes());
    kernel.entry.waits = entry.getWaits();
    kernel.entry.starts_from_bases = entry.getStartsFromBases();
    kernel.entry.maps = get_maps(entry.getMaps());
    kernel.entry.block = get_block(entry);
    kernel.in_place_inputs = get_bases(entry);
    kernel.predicted_ns = entry.getPredictedNs();
    kernel.measured_ns = entry.getMeasuredNs();
    bool has_object = kernel.object >= 0 && static_cast<size_t>(kernel.object) < objects;
    bool ok = kernel.library ? kernel.object == -1 : has_object && !kernel.entry.name.empty();
    if (!ok) throw Malformed{"a kernel without its code"};
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

void check_duration(double value, const char* what) {
  if (!std::isfinite(value) || value < 0) throw Malformed{cat(what, " of ", value)};
}

template <size_t kSize>
std::array<std::byte, kSize> get_array(capnp::Data::Reader in, const char* what) {
  std::array<std::byte, kSize> array;
  if (in.size() != kSize) {
    throw Malformed{cat(what, " of ", in.size(), " bytes; it has ", kSize)};
  }
  std::memcpy(array.data(), in.begin(), kSize);
  return array;
}

// ---- Plans -------------------------------------------------------------------------------------

double get_correlation(double value) {
  if (!(std::abs(value) <= 1)) throw Malformed{"a correlation beyond one"};
  return value;
}

// A ratio or a share that was measured; 0 where it was not.
double get_ratio(double value, const char* what, double max = 1e12) {
  if (!(value >= 0 && value <= max)) throw Malformed{cat(what, " of ", value)};
  return value;
}

// How the plan was chosen; plans of earlier releases hold none of it.
void get_choice(wire::Provenance::Reader in, Provenance& out) {
  out.speedup.ratio = get_ratio(in.getSpeedup(), "a speedup");
  out.speedup.low = get_ratio(in.getSpeedupLow(), "a speedup's lower bound");
  out.speedup.high = get_ratio(in.getSpeedupHigh(), "a speedup's upper bound");
  out.disturbed = get_ratio(in.getDisturbed(), "a share of disturbed samples", 1);
  out.machine = get_name(in.getMachine(), "a machine class");
  out.search.budget_candidates = in.getBudgetCandidates();
  out.search.budget_ms = in.getBudgetMs();
  out.search.is_interim = in.getIsInterim();
}

void put_choice(wire::Provenance::Builder out, const Provenance& in) {
  out.setSpeedup(in.speedup.ratio);
  out.setSpeedupLow(in.speedup.low);
  out.setSpeedupHigh(in.speedup.high);
  out.setDisturbed(in.disturbed);
  if (!in.machine.empty()) out.setMachine(kj_text(in.machine));
  out.setBudgetCandidates(in.search.budget_candidates);
  out.setBudgetMs(in.search.budget_ms);
  out.setIsInterim(in.search.is_interim);
}

// Who made the plan and how it came here; plans of before hold none of it.
void get_history(wire::Provenance::Reader in, Provenance& out) {
  out.toolchain = get_name(in.getToolchain(), "a toolchain");
  out.second_worker = get_name(in.getSecondWorker(), "a worker's name");
  out.tenant = get_name(in.getTenant(), "a tenant");
  out.submitter = get_name(in.getSubmitter(), "a key's id");
  if (in.hasOrigin()) out.origin.plan = get(in.getOrigin());
  if (in.hasOriginSigner()) {
    out.origin.signer = get_array<sizeof(PublicKey)>(in.getOriginSigner(), "a public key");
  }
  out.origin.imported_by = get_name(in.getImportedBy(), "a farm's name");
  out.origin.found_epoch = get_name(in.getFoundEpoch(), "a compiler epoch");
}

void put_history(wire::Provenance::Builder out, const Provenance& in) {
  out.setToolchain(kj_text(in.toolchain));
  if (!in.second_worker.empty()) out.setSecondWorker(kj_text(in.second_worker));
  out.setTenant(kj_text(in.tenant));
  out.setSubmitter(kj_text(in.submitter));
  if (!in.origin.plan.is_zero()) put(out.initOrigin(), in.origin.plan);
  if (in.origin.signer != PublicKey{}) out.setOriginSigner(kj_data(in.origin.signer));
  out.setImportedBy(kj_text(in.origin.imported_by));
  out.setFoundEpoch(kj_text(in.origin.found_epoch));
}

Result<Plan> read_plan(wire::Plan::Reader in) {
  IrReader reader(in.getExprs());
  Plan plan;
  auto key = in.getKey();
  plan.key.graph_hash = get(key.getGraphHash());
  plan.key.target.name = get_name(key.getTarget(), "a target");
  plan.key.policy = get_clean_text(key.getPolicy(), "a policy");
  plan.key.epoch = get_name(key.getEpoch(), "a compiler epoch");
  plan.symbols = reader.symbols(in.getSymbols());
  size_t symbols = plan.symbols.size();
  plan.inputs = reader.inputs(in.getInputs(), symbols);
  plan.outputs = reader.outputs(in.getOutputs(), symbols, false);
  plan.buffers = reader.buffers(in.getBuffers(), symbols);
  plan.objects = get(in.getObjects());
  plan.kernels = get_kernels(reader, in.getKernels(), plan.objects.size());
  plan.calls = reader.calls(in.getCalls(), symbols);
  auto provenance = in.getProvenance();
  plan.provenance.best_ns = provenance.getBestNs();
  plan.provenance.baseline_ns = provenance.getBaselineNs();
  plan.provenance.prediction.ns = provenance.getPredictedNs();
  plan.provenance.search.candidates = provenance.getCandidates();
  plan.provenance.search.seed = provenance.getSeed();
  plan.provenance.created_ns = provenance.getCreatedNs();
  plan.provenance.farm = get_name(provenance.getFarm(), "a farm's name");
  plan.provenance.worker = get_name(provenance.getWorker(), "a worker's name");
  plan.provenance.prediction.calibration = get_name(provenance.getCalibration(), "a calibration");
  plan.provenance.prediction.rank_correlation = get_correlation(provenance.getRankCorrelation());
  plan.provenance.prediction.constants_correlation =
      get_correlation(provenance.getConstantsCorrelation());
  plan.provenance.prediction.schedules = provenance.getPredictedSchedules();
  get_choice(provenance, plan.provenance);
  get_history(provenance, plan.provenance);
  LFARM_RETURN_IF_ERROR(verify(plan));
  return plan;
}

Result<Sealed> read_sealed(wire::Sealed::Reader in) {
  Sealed sealed;
  sealed.bytes = get_data(in.getContent(), kBlobBytesMax);
  auto signer = in.getSigner();
  if (signer.size() == kDelegationBytes) {
    sealed.delegation = get_data(signer, kDelegationBytes);
    std::memcpy(sealed.signer.data(), signer.begin(), sizeof(PublicKey));
  } else {
    sealed.signer = get_array<sizeof(PublicKey)>(signer, "a public key");
  }
  sealed.signature = get_array<sizeof(Signature)>(in.getSignature(), "a signature");
  return sealed;
}

// ---- Tasks -------------------------------------------------------------------------------------

std::vector<int64_t> get_assignment(Refs::Reader in, const std::vector<SymbolRange>& symbols) {
  if (in.size() != symbols.size()) {
    throw Malformed{cat(in.size(), " sizes for ", symbols.size(), " symbols")};
  }
  std::vector<int64_t> sizes = get_numbers<int64_t>(in, kSymbolsMax, "sizes");
  for (size_t i = 0; i < symbols.size(); ++i) {
    if (sizes[i] < symbols[i].min || sizes[i] > symbols[i].max) {
      throw Malformed{cat("the value ", sizes[i], " for s", i, ", outside its range")};
    }
  }
  return sizes;
}

std::vector<std::vector<int64_t>> get_sizes(capnp::List<Refs>::Reader in,
                                            const std::vector<SymbolRange>& symbols) {
  check_count(in, kTaskSizesMax, "size assignments");
  if (in.size() == 0) throw Malformed{"no sizes to verify"};
  std::vector<std::vector<int64_t>> sizes;
  for (auto values : in) sizes.push_back(get_assignment(values, symbols));
  return sizes;
}

std::vector<WeightedSizes> get_measured(capnp::List<wire::WeightedSizes>::Reader in,
                                        const std::vector<SymbolRange>& symbols) {
  check_count(in, kTaskSizesMax, "sizes to measure");
  std::vector<WeightedSizes> all;
  for (auto each : in) {
    all.push_back({get_assignment(each.getSizes(), symbols), each.getWeight()});
    if (!(all.back().weight > 0 && all.back().weight <= 1)) {
      throw Malformed{cat("the weight ", all.back().weight, " of a size")};
    }
  }
  return all;
}

Result<TaskPayload> read_task_payload(wire::TaskPayload::Reader in) {
  TaskPayload payload;
  payload.kind = get_enum(in.getKind(), TaskKind::kComparison, "task kind");
  payload.graph = get(in.getGraph());
  auto program = in.getProgram();
  IrReader reader(program.getExprs());
  payload.program = reader.program(program);
  LFARM_RETURN_IF_ERROR(verify(payload.program));
  payload.verify.sizes = get_sizes(in.getSizes(), payload.program.symbols);
  payload.verify.seeds = get_numbers<uint64_t>(in.getSeeds(), kTaskSeedsMax, "seeds");
  payload.verify.adversarial = in.getAdversarial();
  payload.verify.references_ms = in.getReferencesMs();
  payload.verify.always = std::max<uint32_t>(1, in.getAlwaysSizes());
  payload.measure.warmups = in.getWarmups();
  payload.measure.repetitions = in.getRepetitions();
  payload.measure.time_max_ms = in.getTimeMaxMs();
  payload.measure.give_up_ns = in.getGiveUpNs();
  payload.measure.per_kernel = in.getPerKernel();
  payload.measure.threads = in.getThreads();
  payload.measure.sizes = get_measured(in.getMeasured(), payload.program.symbols);
  if (payload.graph.is_zero()) throw Malformed{"no graph"};
  // No candidate wins unverified.
  if (payload.verify.seeds.empty()) throw Malformed{"no seeds to verify with"};
  const MeasureOptions& measure = payload.measure;
  if (measure.repetitions == 0 || measure.repetitions > kRepetitionsMax ||
      measure.warmups > kRepetitionsMax || measure.time_max_ms > kDeadlineMsMax) {
    throw Malformed{cat(measure.warmups, " warm-ups, ", measure.repetitions, " repetitions and ",
                        measure.time_max_ms, " ms to measure")};
  }
  check_count(in.getRivals(), kRivalsMax, "rivals");
  for (auto rival : in.getRivals()) {
    IrReader own(rival.getExprs());
    payload.rivals.push_back(own.program(rival));
    LFARM_RETURN_IF_ERROR(verify(payload.rivals.back()));
    if (payload.rivals.back().symbols != payload.program.symbols) {
      throw Malformed{"a rival with symbols of its own"};
    }
  }
  return payload;
}

Result<TaskReport> read_task_report(wire::TaskReport::Reader in) {
  TaskReport report;
  IrReader reader(in.getExprs());
  report.objects = get(in.getObjects());
  report.kernels = get_kernels(reader, in.getKernels(), report.objects.size());
  report.kernel_ns = get_numbers<uint64_t>(in.getKernelNs(), kKernelsMax, "times");
  if (!report.kernel_ns.empty() && report.kernel_ns.size() != report.kernels.size()) {
    throw Malformed{cat(report.kernel_ns.size(), " times of ", report.kernels.size(), " kernels")};
  }
  report.total_ns = in.getTotalNs();
  report.spread_ns = in.getSpreadNs();
  report.runs = in.getRuns();
  report.compile_ms = in.getCompileMs();
  report.kernels_compiled = in.getKernelsCompiled();
  report.max_error = in.getMaxError();
  report.detail = get_clean_text(in.getDetail(), "a detail");
  if (report.total_ns > INT64_MAX) throw Malformed{cat("a run of ", report.total_ns, " ns")};
  check_duration(report.compile_ms, "a compilation");
  check_duration(report.max_error, "an error");
  check_count(in.getRivals(), kRivalsMax, "rivals");
  for (auto rival : in.getRivals()) {
    report.rivals.push_back({rival.getTotalNs(), rival.getSpreadNs(),
                             get_ratio(rival.getSpeedup(), "a speedup"),
                             get_ratio(rival.getSpeedupLow(), "a speedup's lower bound"),
                             get_ratio(rival.getSpeedupHigh(), "a speedup's upper bound")});
    if (rival.getTotalNs() > INT64_MAX) throw Malformed{"a rival's run of too many ns"};
  }
  report.disturbed = get_ratio(in.getDisturbed(), "a share of disturbed samples", 1);
  report.pace = get_ratio(in.getPace(), "a pace");
  report.toolchain = get_name(in.getToolchain(), "a toolchain");
  return report;
}

Result<TaskReport> read_run_report(wire::TaskReport::Reader in) {
  Result<TaskReport> report = read_task_report(in);
  // A run that took no time has not run.
  if (report.ok() && report->total_ns == 0) throw Malformed{"a run of 0 ns"};
  return report;
}

}  // namespace

const char* task_kind_name(TaskKind kind) {
  switch (kind) {
    case TaskKind::kCandidate:
      return "candidate";
    case TaskKind::kBaseline:
      return "baseline";
    case TaskKind::kFinalist:
      return "finalist";
    case TaskKind::kComparison:
      return "comparison";
  }
  return "unknown";
}

Bytes encode_plan(const Plan& plan) {
  capnp::MallocMessageBuilder builder;
  auto root = builder.initRoot<wire::Plan>();
  IrWriter writer;
  auto key = root.initKey();
  put(key.initGraphHash(), plan.key.graph_hash);
  key.setTarget(kj_text(plan.key.target.name));
  key.setPolicy(kj_text(plan.key.policy));
  key.setEpoch(kj_text(plan.key.epoch));
  writer.symbols(root.initSymbols(list_size(plan.symbols.size())), plan.symbols);
  writer.inputs(root.initInputs(list_size(plan.inputs.size())), plan.inputs);
  writer.outputs(root.initOutputs(list_size(plan.outputs.size())), plan.outputs);
  writer.buffers(root.initBuffers(list_size(plan.buffers.size())), plan.buffers);
  put_kernels(writer, root.initKernels(list_size(plan.kernels.size())), plan.kernels);
  writer.calls(root.initCalls(list_size(plan.calls.size())), plan.calls);
  put(root.initObjects(list_size(plan.objects.size())), plan.objects);
  auto provenance = root.initProvenance();
  provenance.setBestNs(plan.provenance.best_ns);
  provenance.setBaselineNs(plan.provenance.baseline_ns);
  provenance.setPredictedNs(plan.provenance.prediction.ns);
  provenance.setCandidates(plan.provenance.search.candidates);
  provenance.setSeed(plan.provenance.search.seed);
  provenance.setCreatedNs(plan.provenance.created_ns);
  provenance.setFarm(kj_text(plan.provenance.farm));
  provenance.setWorker(kj_text(plan.provenance.worker));
  provenance.setCalibration(kj_text(plan.provenance.prediction.calibration));
  provenance.setRankCorrelation(plan.provenance.prediction.rank_correlation);
  provenance.setConstantsCorrelation(plan.provenance.prediction.constants_correlation);
  provenance.setPredictedSchedules(plan.provenance.prediction.schedules);
  put_choice(provenance, plan.provenance);
  put_history(provenance, plan.provenance);
  writer.exprs(root.initExprs(list_size(writer.expr_count())));
  return flatten(builder);
}

Result<Plan> decode_plan(ByteView bytes) {
  return decode_flat<Plan, wire::Plan>(bytes, "plan", kBlobBytesMax, kIrNestingMax, read_plan);
}

Bytes encode_sealed(const Sealed& sealed) {
  capnp::MallocMessageBuilder builder(list_size(sealed.bytes.size() / sizeof(capnp::word) + 64));
  auto root = builder.initRoot<wire::Sealed>();
  root.setContent(kj_data(sealed.bytes));
  root.setSigner(sealed.delegation.empty() ? kj_data(sealed.signer) : kj_data(sealed.delegation));
  root.setSignature(kj_data(sealed.signature));
  return flatten(builder);
}

Result<Sealed> decode_sealed(ByteView bytes) {
  LFARM_ASSIGN_OR_RETURN(Sealed sealed,
                         (decode_flat<Sealed, wire::Sealed>(bytes, "signed blob", kBlobBytesMax,
                                                            kNestingMax, read_sealed)));
  // Padding and unknown fields are covered by no signature; there are none in what farms write.
  Bytes whole = encode_sealed(sealed);
  if (std::equal(whole.begin(), whole.end(), bytes.begin(), bytes.end())) return sealed;
  return corrupt("signed blob holds more than its content and a signature; pull it again");
}

Bytes encode_grant(const PlanGrant& grant) {
  capnp::MallocMessageBuilder builder(list_size(grant.plan.size() / sizeof(capnp::word) + 64));
  auto root = builder.initRoot<wire::PlanGrant>();
  root.setTenant(kj_text(grant.tenant));
  root.setPlan(kj_data(grant.plan));
  return flatten(builder);
}

Result<PlanGrant> decode_grant(ByteView bytes) {
  auto read = [](wire::PlanGrant::Reader in) -> Result<PlanGrant> {
    PlanGrant grant{get_name(in.getTenant(), "a tenant"), get_data(in.getPlan(), kBlobBytesMax)};
    if (grant.tenant.empty()) throw Malformed{"no tenant"};
    return grant;
  };
  return decode_flat<PlanGrant, wire::PlanGrant>(bytes, "plan's grant", kBlobBytesMax, kNestingMax,
                                                 read);
}

Bytes encode_task_payload(const TaskPayload& payload) {
  capnp::MallocMessageBuilder builder;
  auto root = builder.initRoot<wire::TaskPayload>();
  root.setKind(static_cast<wire::TaskPayload::Kind>(payload.kind));
  put(root.initGraph(), payload.graph);
  IrWriter().program(root.initProgram(), payload.program);
  const VerifyOptions& verify = payload.verify;
  auto sizes = root.initSizes(list_size(verify.sizes.size()));
  for (size_t i = 0; i < verify.sizes.size(); ++i) {
    auto values = sizes.init(list_size(i), list_size(verify.sizes[i].size()));
    for (size_t k = 0; k < verify.sizes[i].size(); ++k) {
      values.set(list_size(k), verify.sizes[i][k]);
    }
  }
  auto seeds = root.initSeeds(list_size(verify.seeds.size()));
  for (size_t i = 0; i < verify.seeds.size(); ++i) seeds.set(list_size(i), verify.seeds[i]);
  root.setAdversarial(verify.adversarial);
  root.setReferencesMs(verify.references_ms);
  root.setAlwaysSizes(verify.always);
  root.setErrorFactorMax(kUsualErrorFactor);
  root.setWarmups(payload.measure.warmups);
  root.setRepetitions(payload.measure.repetitions);
  root.setTimeMaxMs(payload.measure.time_max_ms);
  root.setGiveUpNs(payload.measure.give_up_ns);
  root.setPerKernel(payload.measure.per_kernel);
  root.setThreads(payload.measure.threads);
  auto measured = root.initMeasured(list_size(payload.measure.sizes.size()));
  for (size_t i = 0; i < payload.measure.sizes.size(); ++i) {
    const WeightedSizes& each = payload.measure.sizes[i];
    auto values = measured[list_size(i)].initSizes(list_size(each.sizes.size()));
    for (size_t k = 0; k < each.sizes.size(); ++k) values.set(list_size(k), each.sizes[k]);
    measured[list_size(i)].setWeight(each.weight);
  }
  auto rivals = root.initRivals(list_size(payload.rivals.size()));
  for (size_t i = 0; i < payload.rivals.size(); ++i) {
    IrWriter().program(rivals[list_size(i)], payload.rivals[i]);
  }
  return flatten(builder);
}

Result<TaskPayload> decode_task_payload(ByteView bytes) {
  return decode_flat<TaskPayload, wire::TaskPayload>(bytes, "task payload", kPayloadBytesMax,
                                                     kIrNestingMax, read_task_payload);
}

Bytes encode_task_report(const TaskReport& report) {
  capnp::MallocMessageBuilder builder;
  auto root = builder.initRoot<wire::TaskReport>();
  IrWriter writer;
  put_kernels(writer, root.initKernels(list_size(report.kernels.size())), report.kernels);
  put(root.initObjects(list_size(report.objects.size())), report.objects);
  writer.exprs(root.initExprs(list_size(writer.expr_count())));
  auto times = root.initKernelNs(list_size(report.kernel_ns.size()));
  for (size_t i = 0; i < report.kernel_ns.size(); ++i) {
    times.set(list_size(i), report.kernel_ns[i]);
  }
  root.setTotalNs(report.total_ns);
  root.setSpreadNs(report.spread_ns);
  root.setRuns(report.runs);
  root.setCompileMs(report.compile_ms);
  root.setKernelsCompiled(report.kernels_compiled);
  root.setMaxError(report.max_error);
  root.setDetail(kj_text(clean_text(report.detail)));
  auto rivals = root.initRivals(list_size(report.rivals.size()));
  for (size_t i = 0; i < report.rivals.size(); ++i) {
    const RivalReport& rival = report.rivals[i];
    auto out = rivals[list_size(i)];
    out.setTotalNs(rival.total_ns);
    out.setSpreadNs(rival.spread_ns);
    out.setSpeedup(rival.speedup);
    out.setSpeedupLow(rival.speedup_low);
    out.setSpeedupHigh(rival.speedup_high);
  }
  root.setDisturbed(report.disturbed);
  root.setPace(report.pace);
  root.setToolchain(kj_text(report.toolchain));
  return flatten(builder);
}

Result<TaskReport> decode_task_report(ByteView bytes) {
  return decode_flat<TaskReport, wire::TaskReport>(bytes, "task report", kPayloadBytesMax,
                                                   kIrNestingMax, read_run_report);
}

Result<TaskReport> decode_build_report(ByteView bytes) {
  return decode_flat<TaskReport, wire::TaskReport>(bytes, "task report", kPayloadBytesMax,
                                                   kIrNestingMax, read_task_report);
}

}  // namespace common
