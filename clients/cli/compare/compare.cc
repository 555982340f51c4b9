// lfarm compare: a model's plan beside PyTorch's own ways of running it.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "clients/cli/access/farm_options.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/cli/compare/compare_text.h"
#include "clients/cli/compare/compared_sides.h"
#include "clients/cli/compare/measured_model.h"
#include "clients/cli/models/exported_model.h"
#include "clients/runtime/model/instance.h"
#include "common/base/cat.h"
#include "common/base/contains.h"

namespace clients {
namespace {

using common::cat;

constexpr const char* kEager = "eager";

struct CompareOptions {
  FarmOptions farm;
  BudgetOptions budget;
  std::string model;
  ExportOptions exported;
  std::vector<std::string> peers = {kEager, "inductor"};
  int threads = 0;
  int rounds = 5;
  double peer_timeout_s = 1200;
  bool json = false;
};

// Where there is no PyTorch, the user hears so before a search.
common::Result<std::vector<PeerSide>> start_peers(const CompareOptions& options, int threads) {
  PeerSetup setup{command_words(options.exported.python), threads, options.peer_timeout_s};
  if (setup.python.empty()) return common::invalid_input("--python names no command");
  std::vector<std::string> backends = {kEager};
  for (const std::string& peer : options.peers) {
    if (!common::contains(backends, peer)) backends.push_back(peer);
  }
  std::vector<PeerSide> sides;
  for (const std::string& backend : backends) {
    sides.push_back(start_peer(setup, backend));
    const PeerSide& side = sides.back();
    if (backend != kEager || side.process) continue;
    return common::invalid_input(cat("'", options.exported.python, "' cannot run PyTorch (",
                                     side.result.note,
                                     "); --python 'CMD' names a Python that has torch"));
  }
  return sides;
}

common::Result<Comparison> compare_model(const CompareOptions& options) {
  if (options.farm.device != "cpu") {
    return common::invalid_input("PyTorch is measured on the processor: --device cpu");
  }
  int threads = options.threads > 0 ? options.threads : default_threads();
  LFARM_ASSIGN_OR_RETURN(ModelFile file, model_file_of(options.model, options.exported));
  LFARM_ASSIGN_OR_RETURN(MeasuredModel model, open_model(file.path));
  if (file.is_exported_here) model.name = file.name;
  LFARM_ASSIGN_OR_RETURN(std::vector<PeerSide> peers, start_peers(options, threads));
  auto plan = plan_for(model, options.farm, options.budget);
  if (!plan.ok()) return plan.error();
  LFARM_ASSIGN_OR_RETURN(Roofline roofline,
                         roofline_of_processor(options.farm.state, threads, false));
  Comparison out;
  out.row = {model.name, model.dtype, threads, {}, {}, ""};
  out.plan = plan->id.hex();
  out.machine = roofline_text(roofline);
  out.peers = facts_text(peers.front().facts);
  for (PeerSide& peer : peers) load_peer(model, &peer);
  auto expected = expected_outputs(model, peers);
  out.verified = expected.ok();
  check_peers(model, expected, &peers);
  OwnSide own = open_own(model, plan, threads, expected);
  LFARM_ASSIGN_OR_RETURN(out.row.bound,
                         measure_rounds(model, roofline, options.rounds, threads, &own, &peers));
  if (!own.side) return common::Error{common::Code::kInternal, own.problem};
  out.row.problem = std::move(own.problem);
  out.row.sides.push_back(std::move(own.result));
  for (PeerSide& peer : peers) out.row.sides.push_back(std::move(peer.result));
  return out;
}

int compare_command(const CompareOptions& options) {
  auto compared = compare_model(options);
  if (!compared.ok()) return fail(compared.error());
  std::string text = options.json ? json_of(*compared) + "\n" : text_of(*compared);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return compared->row.problem.empty() ? kExitDone : kExitVerification;
}

std::string peer_problem(const std::string& name) {
  bool is_known = name == kEager || name == "inductor" || name == "onnxruntime";
  return is_known ? "" : cat("'", name, "' is no peer: eager, inductor or onnxruntime");
}

}  // namespace

void declare_compare(CommandLine* line) {
  auto options = std::make_shared<CompareOptions>();
  options->farm.device = "cpu";
  Command command = line->add(
      "compare",
      "Measures the model's plan on this machine's processor beside PyTorch's eager mode and\n"
      "Inductor, in turns and with equally many threads, and compares outputs with eager's. Exits\n"
      "with 2 where no PyTorch is found, and with 5 where lfarm's outputs differ.",
      [options] { return compare_command(*options); });
  command
      .value("model", &options->model, "MODEL",
             "An exported model, whose inputs are then made up; a case, which is a folder with\n"
             "model.pt2 and inputs/; or an .onnx file or package.module:callable, as submit takes\n"
             "them")
      .required();
  command
      .value("--peer", &options->peers, "NAME",
             "What to measure beside eager: inductor, onnxruntime (default: inductor)")
      .check(peer_problem);
  command.value("--threads", &options->threads, "N", "Of every side (default: all)")
      .in_range(int64_t{1}, int64_t{1024});
  command.value("--rounds", &options->rounds, "N", "In which all sides take turns")
      .shows_default()
      .in_range(int64_t{1}, int64_t{10'000});
  command
      .value("--peer-timeout", &options->peer_timeout_s, "SECONDS",
             "What a peer may take to compile the model")
      .shows_default()
      .in_range(1.0, 1e6);
  command.flag("--json", &options->json, "Print the result as one JSON object");
  add_export_options(&command, &options->exported);
  add_compile_options(&command, &options->farm, &options->budget);
}

}  // namespace clients
