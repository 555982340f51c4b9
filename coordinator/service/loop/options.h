// How a coordinator is set up, and the seam through which it gets its searches.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/s3/s3_address.h"
#include "common/base/result.h"
#include "common/base/signing.h"
#include "common/wire/socket.h"
#include "coordinator/farm/types.h"
#include "coordinator/search/job_search.h"
#include "coordinator/service/loop/backups.h"

namespace coordinator::service {

// JobSearch::create, or a scripted search in its place. Called from background threads.
using SearchFactory = std::function<common::Result<std::unique_ptr<JobSearch>>(
    const common::Graph&, const SearchOptions&, const MeasurementSource*)>;

// How long a claim to search can hold up other farms at most, whatever theirs say.
inline constexpr int64_t kClaimMsMax = 60'000;

// A store that several farms share (cache/remote).
struct SharedTierOptions {
  std::string address;        // see cache::parse_remote_address; empty: none
  std::string password_file;  // readable by its owner only; empty: no password
  // Farms whose plans are taken, by their signing keys; this farm's own is one of them.
  std::vector<common::PublicKey> trusted;
  int64_t wait_ms = 200;            // that a request waits for the store
  int64_t claim_ms = 10'000;        // after which a farm that died holds up nobody's search
  int64_t revocations_ms = 15'000;  // between looks at what other farms have revoked
  int64_t notes_ms = 10'000;        // between notes for the replica that takes over
  cache::S3Place objects;           // of plans, in an object store; none: they lie beside the plans
};

// Several coordinators that serve one farm, each the shards that it holds (coordinator/shards).
struct ShardingOptions {
  bool is_on = false;
  std::string identity;         // unlike that of any other coordinator; no spaces
  std::string advertise;        // the endpoint that clients are sent to; empty: as it was bound
  int64_t duration_ms = 3'000;  // after which others take the shards of a coordinator that died
  int64_t replicas = 0;         // of the server, that must have a change before it counts
};

// Searches in processes of their own (coordinator/service/searchers).
struct SearcherOptions {
  std::string listen;         // where searchers connect; empty: all searches are in this process
  int64_t open_ms = 900'000;  // a searcher that says nothing for so long while it prepares a search
  int64_t step_ms = 120'000;  // or takes a step of it has lost it,
  int64_t silence_ms = 5'000;    // and one that says nothing at all, everything
  int64_t seat_wait_ms = 2'000;  // for another searcher, before a search goes on in this process
};

// Who may connect, and what the farm signs with.
struct AccessOptions {
  // Transport security; always on where the endpoint is reachable from other machines.
  bool secure = false;
  std::string allow_file;  // empty: "allow" in the state directory
  // Of the socket on which another process signs (coordinator/service/signing); empty: this one
  // does, with the state directory's key.
  std::string signer;
  int64_t signer_wait_ms = 10'000;  // for that process, at the start
  std::string delegation_file;  // of this process's key; empty: "delegation" in the state directory
  // That this farm signed with before: their plans are signed anew when they are asked for.
  std::vector<common::PublicKey> earlier_keys;
};

// What the coordinator waits for, and how often it speaks.
struct ServiceTimes {
  int64_t heartbeat_ms = 2'000;
  int64_t no_worker_grace_ms = 30'000;  // without a worker of the target, before a job fails
  int64_t graph_wait_ms = 30'000;       // for the bytes of a submitted graph
  int64_t object_wait_ms = 30'000;      // for the objects of a finished plan
  // Clients are told that a job cannot go on once the disk has taken no writes for so long and
  // their time budget is over. The job itself waits for room.
  int64_t disk_wait_ms = 10'000;
  int64_t progress_ms = 200;
  int64_t news_ms = 1'000;         // between news of one plan to a client
  int64_t run_limit_ms = 120'000;  // one candidate on a worker
  int64_t try_again_ms = 10'000;   // named in refusals for lack of room
};

// What the coordinator takes on before it refuses or holds back.
struct ServiceLimits {
  size_t searches_max = 4;  // at a time; other jobs wait their turn
  // Of one tenant, where clients have keys; 0: all but one, so that another's job waits for none.
  size_t tenant_searches_max = 0;
  int64_t budget_candidates = 64;                     // of a job that gives no budget at all
  size_t jobs_max = 4'096;                            // searching or waiting
  size_t tenant_jobs_max = 1'024;                     // of one tenant
  size_t subscribers_max = 16'384;                    // clients' requests that wait for one job
  size_t clients_max = 65'536;                        // connections
  size_t graph_bytes_max = size_t{2} << 30;           // of the graphs of all jobs together
  size_t tenant_graph_bytes_max = size_t{1} << 30;    // of one tenant's
  size_t peer_queue_bytes = common::kPeerQueueBytes;  // that one peer leaves unread
  size_t queue_bytes = common::kQueueBytes;           // that all peers together leave unread
  size_t backlog_bytes = size_t{64} << 20;            // beyond its queue, for one peer
  size_t list_bytes = size_t{3} << 20;                // of a page of workers or jobs in a status
};

// What stays in the store.
struct KeptLimits {
  uint64_t store_bytes_max = 0;  // of plans and kernels; 0: unbounded
  // Of kernels, kept for later searches; some 150 bytes each. 0: unbounded.
  uint64_t measurements_max = 20'000'000;
  size_t closed_journals_max = 32;  // of jobs that ended with a plan, kept for replays
  size_t trace_rows_max = 8'192;    // of one job's trace: the latest stay; 0: no traces
  size_t ended_jobs_max = 32;       // kept for who asks, with their traces
};

struct ServiceOptions {
  std::string listen{common::kDefaultEndpoint};
  std::string state;           // directory: store, signing key, transport keys
  std::string name = "lfarm";  // in plans' provenance
  AccessOptions access;

  // Of plan keys. Another one than this build's stands for a farm whose compiler has changed.
  std::string epoch{common::kCompilerEpoch};
  common::ProtocolRange protocol = common::kProtocolsSpoken;

  farm::Config farm;
  ServiceTimes times;
  ServiceLimits limits;
  KeptLimits kept;
  BackupOptions backups;
  SharedTierOptions shared;
  ShardingOptions sharding;
  SearcherOptions searchers;
  SearchFactory create_search;

  // How long a request waits for a worker of its target, by the wait it asks for (0: the farm's).
  int64_t worker_wait_ms(uint64_t asked_ms) const {
    return asked_ms != 0 ? static_cast<int64_t>(asked_ms) : times.no_worker_grace_ms;
  }
  // try_again_ms in whole seconds, for people.
  int64_t try_again_s() const { return (times.try_again_ms + 999) / 1000; }
};

}  // namespace coordinator::service
