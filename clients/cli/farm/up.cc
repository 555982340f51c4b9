// lfarm up: a whole farm on this machine.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "clients/cli/access/farm_options.h"
#include "clients/cli/access/farm_processes.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/cli/base/signals.h"
#include "common/base/cat.h"

namespace clients {
namespace {

struct UpOptions {
  FarmOptions farm;
  std::string listen = "tcp://127.0.0.1:*";
  std::string http;
  std::string http_token_file;
  std::string http_certificate, http_key;
  int64_t searchers = 0;
  std::string remote;
  std::string remote_password_file;
  std::vector<std::string> trusted;
};

// The coordinator's options for its page's token and for a store that farms share.
std::vector<std::string> coordinator_words(const UpOptions& options) {
  std::vector<std::string> words;
  if (!options.http_token_file.empty()) {
    words.insert(words.end(), {"--http-token-file", options.http_token_file});
  }
  if (!options.http_certificate.empty()) {
    words.insert(words.end(), {"--http-certificate", options.http_certificate});
  }
  if (!options.http_key.empty()) words.insert(words.end(), {"--http-key", options.http_key});
  if (options.remote.empty()) return words;
  words.insert(words.end(), {"--remote", options.remote});
  if (!options.remote_password_file.empty()) {
    words.insert(words.end(), {"--remote-password-file", options.remote_password_file});
  }
  for (const std::string& key : options.trusted) words.insert(words.end(), {"--trust-peer", key});
  return words;
}

int up(const UpOptions& options) {
  auto device = device_of(options.farm);
  if (!device.ok()) return fail(device.error());
  FarmProcessOptions processes;
  processes.state.path = options.farm.state;
  processes.listen = options.listen;
  processes.endpoint_file = processes.state.endpoint_file();
  processes.device = device->name;
  processes.gpu = common::device_number(options.farm.device);
  processes.workers = options.farm.workers;
  processes.searchers = static_cast<int>(options.searchers);
  // A port alone is one of this machine's.
  bool is_port = options.http.find_first_not_of("0123456789") == std::string::npos;
  processes.http = is_port && !options.http.empty() ? "127.0.0.1:" + options.http : options.http;
  processes.coordinator = coordinator_words(options);
  auto farm = FarmProcesses::start(processes);
  if (!farm.ok()) return fail(farm.error());
  if (!*farm) {
    // The user's to change, like a port that is in use.
    int holder = FarmLock::holder(processes.state).value_or(0);
    return fail(common::invalid_input(common::cat("process ", holder, " runs a farm on ",
                                                  processes.state.path,
                                                  "; use that one, or give another --state")));
  }
  std::printf("farm at %s\n", (*farm)->endpoint().c_str());
  std::printf("%zu %s, state in %s, logs in %s; Ctrl-C stops it\n", (*farm)->workers(),
              (*farm)->workers() == 1 ? "worker" : "workers", processes.state.path.c_str(),
              processes.state.logs().c_str());
  if ((*farm)->searchers() > 0) std::printf("searchers: %zu\n", (*farm)->searchers());
  if (!(*farm)->http().empty()) {
    const char* scheme = options.http_certificate.empty() ? "http" : "https";
    std::printf("page at %s://%s/\n", scheme, (*farm)->http().c_str());
  }
  if (!(*farm)->public_key().empty()) {
    std::printf("public key %s, for --farm-key; 'lfarm keys grant' lets clients in\n",
                (*farm)->public_key().c_str());
  }
  std::fflush(stdout);
  while (stop_signal() == 0) {
    common::Status status = (*farm)->tend();
    if (!status.ok()) return fail(status.error());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  (*farm)->stop();
  return kExitDone;
}

}  // namespace

void declare_up(CommandLine* line) {
  auto options = std::make_shared<UpOptions>();
  Command command = line->add(
      "up",
      "Runs a whole farm on this machine: a coordinator and worker processes, until Ctrl-C or\n"
      "SIGTERM. Other lfarm commands find it through the state directory.",
      [options] { return up(*options); });
  add_process_options(&command, &options->farm);
  add_state_option(&command, &options->farm);
  command
      .value("--listen", &options->listen, "ENDPOINT",
             "Where clients and workers connect; port * takes any")
      .shows_default();
  command.value(
      "--http", &options->http, "PORT|HOST:PORT",
      "Serves a page that shows the farm, its jobs and plans, on this machine; also probes\n"
      "and metrics for others. Port 0 takes any");
  command.value("--http-token-file", &options->http_token_file, "FILE",
                "The page is for who has the token in this file, from wherever");
  command.value("--http-certificate", &options->http_certificate, "FILE",
                "The page comes over TLS, with this certificate (PEM, with its chain)");
  command.value("--http-key", &options->http_key, "FILE", "The certificate's key (PEM)");
  command
      .value("--searchers", &options->searchers, "N",
             "Processes that search in the coordinator's place, each as many jobs as there are\n"
             "processors")
      .in_range(int64_t{0}, int64_t{256});
  command.value("--remote", &options->remote, "STORE",
                "A store that farms share, on a server that speaks the Redis protocol:\n"
                "redis://[user@]host[:port][/database] or redis+unix:///path");
  command.value("--remote-password-file", &options->remote_password_file, "FILE",
                "Its password, in a file that only its owner may read");
  command.value("--trust-peer", &options->trusted, "KEY",
                "Signing keys of farms whose shared plans are taken, too");
}

}  // namespace clients
