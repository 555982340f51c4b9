#include "clients/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "clients/cli/report.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/wire/codec.h"

namespace clients {
namespace {

using common::cat;

constexpr const char* kFooter =
    "Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 unsupported model,\n"
    "4 farm unreachable, 5 verification failed.";

// A check that help does not spell out; its message on a wrong value does.
CLI::Validator quiet(const CLI::Validator& check) { return check.description(""); }

void add_state_option(CLI::App* app, FarmOptions* farm) {
  app->add_option("--state", farm->state,
                  "State directory: cache, keys and logs of the farm on this machine\n"
                  "(default: $LFARM_STATE, $XDG_STATE_HOME/lfarm or ~/.local/state/lfarm)")
      ->type_name("DIR");
}

// A farm that somebody runs.
void add_farm_options(CLI::App* app, FarmOptions* farm) {
  app->add_option("--farm", farm->farm, "The farm's endpoint, such as tcp://127.0.0.1:7171")
      ->envname("LFARM_FARM")
      ->type_name("ENDPOINT");
  app->add_option("--farm-key", farm->server_key,
                  "The farm's public key; needed for farms on other machines")
      ->envname("LFARM_FARM_KEY")
      ->type_name("KEY");
  app->add_option("--keys", farm->keys,
                  "This client's key pair (default: client_keys in the state directory)")
      ->envname("LFARM_KEYS")
      ->type_name("FILE");
  add_state_option(app, farm);
}

void add_process_options(CLI::App* app, FarmOptions* farm) {
  app->add_option("--workers", farm->workers, "Worker processes")
      ->check(quiet(CLI::Range(1, 256)))
      ->type_name("N")
      ->capture_default_str();
  app->add_option("--device", farm->device, "What the workers measure on")
      ->check(quiet(CLI::IsMember({"auto", "cpu", "cuda"})))
      ->type_name("auto|cpu|cuda")
      ->capture_default_str();
}

void add_numerics(CLI::App* app, std::string* numerics) {
  app->add_option("--numerics", *numerics,
                  "strict: every rewrite holds for all values, infinities and NaN included.\n"
                  "relaxed: some hold only while all values are finite")
      ->check(quiet(CLI::IsMember({"strict", "relaxed"})))
      ->type_name("strict|relaxed")
      ->capture_default_str();
}

std::string check_in_flight(const std::string& text) {
  if (text == "auto") return "";
  return quiet(CLI::Range(uint32_t{1}, common::kInFlightMax))(const_cast<std::string&>(text));
}

// A farm of our own where nobody runs one.
void add_compile_options(CLI::App* app, FarmOptions* farm, BudgetOptions* budget) {
  add_farm_options(app, farm);
  add_process_options(app, farm);
  app->add_option("--budget", budget->candidates, "Candidates to try at most (default: 64)")
      ->check(quiet(CLI::Range(int64_t{1}, int64_t{1} << 40)))
      ->type_name("N");
  app->add_option("--time", budget->seconds, "Seconds to search at most")
      ->check(quiet(CLI::Range(0.001, 1e7)))
      ->type_name("S");
  app->add_option("--seed", budget->seed, "Seed of the search")->type_name("K");
  app->add_option(
         "--in-flight", budget->in_flight,
         "Candidates sent before the first one's result must be known: more fill a farm of\n"
         "more than 12 slots, and lead the search another way. auto: as many as there are\n"
         "slots (default: 12)")
      ->check(CLI::Validator(check_in_flight, ""))
      ->type_name("N|auto");
  add_numerics(app, &budget->numerics);
}

CLI::App* add_up(CLI::App* app, UpCommand* up) {
  CLI::App* sub = app->add_subcommand(
      "up",
      "Runs a whole farm on this machine: a coordinator and worker processes, until Ctrl-C or\n"
      "SIGTERM. Other lfarm commands find it through the state directory.");
  add_process_options(sub, &up->farm);
  add_state_option(sub, &up->farm);
  sub->add_option("--listen", up->listen, "Where clients and workers connect; port * takes any")
      ->type_name("ENDPOINT")
      ->capture_default_str();
  return sub;
}

CLI::App* add_submit(CLI::App* app, SubmitCommand* submit) {
  CLI::App* sub = app->add_subcommand(
      "submit",
      "Finds the fastest plan for a model and keeps it in the cache. Without --farm the farm of\n"
      "the state directory is used; if none runs, one is started and stopped again when done.");
  sub->add_option("model", submit->model, "What torch.export.save wrote")
      ->required()
      ->type_name("MODEL.pt2");
  add_compile_options(sub, &submit->farm, &submit->budget);
  sub->add_flag("--json", submit->json, "Print the result as one JSON object");
  return sub;
}

CLI::App* add_run(CLI::App* app, RunCommand* run) {
  CLI::App* sub = app->add_subcommand(
      "run",
      "Runs a model once: pulls its plan, or compiles it first, and reads and writes NumPy files.\n"
      "Files are numbered by the model's tensors, N.npy from 0; bfloat16 is stored as its bits in\n"
      "uint16. Inputs that the model writes to are saved as OUTPUTS/after/N.npy.");
  sub->add_option("model", run->model, "What torch.export.save wrote")
      ->required()
      ->type_name("MODEL.pt2");
  sub->add_option("--inputs", run->inputs, "Folder with 0.npy, 1.npy, ...")
      ->required()
      ->type_name("DIR");
  sub->add_option("--outputs", run->outputs, "Folder for 0.npy, 1.npy, ...; made when missing")
      ->required()
      ->type_name("DIR");
  add_compile_options(sub, &run->farm, &run->budget);
  return sub;
}

CLI::App* add_check(CLI::App* app, CheckCommand* check) {
  CLI::App* sub = app->add_subcommand(
      "check",
      "Runs cases and compares with the outputs that PyTorch gave: a folder with model.pt2,\n"
      "inputs/, outputs/, meta.json and perhaps steps/, sizes/ and after/. Prints PASS, FAIL or\n"
      "UNSUPPORTED for each; exits 0 only if all passed.");
  sub->add_option("case", check->cases, "Folders of cases")->required()->type_name("CASE");
  sub->add_flag("--reference", check->reference,
                "Use the reference interpreter instead of compiled plans");
  sub->add_option("--json", check->json, "Also write the results as JSON")->type_name("FILE");
  sub->add_option("--timeout", check->timeout_s, "Seconds that one case may take")
      ->check(quiet(CLI::Range(0.1, 1e7)))
      ->type_name("S")
      ->capture_default_str();
  add_compile_options(sub, &check->farm, &check->budget);
  return sub;
}

// How `check` runs itself, so that a case that crashes takes no other along.
CLI::App* add_check_worker(CLI::App* app, CheckCommand* check) {
  CLI::App* sub = app->add_subcommand("check-worker", "Runs the cases named on standard input");
  sub->group("");
  sub->add_flag("--reference", check->reference);
  add_compile_options(sub, &check->farm, &check->budget);
  return sub;
}

CLI::App* add_print(CLI::App* app, PrintCommand* print) {
  CLI::App* sub = app->add_subcommand("print", "Stops after a stage of compiling and prints it.");
  sub->add_option("model", print->model, "What torch.export.save wrote")
      ->required()
      ->type_name("MODEL.pt2");
  sub->add_option("--stage", print->stage,
                  "hlir: the graph, repeated blocks rolled into loops. egraph: after rewriting.\n"
                  "candidates: programs that a search starts from. source: generated C.\n"
                  "plan: the finished plan, compiled if need be")
      ->required()
      ->check(quiet(CLI::IsMember({"hlir", "egraph", "candidates", "source", "plan"})))
      ->type_name("hlir|egraph|candidates|source|plan");
  add_compile_options(sub, &print->farm, &print->budget);
  return sub;
}

CLI::App* add_status(CLI::App* app, StatusCommand* status, const char* name, const char* what) {
  CLI::App* sub = app->add_subcommand(name, what);
  add_farm_options(sub, &status->farm);
  sub->add_flag("--json", status->json, "Print the farm's own JSON");
  return sub;
}

CLI::App* add_cancel(CLI::App* app, CancelCommand* cancel) {
  CLI::App* sub =
      app->add_subcommand("cancel", "Stops a job; what it measured stays in the cache.");
  sub->add_option("job", cancel->job, "The job's number (see 'lfarm jobs')")
      ->required()
      ->type_name("JOB");
  add_farm_options(sub, &cancel->farm);
  return sub;
}

CLI::App* add_replay(CLI::App* app, ReplayCommand* replay) {
  CLI::App* sub = app->add_subcommand("replay",
                                      "Runs the search of a finished job again from its journal "
                                      "and prints every decision. Exits 5\n"
                                      "when the search comes to another plan than the job did.");
  sub->add_option("job", replay->job, "The job's number; the latest 32 that gave a plan are kept")
      ->required()
      ->type_name("JOB");
  sub->add_flag("--json", replay->json, "Print one JSON object a line");
  add_state_option(sub, &replay->farm);
  return sub;
}

CLI::App* add_cache_action(CLI::App* cache, CacheCommand* command, const char* name,
                           const char* what) {
  CLI::App* sub = cache->add_subcommand(name, what);
  sub->add_flag("--json", command->json, "Print JSON");
  return sub;
}

std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

// "lfarm submit": the command as far as it was understood.
std::string command_name(const CLI::App& app) {
  auto subs = app.get_subcommands();
  return subs.empty() ? app.get_name() : cat(app.get_name(), " ", command_name(*subs.front()));
}

// Every command's options while they are being read, and the one that was chosen.
class Commands {
 public:
  explicit Commands(CLI::App* app) {
    choose(add_up(app, &up_), &up_);
    choose(add_submit(app, &submit_), &submit_);
    choose(add_run(app, &run_), &run_);
    choose(add_check(app, &check_), &check_);
    worker_.worker = true;
    choose(add_check_worker(app, &worker_), &worker_);
    choose(add_print(app, &print_), &print_);
    add_plan(app);
    add_topic(app, "status", "Says how a farm is: workers, jobs, clients.");
    add_topic(app, "workers", "Lists a farm's workers.");
    add_topic(app, "jobs", "Lists a farm's jobs.");
    choose(add_cancel(app, &cancel_), &cancel_);
    choose(add_replay(app, &replay_), &replay_);
    add_cache(app);
  }
  std::optional<Command> chosen() { return std::move(chosen_); }

