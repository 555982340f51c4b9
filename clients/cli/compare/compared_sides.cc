#include "clients/cli/compare/compared_sides.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <thread>

#include "clients/cli/base/signals.h"
#include "clients/peers/script.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/runtime/device/cpu_device.h"

namespace clients {

using common::cat;
using common::HostTensor;
using common::Result;
using common::Status;

namespace {

constexpr double kTurnUs = 200'000;  // of one side, in one round
constexpr int kTurnCallsMin = 3;
constexpr int kTurnCallsMax = 100;

int calls_of(const SideResult& side) {
  if (side.us.empty()) return kTurnCallsMin;
  double last = std::max(side.us.back(), 1.0);
  return std::clamp(static_cast<int>(kTurnUs / last), kTurnCallsMin, kTurnCallsMax);
}

void turn_of(OwnSide* own) {
  auto us = own->side->run(calls_of(own->result));
  if (!us.ok()) return own->fail(us.error().message);
  own->result.us.insert(own->result.us.end(), us->begin(), us->end());
}

void turn_of(PeerSide* peer) {
  auto us = peer->process->run(calls_of(peer->result));
  if (!us.ok()) return peer->fail(us.error());
  peer->result.us.insert(peer->result.us.end(), us->begin(), us->end());
}

// What the processes of all sides have computed so far.
int64_t processor_ns(const std::vector<PeerSide>& peers) {
  constexpr int64_t kNsPerS = 1'000'000'000;
  int64_t sum = 0;
  auto add = [&](clockid_t clock) {
    timespec time{};
    if (::clock_gettime(clock, &time) == 0) sum += time.tv_sec * kNsPerS + time.tv_nsec;
  };
  add(CLOCK_PROCESS_CPUTIME_ID);
  for (const PeerSide& peer : peers) {
    clockid_t clock{};
    bool runs = peer.process && ::clock_getcpuclockid(peer.process->pid(), &clock) == 0;
    if (runs) add(clock);
  }
  return sum;
}

// Waits until no side computes. Threads of some libraries busy-wait for tens of milliseconds after
// a call, and would take processor time from the next side.
void wait_until_quiet(const std::vector<PeerSide>& peers) {
  constexpr std::chrono::milliseconds kStep{2};
  constexpr int64_t kQuietNs = 200'000;  // of a step
  constexpr int kStepsMax = 250;
  int64_t before = processor_ns(peers);
  for (int step = 0; step < kStepsMax; ++step) {
    std::this_thread::sleep_for(kStep);
    const int64_t now = processor_ns(peers);
    if (now - before < kQuietNs) return;
    before = now;
  }
}

void measure_rates(std::vector<PeerSide>* peers) {
  for (PeerSide& peer : *peers) {
    if (!peer.process || peer.result.name != "eager") continue;
    auto rates = peer.process->rates();
    if (rates.ok()) {
      peer.rates = *rates;
    } else {
      peer.fail(rates.error());
    }
  }
}

bool exceeds_caches(const MeasuredModel& model, const Roofline& roofline) {
  return !roofline.reads.empty() && model.work.bytes >= roofline.reads.back().bytes;
}

// `reads`: of memory, measured in the row's rounds; without any, as the roofline has them.
RowBound bound_of(const MeasuredModel& model, const Roofline& roofline, std::vector<double> reads,
                  const std::vector<PeerSide>& peers) {
  RowBound bound{model.work.operations, model.work.bytes, roofline.operations_per_s,
                 read_bandwidth(roofline, model.work.bytes)};
  if (!reads.empty()) {
    std::sort(reads.begin(), reads.end());
    bound.bytes_per_s = reads[reads.size() / 2];
  }
  // Products of 16-bit numbers may have units of their own, which a library may drive faster.
  if (model.dtype != "bf16") return bound;
  bound.operations_per_s = std::max(bound.operations_per_s, roofline.half_operations_per_s);
  for (const PeerSide& peer : peers) {
    if (!peer.result.competes) continue;
    bound.operations_per_s = std::max(bound.operations_per_s, peer.rates.bf16_gemm_gflops * 1e9);
  }
  return bound;
}

}  // namespace

void PeerSide::fail(const common::Error& why) {
  result.note = why.message;
  result.us.clear();
  failure = why.code;
  process.reset();
}

void OwnSide::fail(const std::string& why) {
  problem = why;
  result.us.clear();
  side.reset();
}

PeerSide start_peer(const PeerSetup& setup, const std::string& backend) {
  PeerSide side;
  side.result.name = backend;
  PeerOptions options{setup.python, kPeerScript, backend, setup.threads, {}};
  options.deadlines.load_ms = static_cast<int64_t>(setup.load_s * 1e3);
  auto started = PeerProcess::start(options);
  if (!started.ok()) {
    side.fail(started.error());
    return side;
  }
  side.process.emplace(std::move(started).value());
  side.facts = side.process->facts();
  std::string refusal =
      refusal_of(side.facts, common::host_cpu_target().name.find("avx") != std::string::npos);
  if (!refusal.empty()) {
    side.result.competes = false;
    side.result.note = cat(backend, ": ", refusal);
  }
  return side;
}

void load_peer(const MeasuredModel& model, PeerSide* peer) {
  if (!peer->process) return;
  auto archive = common::MappedFile::open(model.file);
  if (!archive.ok()) return peer->fail(archive.error());
  auto loaded = peer->process->load((*archive)->bytes(), arrays_of(model));
  if (!loaded.ok()) return peer->fail(loaded.error());
  peer->result.settings = loaded->settings;
  auto outputs = outputs_of(model, *loaded);
  if (!outputs.ok()) {
    return peer->fail(
        {outputs.error().code, cat(peer->result.name, ": ", outputs.error().message)});
  }
  peer->outputs = std::move(outputs).value();
}

Result<std::vector<HostTensor>> expected_outputs(const MeasuredModel& model,
                                                 const std::vector<PeerSide>& peers) {
  for (const PeerSide& peer : peers) {
    if (peer.result.name == "eager" && peer.process) return peer.outputs;
  }
  return stored_outputs(model);
}

void check_peers(const MeasuredModel& model, const Result<std::vector<HostTensor>>& expected,
                 std::vector<PeerSide>* peers) {
  for (PeerSide& peer : *peers) {
    if (!peer.process || !expected.ok()) continue;
    if (Status same = compare(model, peer.outputs, *expected); !same.ok()) {
      peer.result.competes = false;
      peer.result.note =
          cat(peer.result.name, ": its outputs are not eager's: ", same.error().message);
    }
    peer.outputs.clear();
  }
}

OwnSide open_own(const MeasuredModel& model, const Result<PulledPlan>& plan, int threads,
                 const Result<std::vector<HostTensor>>& expected) {
  OwnSide own;
  own.result.name = kLfarmSide;
  if (!plan.ok()) {
    own.fail(plan.error().message);
    return own;
  }
  auto side = LfarmSide::open(model, *plan, threads);
  if (!side.ok()) {
    own.fail(side.error().message);
    return own;
  }
  own.side.emplace(std::move(side).value());
  auto outputs = own.side->first_call();
  if (!outputs.ok()) {
    own.fail(outputs.error().message);
  } else if (!expected.ok()) {
    own.result.note = cat("lfarm: not verified: ", expected.error().message);
  } else if (Status same = compare(model, *outputs, *expected); !same.ok()) {
    own.problem = cat("lfarm's outputs are not PyTorch's: ", same.error().message);
  }
  return own;
}

Result<RowBound> measure_rounds(const MeasuredModel& model, const Roofline& roofline, int rounds,
                                int threads, OwnSide* own, std::vector<PeerSide>* peers) {
  std::optional<MemoryReads> memory;
  if (exceeds_caches(model, roofline)) memory.emplace(threads, model.work.bytes);
  std::vector<double> reads;
  measure_rates(peers);
  size_t sides = peers->size() + 1;
  for (size_t round = 0; round < static_cast<size_t>(rounds); ++round) {
    double rate = memory ? memory->bytes_per_s() : 0;
    if (rate > 0) reads.push_back(rate);
    for (size_t turn = 0; turn < sides; ++turn) {
      LFARM_RETURN_IF_ERROR(check_stop());
      size_t k = (round + turn) % sides;
      wait_until_quiet(*peers);
      if (k == 0) {
        if (own->side) turn_of(own);
      } else if ((*peers)[k - 1].process) {
        turn_of(&(*peers)[k - 1]);
      }
    }
  }
  return bound_of(model, roofline, std::move(reads), *peers);
}

}  // namespace clients
