// Bounds on everything that crosses the wire, in one place: what is beyond them is refused whole.
#pragma once

#include <cstddef>
#include <cstdint>

namespace common {

// The versions of the protocol that somebody speaks.
struct ProtocolRange {
  uint32_t min = 0;
  uint32_t max = 0;
  constexpr bool holds(uint32_t version) const { return version >= min && version <= max; }
};
// Raised with every new message (schemas/farm.capnp). Peers of the release before are served;
// others are refused.
inline constexpr uint32_t kProtocolVersion = 3;
inline constexpr ProtocolRange kProtocolsSpoken{kProtocolVersion - 1, kProtocolVersion};

// One envelope frame. Everything larger is a blob.
inline constexpr size_t kEnvelopeBytesMax = size_t{8} << 20;
// One blob frame.
inline constexpr size_t kBlobBytesMax = size_t{256} << 20;
// Objects that come along with a plan: more are asked for one by one.
inline constexpr size_t kPulledObjectsBytesMax = size_t{4} << 20;
// Where the parts of one blob frame begin.
inline constexpr size_t kPartAlignment = 8;
// Task payloads and task reports.
inline constexpr size_t kPayloadBytesMax = size_t{4} << 20;
// The JSON text of a status reply.
inline constexpr size_t kStatusBytesMax = size_t{4} << 20;
// Identifiers, targets, builds, stage names: printable ASCII.
inline constexpr size_t kNameBytesMax = 256;
// Diagnostics and policies: UTF-8 without control characters other than tab and newline.
inline constexpr size_t kTextBytesMax = size_t{16} << 10;
// Lists of digests, leases, stages.
inline constexpr size_t kDigestsMax = 16384;
inline constexpr size_t kLeasesMax = 4096;
inline constexpr size_t kStagesMax = 256;
// Parts of what a worker did with one task.
inline constexpr size_t kTaskSpansMax = 16;
// Tasks that one worker holds or asks for at once.
inline constexpr uint32_t kSlotsMax = 4096;
// Tenants that one plan is published to by name.
inline constexpr size_t kTenantsMax = 1024;
// Heartbeat interval, task deadline.
inline constexpr uint32_t kHeartbeatMsMax = 10 * 60 * 1000;
inline constexpr uint32_t kDeadlineMsMax = 24 * 60 * 60 * 1000;
// How deep structures in a message may nest.
inline constexpr int kNestingMax = 8;

// Graphs, programs and plans. Nodes are counted over all loop bodies and kernels together.
inline constexpr size_t kNodesMax = size_t{1} << 20;
inline constexpr size_t kSymbolsMax = 4096;
inline constexpr size_t kRankMax = 64;
inline constexpr size_t kKernelsMax = size_t{1} << 16;
inline constexpr int kBlockThreadsMax = 1024;
inline constexpr int64_t kBlockSharedBytesMax = int64_t{1} << 20;
inline constexpr size_t kScheduleParametersMax = 64;
inline constexpr size_t kTilingSizesMax = 64;
// Structures nest as deep as loops do: the verifier takes 8, each of 6 levels on the wire.
inline constexpr int kIrNestingMax = 64;
// Entries of one expression table; the size and depth of one expression written out in full; and
// the sum of these sizes over a table, which bounds the time that reading it takes.
inline constexpr size_t kExprsMax = size_t{1} << 18;
inline constexpr uint32_t kExprWeightMax = 4096;
inline constexpr uint32_t kExprDepthMax = 64;
inline constexpr uint64_t kExprWeightTotalMax = uint64_t{1} << 24;
// A task's symbol values, random seeds, repetitions and measuring time.
inline constexpr size_t kTaskSizesMax = 64;
inline constexpr size_t kTaskSeedsMax = 256;
inline constexpr uint32_t kRepetitionsMax = 1'000'000;
// Programs that one comparison measures beside its first.
inline constexpr size_t kRivalsMax = 8;

// Files that say who is who: a key pair, who may connect, which farm was met where.
inline constexpr size_t kKeyFileBytesMax = 4096;
inline constexpr size_t kAllowFileBytesMax = size_t{16} << 20;
inline constexpr size_t kKnownFarmsBytesMax = size_t{1} << 20;
// Denied keys whose log lines are throttled each on its own.
inline constexpr size_t kDeniedKeysMax = 1024;

// Messages queued for one peer before sends say so, and from one peer before it is held back: few,
// since one may be as large as a blob, and enough for a reader's turn.
inline constexpr int kSendQueueMessages = 16384;
inline constexpr int kReceiveQueueMessages = 64;
// Bytes that a router holds from one connection, and from all together, before it ends connections
// (common/wire/inflow_guard.h), and how often it looks. Two of the largest packets always have
// room.
inline constexpr size_t kPeerInflowBytes = 2 * (kBlobBytesMax + kEnvelopeBytesMax);
inline constexpr size_t kInflowBytes = size_t{2} << 30;
inline constexpr int kInflowLookMs = 50;
// Bytes that a router queues for one peer, and for all together, before sends say so. A peer for
// which nothing waits always gets one packet.
inline constexpr size_t kPeerQueueBytes = size_t{512} << 20;
inline constexpr size_t kQueueBytes = size_t{2} << 30;
// How long a closing endpoint tries to deliver what is queued.
inline constexpr int kLingerMs = 500;
// First and longest wait before a broken connection is tried again.
inline constexpr int kReconnectMs = 50;
inline constexpr int kReconnectMsMax = 1000;
// A connection that is silent this long is probed, and dropped when the probe stays unanswered.
inline constexpr int kConnectionProbeMs = 5000;
inline constexpr int kConnectionTimeoutMs = 15000;
// Connections that wait to be accepted: clients arrive in storms.
inline constexpr int kListenBacklog = 4096;
// Sockets that one process opens.
inline constexpr int kSocketsMax = 16384;

}  // namespace common