 private:
  template <class T>
  void choose(CLI::App* sub, T* command) {
    sub->callback([this, command] { take(command); });
  }
  template <class T>
  void take(T* command) {
    if (command->farm.state.empty()) command->farm.state = common::default_state_directory();
    chosen_ = *command;
  }

  void add_plan(CLI::App* app) {
    CLI::App* plan = app->add_subcommand("plan", "Looks into plans.")->require_subcommand(1);
    CLI::App* show = plan->add_subcommand(
        "show", "Prints a plan of the cache: its kernels, calls, buffers and where it comes from.");
    show->add_option("plan", show_.what, "The plan's or the graph's id, or a model")
        ->required()
        ->type_name("ID|MODEL.pt2");
    show->add_flag("--predicted", show_.predicted,
                   "Prints what each call was predicted to take beside what it took");
    add_numerics(show, &show_.numerics);
    add_farm_options(show, &show_.farm);
    choose(show, &show_);
  }

  void add_topic(CLI::App* app, const char* topic, const char* what) {
    std::string name = topic;
    add_status(app, &status_, topic, what)->callback([this, name] {
      status_.topic = name;
      take(&status_);
    });
  }

  void add_cache(CLI::App* app) {
    CLI::App* cache = app->add_subcommand("cache", "Looks into the cache.")->require_subcommand(1);
    CLI::App* stats = add_cache_action(cache, &cache_, "stats", "Counts what the cache holds.");
    add_farm_options(stats, &cache_.farm);
    CLI::App* list = add_cache_action(cache, &cache_, "ls", "Lists the cached plans.");
    add_state_option(list, &cache_.farm);
    CLI::App* collect = add_cache_action(
        cache, &cache_, "gc",
        "Removes what no plan needs, then the plans used longest ago until the rest fits. No farm\n"
        "may run on the state directory.");
    add_state_option(collect, &cache_.farm);
    collect
        ->add_option("--max-bytes", cache_.max_bytes, "Keep at most this much (default: no limit)")
        ->check(quiet(CLI::PositiveNumber))
        ->type_name("BYTES");
    for (CLI::App* sub : {stats, list, collect}) {
      sub->callback([this, sub] {
        cache_.action = sub->get_name();
        take(&cache_);
      });
    }
  }

  UpCommand up_;
  SubmitCommand submit_;
  RunCommand run_;
  CheckCommand check_, worker_;
  PrintCommand print_;
  PlanShowCommand show_;
  StatusCommand status_;
  CancelCommand cancel_;
  ReplayCommand replay_;
  CacheCommand cache_;
  std::optional<Command> chosen_;
};

}  // namespace

ParsedCommandLine parse_command_line(int argc, char** argv) {
  CLI::App app(
      "Compiles PyTorch models for the machines that will run them: a torch.export model goes in,\n"
      "the fastest kernel plan that a farm of workers finds comes out.",
      "lfarm");
  try {
    app.set_version_flag("--version", std::string(common::build_name()));
    app.require_subcommand(1);
    app.footer(kFooter);
    app.get_formatter()->column_width(34);
    Commands commands(&app);
    app.parse(argc, argv);
    return {commands.chosen(), 0};
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return {std::nullopt, app.exit(error, std::cout, std::cerr)};
    return {std::nullopt, fail(common::invalid_input(cat(one_line(error.what()), "; see '",
                                                         command_name(app), " --help'")))};
  } catch (const std::exception& error) {
    return {std::nullopt, fail(common::internal_error(error.what()))};
  }
}

}  // namespace clients
