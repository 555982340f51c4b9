#include "coordinator/service/command/searcher_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "common/process/processors.h"
#include "common/wire/codec.h"
#include "coordinator/service/command/roles.h"
#include "coordinator/service/command/searcher_web.h"
#include "coordinator/service/inspect/state_command.h"
#include "coordinator/service/searchers/searcher.h"

namespace coordinator::service {

using common::cat;

namespace {

constexpr uint32_t kSearchesMax = 1'024;

struct Arguments {
  SearcherSetup setup;
  std::string role;
  std::string key_file, farm_key;
  std::string http;
  std::string log = "info", log_format;
};

std::string default_name() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return cat(host, '-', ::getpid());
}

void declare(CLI::App& app, Arguments& arguments) {
  app.add_option(std::string(kRoleOption), arguments.role, "search: this process searches");
  app.add_option("--coordinator", arguments.setup.coordinator,
                 "where a coordinator listens for searchers, its --searchers")
      ->required();
  app.add_option("--searches", arguments.setup.searches,
                 "searches at a time (default: the processors there are)")
      ->check(CLI::Range(uint32_t{1}, kSearchesMax));
  app.add_option("--name", arguments.setup.name, "in logs (default: host and process)");
  auto* key = app.add_option("--key", arguments.key_file,
                             "file with this searcher's CURVE keys; created when missing");
  auto* farm_key =
      app.add_option("--farm-key", arguments.farm_key, "the coordinator's public CURVE key");
  key->needs(farm_key);
  farm_key->needs(key);
  app.add_option("--http", arguments.http, "HOST:PORT of probes and metrics");
  app.add_option("--log", arguments.log, "debug, info, warning, error or off")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}));
  app.add_option("--log-format", arguments.log_format, "text or json")
      ->check(CLI::IsMember({"text", "json"}));
}

// It keeps nothing, so that there is nothing to bring to an end: a search under way takes seconds.
void end_at_once(int) { ::_exit(0); }

}  // namespace

bool asks_for_searcher(int argc, const char* const* argv) {
  return asks_for_role(argc, argv, "search");
}

int run_searcher_command(int argc, const char* const* argv, SearchFactory create_search) {
  Arguments arguments;
  arguments.setup.searches = static_cast<uint32_t>(common::usable_processors());
  arguments.setup.name = default_name();
  arguments.setup.create = std::move(create_search);
  CLI::App app("A searcher of an lfarm: searches for plans in its coordinator's place.");
  app.set_version_flag("--version", std::string(common::build_name()));
  declare(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  common::log_init("lfarm-searcher",
                   common::parse_log_level(arguments.log).value_or(common::LogLevel::kInfo),
                   common::parse_log_format(arguments.log_format));
  for (int signal : {SIGTERM, SIGINT}) std::signal(signal, end_at_once);
  if (!arguments.key_file.empty()) {
    auto own = common::load_or_create_key_pair(arguments.key_file);
    if (!own.ok()) return fail(own.error());
    arguments.setup.keys = common::ClientKeys{*own, arguments.farm_key};
  }
  SearcherState state;
  const common::SteadyClock clock;
  std::unique_ptr<common::HttpServer> web;
  if (!arguments.http.empty()) {
    auto served = serve_searcher_web(arguments.http, state, clock);
    if (!served.ok()) return fail(served.error());
    web = std::move(served).value();
    std::printf("http on %s\n", web->address().c_str());
    std::fflush(stdout);
  }
  return fail(run_searcher(arguments.setup, state, [] { return false; }).error());
}

}  // namespace coordinator::service
