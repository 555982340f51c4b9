#include "tests/chaos/simulated_load.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/base/files.h"

namespace chaos {
namespace {

using common::cat;

constexpr int kClients = 16;
// How many clients want each model, one after the other or at once.
constexpr size_t kSubmitsPerCase = 2;
// No machine of these tests is one.
constexpr const char* kTarget = "cpu-aarch64";
// 16 clients submit 8 models at a time: 512 tasks in flight for 256 workers of one slot each.
constexpr const char* kBudget = "400";
constexpr const char* kInFlight = "64";
constexpr const char* kTaskMs = "5000";

std::vector<std::string> arguments_of(const SimulatedOptions& options) {
  std::vector<std::string> arguments = {options.program, "--workers", cat(options.workers),
                                        "--target",      kTarget,     "--task-ms",
                                        kTaskMs};
  arguments.insert(arguments.end(), options.access.begin(), options.access.end());
  return arguments;
}

}  // namespace

SimulatedLoad::SimulatedLoad(SimulatedOptions options)
    : options_(std::move(options)),
      workers_("simulated-workers", arguments_of(options_), options_.folder + "/simulated.log",
               nullptr) {
  std::vector<std::string> command = options_.client;
  command.insert(command.end(),
                 {"--target", kTarget, "--budget", kBudget, "--in-flight", kInFlight});
  for (int k = 0; k < kClients; ++k) {
    std::string name = cat("simulated-client-", k + 1);
    (void)common::make_directories(cat(options_.folder, "/", name));
    clients_.push_back(
        std::make_unique<Client>(name, command, cat(options_.folder, "/", name), nullptr));
  }
}

common::Result<std::unique_ptr<SimulatedLoad>> SimulatedLoad::start(SimulatedOptions options) {
  std::unique_ptr<SimulatedLoad> load(new SimulatedLoad(std::move(options)));
  LFARM_RETURN_IF_ERROR(load->workers_.start());
  return load;
}

std::string SimulatedLoad::next_case() {
  return options_.cases[next_++ / kSubmitsPerCase % options_.cases.size()];
}

std::vector<std::string> SimulatedLoad::tend(int64_t now_ns, bool go_on) {
  std::vector<std::string> complaints;
  auto complain = [&](const std::string& what) {
    if (!what.empty()) complaints.push_back(what);
  };
  complain(workers_.tend(now_ns, true));
  for (auto& client : clients_) {
    if (client->current().empty() && go_on) client->submit(next_case());
    std::string submitted = client->current();
    auto plan = client->tend(now_ns);
    std::string complaint = client->take_complaint();
    if (!complaint.empty()) complain(cat(client->name(), ": ", complaint));
    if (!plan) continue;
    ++submits_done_;
    plans_[submitted].insert(plan->id);
  }
  return complaints;
}

bool SimulatedLoad::is_quiet() const {
  return std::all_of(clients_.begin(), clients_.end(),
                     [](const auto& client) { return client->current().empty(); });
}

std::vector<std::string> SimulatedLoad::complaints() const {
  std::vector<std::string> complaints;
  for (const auto& client : clients_) {
    if (client->current().empty()) continue;
    complaints.push_back(cat(client->name(), " still waits for ", client->current(),
                             "; last heard: ", client->last_words()));
  }
  for (const auto& [folder, ids] : plans_) {
    if (ids.size() > 1) {
      complaints.push_back(cat(folder, ": clients were given ", ids.size(), " different plans"));
    }
  }
  return complaints;
}

}  // namespace chaos
