#include "coordinator/service/command/command.h"

#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/process/signal_descriptor.h"
#include "common/shard/shard.h"
#include "common/wire/codec.h"
#include "coordinator/service/command/searcher_command.h"
#include "coordinator/service/command/signer_command.h"
#include "coordinator/service/inspect/state_command.h"
#include "coordinator/service/leadership.h"
#include "coordinator/service/service.h"
#include "coordinator/service/sharing/object_store_options.h"
#include "coordinator/service/web/web.h"

namespace coordinator::service {

using common::cat;
using common::SignalDescriptor;

namespace {

struct Arguments {
  ServiceOptions service;
  std::string endpoint_file;
  std::string searchers_file;
  WebOptions web;
  std::string http_file;
  std::string lease;
  int64_t lease_ms = common::LeaderOptions().duration_ms;
  std::string identity;
  common::ClusterOptions cluster;
  std::string log = "info";
  std::string log_format;
};

// Part of messages that take printable ASCII only.
std::string check_name(const std::string& name) {
  constexpr size_t kNameMax = 64;
  bool ok = !name.empty() && name.size() <= kNameMax &&
            std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
  return ok ? "" : cat("a name has 1 to ", kNameMax, " printable ASCII characters, no spaces");
}

// What a coordinator takes on before it refuses or holds back.
void declare_limits(CLI::App& app, ServiceOptions& service) {
  auto positive = CLI::Range(size_t{1}, SIZE_MAX / 2);
  app.add_option("--jobs", service.limits.jobs_max, "jobs that wait or search, at most")
      ->check(positive);
  app.add_option("--tenant-jobs", service.limits.tenant_jobs_max,
                 "the same, of one tenant with keys")
      ->check(positive);
  app.add_option("--tenant-searches", service.limits.tenant_searches_max,
                 "jobs of one tenant with keys that search at a time (0: all but one)")
      ->check(CLI::Range(size_t{0}, size_t{1024}));
  app.add_option("--tenant-graph-bytes", service.limits.tenant_graph_bytes_max,
                 "bytes of the graphs of one tenant with keys, at most")
      ->check(positive);
  app.add_option("--clients", service.limits.clients_max, "clients that are remembered, at most")
      ->check(positive);
  app.add_option("--subscribers", service.limits.subscribers_max,
                 "requests that wait for one job, at most")
      ->check(positive);
  app.add_option("--graph-bytes", service.limits.graph_bytes_max,
                 "bytes of all jobs' graphs, at most")
      ->check(positive);
  app.add_option("--peer-queue-bytes", service.limits.peer_queue_bytes,
                 "bytes that one peer may leave unread")
      ->check(positive);
  app.add_option("--queue-bytes", service.limits.queue_bytes,
                 "bytes that all peers may leave unread")
      ->check(positive);
  app.add_option("--trace-rows", service.kept.trace_rows_max,
                 "rows of a job's trace, of which the latest are kept (0: no traces)")
      ->check(CLI::Range(size_t{0}, size_t{1'000'000}));
  app.add_option("--backlog-bytes", service.limits.backlog_bytes,
                 "bytes kept for one peer beyond its queue")
      ->check(positive);
  app.add_option("--try-again-ms", service.times.try_again_ms,
                 "how long those wait who are refused for lack of room")
      ->check(CLI::PositiveNumber);
}

// Public signing keys, one with each time that the option is given.
void add_signing_keys(CLI::App& app, const std::string& name, std::vector<common::PublicKey>& into,
                      const std::string& help) {
  app.add_option_function<std::vector<std::string>>(
         name,
         [&into, name](const std::vector<std::string>& keys) {
           for (const std::string& key : keys) {
             auto bytes = common::from_hex(key);
             common::PublicKey parsed{};
             if (!bytes || bytes->size() != parsed.size()) {
               throw CLI::ValidationError(name, "a farm's signing key has 64 hexadecimal digits");
             }
             std::copy(bytes->begin(), bytes->end(), parsed.begin());
             into.push_back(parsed);
           }
         },
         help)
      ->allow_extra_args(false);
}

// Who signs.
void declare_signing(CLI::App& app, AccessOptions& access) {
  auto* signer = app.add_option(
      "--signer", access.signer,
      "Unix socket of a process that signs in this one's place (--role sign), which then needs no "
      "signing key");
  app.add_option("--signer-wait-ms", access.signer_wait_ms,
                 "at the start, until that process answers")
      ->needs(signer)
      ->check(CLI::Range(0, 3'600'000))
      ->capture_default_str();
  app.add_option("--delegation", access.delegation_file,
                 "file in which a root key that clients trust has delegated to this coordinator's "
                 "signing key (default: STATE/delegation, if it is there)")
      ->check(CLI::ExistingFile)
      ->excludes(signer);
}

// The store that farms share.
void declare_shared(CLI::App& app, SharedTierOptions& shared) {
  app.add_option("--remote", shared.address,
                 "a store that farms share: redis://[user@]host[:port][/database] or "
                 "redis+unix:///path");
  app.add_option("--remote-password-file", shared.password_file,
                 "its password, in a file that only its owner may read");
  add_signing_keys(
      app, "--trust-peer", shared.trusted,
      "the signing key of a farm whose shared plans are taken, too; may be given often");
  declare_object_store(app, shared.objects);
  app.add_option("--remote-wait-ms", shared.wait_ms,
                 "a request waits for the shared store this long, at most")
      ->check(CLI::Range(1, 60'000));
  app.add_option("--remote-claim-ms", shared.claim_ms,
                 "a farm that died while it searched holds up others' searches this long")
      ->check(CLI::Range(int64_t{100}, kClaimMsMax));
  app.add_option("--remote-revocations-ms", shared.revocations_ms,
                 "between looks at what other farms have revoked")
      ->check(CLI::Range(10, 3'600'000));
  app.add_option(
         "--remote-notes-ms", shared.notes_ms,
         "between notes of quotas, publications, quarantine and tuning records for the replica "
         "that takes over")
      ->check(CLI::Range(10, 3'600'000));
}

// Several coordinators that share the work.
void declare_shards(CLI::App& app, ShardingOptions& sharding) {
  app.add_option_function<uint32_t>(
         "--shards",
         [&sharding](const uint32_t& shards) { sharding.is_on = shards == common::kShardCount; },
         "1: this coordinator serves every model; 64: each of several serves the shards that it "
         "holds, with the truth in the store that --remote names")
      ->check(CLI::IsMember({uint32_t{1}, common::kShardCount}));
  app.add_option("--advertise", sharding.advertise,
                 "with --shards: the endpoint that clients of other coordinators are sent to "
                 "(default: as it was bound)");
  app.add_option("--shard-lease-ms", sharding.duration_ms,
                 "with --shards: the shards of a coordinator that died are others' after this long "
                 "(default: 3000)")
      ->check(CLI::Range(300, 600'000));
  app.add_option("--remote-replicas", sharding.replicas,
                 "with --shards: replicas of the remote store that must have a change before it "
                 "counts")
      ->check(CLI::Range(0, 100));
}

// Searches in processes of their own.
void declare_searchers(CLI::App& app, Arguments& arguments) {
  SearcherOptions& searchers = arguments.service.searchers;
  app.add_option("--searchers", searchers.listen,
                 "tcp://ADDRESS:PORT or ipc://PATH where searchers connect, which then search in "
                 "this process's place");
  app.add_option("--searchers-file", arguments.searchers_file,
                 "write the endpoint that was bound for searchers to this file")
      ->needs("--searchers");
  auto positive = CLI::Range(int64_t{100}, int64_t{86'400'000});
  app.add_option("--searcher-step-ms", searchers.step_ms,
                 "a searcher that says nothing for so long while it takes a step of a search has "
                 "lost it")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--searcher-silence-ms", searchers.silence_ms,
                 "one that says nothing at all for so long has lost all of them")
      ->check(positive)
      ->capture_default_str();
}

void declare_web(CLI::App& app, Arguments& arguments) {
  app.add_option(
      "--http", arguments.web.address,
      "HOST:PORT of probes and metrics, for anyone who reaches it, and of the page and the "
      "farm's state, for this machine");
  app.add_option(
      "--http-token-file", arguments.web.token_file,
      "the page and the state are for who has the token in this file, from wherever; only "
      "its owner may read it");
  auto* certificate =
      app.add_option("--http-certificate", arguments.web.certificate,
                     "PEM file of a certificate and its chain: --http answers over TLS");
  certificate->needs(
      app.add_option("--http-key", arguments.web.key, "PEM file of that certificate's key")
          ->needs(certificate));
  app.add_option("--probes", arguments.web.probes_address,
                 "HOST:PORT that answers probes only, without TLS, whatever --http has to do")
      ->needs("--http");
  app.add_option("--http-file", arguments.http_file,
                 "write the HOST:PORT that was bound to this file");
}

// What is kept, and copies of it.
void declare_store(CLI::App& app, ServiceOptions& service) {
  app.add_option("--store-bytes", service.kept.store_bytes_max,
                 "bound on the bytes of kept plans and kernels (0: none)");
  app.add_option(
      "--backup", service.backups.directory,
      "directory of copies of the store, made while the farm works; `lfarm cache restore` "
      "puts one back");
  app.add_option("--backup-ms", service.backups.every_ms, "time between copies")
      ->check(CLI::Range(int64_t{1'000}, int64_t{366} * 86'400'000))
      ->capture_default_str();
  app.add_option("--backups", service.backups.kept, "copies that are kept, the latest ones")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--measurements", service.kept.measurements_max,
                 "bound on kept measurements of kernels; beyond it the oldest go (0: none)")
      ->capture_default_str();
}

void declare(CLI::App& app, Arguments& arguments) {
  ServiceOptions& service = arguments.service;
  app.add_option_function<std::string>(
         "--role", [](const std::string&) {},
         "serve: this process is the coordinator; search: it searches for one; sign: it signs for "
         "one (see --role search --help, --role sign --help)")
      ->check(CLI::IsMember({"serve", "search", "sign"}));
  app.add_option("--listen", service.listen,
                 "tcp://ADDRESS:PORT (port 0 or *: a free one) or ipc://PATH");
  app.add_option("--state", service.state, "directory of the cache, the keys and open jobs");
  app.add_option("--name", service.name, "the farm's name in plans and logs")
      ->check(CLI::Validator(check_name, "NAME"));
  app.add_option("--endpoint-file", arguments.endpoint_file,
                 "write the endpoint that was bound to this file");
  declare_web(app, arguments);
  app.add_option("--lease", arguments.lease,
                 "Kubernetes Lease whose holder serves, of several coordinators in a cluster");
  app.add_option("--lease-ms", arguments.lease_ms,
                 "with --lease: another coordinator leads when this one died for so long "
                 "(default: 15000)")
      ->check(CLI::Range(3'000, 600'000));
  app.add_option("--identity", arguments.identity,
                 "this coordinator's name in the lease (default: the host's name)");
  app.add_option("--account", arguments.cluster.account_directory,
                 "directory of the pod's service account");
  app.add_flag("--secure", service.access.secure,
               "CURVE keys also on loopback; other addresses always need them");
  app.add_option("--allow", service.access.allow_file,
                 "who may connect: lines of KEY TENANT ROLE,ROLE (default: STATE/allow)");
  declare_signing(app, service.access);
  add_signing_keys(app, "--earlier-key", service.access.earlier_keys,
                   "a public signing key that this farm had before: its plans are signed anew when "
                   "they are asked for; may be given often");
  declare_store(app, service);
  app.add_option("--searches", service.limits.searches_max, "jobs that search at a time")
      ->check(CLI::Range(1, 1024));
  declare_limits(app, service);
  declare_shared(app, service.shared);
  declare_shards(app, service.sharding);
  declare_searchers(app, arguments);
  app.add_option("--no-worker-ms", service.times.no_worker_grace_ms,
                 "a job without a worker of its target fails after this long")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--run-limit-ms", service.times.run_limit_ms, "longest time for one candidate")
      ->check(CLI::Range(int64_t{1}, service.farm.limits.run_limit_ms_max));
  app.add_option("--log", arguments.log, "debug, info, warning, error or off")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}));
  app.add_option("--log-format", arguments.log_format,
                 "lines for people (text) or a JSON object each (json); default: text, or what "
                 "LFARM_LOG_FORMAT says")
      ->check(CLI::IsMember({"text", "json"}));
}

// While it lives, the web asks the service.
class Attachment {
 public:
  Attachment(Web* web, Service& service) : web_(web) {
    if (web_ != nullptr) web_->attach(service);
  }
  ~Attachment() {
    if (web_ != nullptr) web_->detach();
  }
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

 private:
  Web* web_;
};

common::LeaderOptions leader_options(const Arguments& arguments) {
  common::LeaderOptions options;
  options.lease = arguments.lease;
  options.last(arguments.lease_ms);
  options.identity = arguments.identity;
  char host[256] = "";
  if (options.identity.empty() && ::gethostname(host, sizeof host - 1) == 0) {
    options.identity = host;
  }
  return options;
}

// The host's name is shared by coordinators of one machine, their states are not.
std::string shard_identity(const Arguments& arguments) {
  if (!arguments.identity.empty()) return arguments.identity;
  constexpr size_t kDigits = 8;
  return cat(leader_options(arguments).identity, '-',
             common::digest_of(arguments.service.state).hex().substr(0, kDigits));
}

// Until this process leads, with its store open; without a store when it was told to end.
common::Result<std::unique_ptr<cache::Store>> stand_by(Leadership& leadership,
                                                       const ServiceOptions& options,
                                                       SignalDescriptor& signals, Web* web) {
  std::unique_ptr<cache::Store> store;
  auto open = [&]() -> common::Status {
    LFARM_ASSIGN_OR_RETURN(store, Service::open_store(options));
    return {};
  };
  auto ends = [&] {
    while (int signal = signals.take()) {
      if (signal != SIGHUP) return true;
    }
    return false;
  };
  auto tell = [&](const std::string& leader) {
    common::log_info(cat("the lease is ", leader.empty() ? "nobody's" : leader + "'s"));
    if (web != nullptr) web->stand_by(leader);
  };
  LFARM_ASSIGN_OR_RETURN(bool leads, leadership.lead(open, signals.fd(), ends, tell));
  if (!leads) store.reset();
  return store;
}

common::Status announce(const Service& service, const Web* web, const Arguments& arguments) {
  if (web != nullptr && !arguments.http_file.empty()) {
    LFARM_RETURN_IF_ERROR(common::write_file_atomic(arguments.http_file,
                                                    common::as_bytes(cat(web->address(), '\n'))));
  }
  const std::string searchers = service.searchers_endpoint();
  // Before the farm's: who finds that finds both.
  if (!arguments.searchers_file.empty()) {
    LFARM_RETURN_IF_ERROR(common::write_file_atomic(arguments.searchers_file,
                                                    common::as_bytes(cat(searchers, '\n'))));
  }
  if (!arguments.endpoint_file.empty()) {
    LFARM_RETURN_IF_ERROR(common::write_file_atomic(
        arguments.endpoint_file, common::as_bytes(cat(service.endpoint(), '\n'))));
  }
  std::printf("listening on %s\n", service.endpoint().c_str());
  if (!searchers.empty()) std::printf("searchers on %s\n", searchers.c_str());
  if (!service.public_key().empty()) std::printf("public key %s\n", service.public_key().c_str());
  std::printf("signing key %s\n", common::to_hex(service.signing_key()).c_str());
  if (web != nullptr) std::printf("http on %s\n", web->address().c_str());
  std::fflush(stdout);
  common::log_info(cat("farm ", arguments.service.name, " listens on ", service.endpoint(),
                       ", state in ", arguments.service.state));
  return {};
}

void handle_signals(SignalDescriptor& signals, Service& service) {
  while (int signal = signals.take()) {
    if (signal != SIGHUP) {
      common::log_info(signal == SIGTERM ? "SIGTERM: stopping" : "SIGINT: stopping");
      service.stop();
      continue;
    }
    service.reload_allow_list();
  }
}

// Null where no lease was named.
common::Result<std::unique_ptr<Leadership>> begin_leadership(Arguments& arguments) {
  if (arguments.lease.empty()) return std::unique_ptr<Leadership>();
  if (arguments.service.sharding.is_on) {
    return common::invalid_input(
        "--lease has one coordinator serve, --shards several; give one of the two");
  }
  const common::LeaderOptions lease = leader_options(arguments);
  // Two requests make a renewal, and both may take as long.
  arguments.cluster.timeout_ms = std::min(arguments.cluster.timeout_ms, lease.renew_ms / 2);
  return Leadership::begin(arguments.cluster, lease);
}

int serve(int argc, const char* const* argv, SearchFactory create_search) {
  Arguments arguments;
  arguments.service.state = common::default_state_directory();
  CLI::App app(
      "The coordinator of an lfarm: takes models, searches for their fastest plans with "
      "its workers, and keeps what it finds.");
  app.set_version_flag("--version", std::string(common::build_name()));
  declare(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  common::log_init("lfarm-coordinator",
                   common::parse_log_level(arguments.log).value_or(common::LogLevel::kInfo),
                   common::parse_log_format(arguments.log_format));
  // After this line threads start, with the signals blocked.
  SignalDescriptor signals({SIGTERM, SIGINT, SIGHUP});
  arguments.service.create_search = std::move(create_search);
  arguments.service.sharding.identity = shard_identity(arguments);
  std::unique_ptr<Web> web;
  if (!arguments.web.address.empty()) {
    auto started = Web::start(arguments.web);
    if (!started.ok()) return fail(started.error());
    web = std::move(started).value();
    common::log_info(cat("http on ", web->address()));
    if (!web->probes_address().empty()) {
      common::log_info(cat("probes on ", web->probes_address()));
    }
  }
  auto begun = begin_leadership(arguments);
  if (!begun.ok()) return fail(begun.error());
  std::unique_ptr<Leadership> leadership = std::move(begun).value();
  std::unique_ptr<cache::Store> store;
  if (leadership) {
    auto opened = stand_by(*leadership, arguments.service, signals, web.get());
    if (!opened.ok()) return fail(opened.error());
    store = std::move(opened).value();
    if (store == nullptr) return 0;
  }
  auto service = Service::create(arguments.service, std::move(store));
  if (!service.ok()) return fail(service.error());
  Attachment attachment(web.get(), **service);
  common::Status status = announce(**service, web.get(), arguments);
  if (!status.ok()) return fail(status.error());
  if (leadership) leadership->on_loss([&] { (*service)->stop(); });
  status = (*service)->run(signals.fd(), [&] { handle_signals(signals, **service); });
  bool is_lost = leadership && leadership->is_lost();
  leadership.reset();
  if (status.ok() && is_lost) {
    status = common::unavailable(cat("the lease ", arguments.lease,
                                     " was lost, and another coordinator may lead; start again"));
  }
  // Preparing a large graph takes longer than anyone waits for a process to end; everything that
  // counts is on the disk.
  if (status.ok() && (*service)->is_busy()) {
    constexpr useconds_t kFarewellUs = 200'000;  // for the last messages to leave the socket
    ::usleep(kFarewellUs);
    ::_exit(0);
  }
  return status.ok() ? 0 : fail(status.error());
}

}  // namespace

int run_coordinator(int argc, const char* const* argv, SearchFactory create_search) {
  if (asks_for_signer(argc, argv)) return run_signer_command(argc, argv);
  return asks_for_searcher(argc, argv) ? run_searcher_command(argc, argv, std::move(create_search))
                                       : serve(argc, argv, std::move(create_search));
}

}  // namespace coordinator::service
