// lfarm-bench: measurements of lfarm's parts, one JSON object a line on standard output.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "tests/bench/bench.h"
#include "tests/bench/record.h"
#include "tests/bench/search/cpu_device.h"
#include "worker/compile/nvrtc_child.h"

namespace bench {

double peak_mb() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace bench

namespace {

// -1: there is no such command.
int run_command(const std::string& command, const std::vector<std::string>& arguments) {
  if (command == "stages") return bench::run_stages(arguments);
  if (command == "egraph") return bench::run_egraph(arguments);
  if (command == "genomes") return bench::run_genomes(arguments);
  if (command == "calls") return bench::run_calls(arguments);
  if (command == "compile") return bench::run_compile(arguments);
  if (command == "reference") return bench::run_reference(arguments);
  if (command == "search") return bench::run_search(arguments);
  if (command == "dispatch") return bench::run_dispatch(arguments);
  if (command == "submit-storm") return bench::run_submit_storm(arguments);
  if (command == "cache") return bench::run_cache(arguments);
  if (command == "scale") return bench::run_scale(arguments);
  if (command == "restart") return bench::run_restart(arguments);
  if (command == "takeover") return bench::run_takeover(arguments);
  if (command == "day") return bench::run_day(arguments);
  if (command == "models") return bench::run_models(arguments);
  if (command == "llm") return bench::run_llm(arguments);
  if (command == "gpu-static") return bench::run_gpu_static(arguments);
  if (command == "gpu-schedules") return bench::run_gpu_schedules(arguments);
  if (command == "gpu-verify") return bench::run_gpu_verify(arguments);
  if (command == "gpu") return bench::run_gpu(arguments);
  return -1;
}

}  // namespace

int main(int argc, char** argv) {
  if (bench::is_executor_child(argc, argv)) return bench::serve_as_executor_child();
  if (argc == 2 && std::string_view(argv[1]) == worker::kNvrtcChildFlag) {
    return worker::run_nvrtc_child(STDIN_FILENO);
  }
  // What dispatch and submit-storm start: a coordinator over the scripted search.
  if (argc > 1 && std::string_view(argv[1]) == "coordinator") {
    return bench::run_scripted_coordinator(argc - 1, argv + 1);
  }
  if (argc > 1 && std::string_view(argv[1]) == "searching-coordinator") {
    return bench::run_searching_coordinator(argc - 1, argv + 1);
  }
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::string command = arguments.empty() ? "" : arguments[0];
  if (!arguments.empty()) arguments.erase(arguments.begin());
  // What the others measure is no model's time.
  std::string record = command == "search" || command == "calls"
                           ? bench::take_record_option(&arguments)
                           : std::string();
  int code = record.empty() ? run_command(command, arguments)
                            : bench::run_recorded(command, record,
                                                  [&] { return run_command(command, arguments); });
  if (code >= 0) return code;
  std::fprintf(
      stderr,
      "usage: lfarm-bench stages MODEL.pt2...\n"
      "       lfarm-bench egraph --suite mathmicroN|acN|chainN [--explain]\n"
      "       lfarm-bench egraph --layers\n"
      "       lfarm-bench egraph --rules MODEL.pt2...\n"
      "       lfarm-bench calls [--kernels N] [--record FILE.db]\n"
      "       lfarm-bench compile [--target T] [--kernels N] [--batch B] [--processes P]\n"
      "       lfarm-bench reference MODEL.pt2 [SIZE]...\n"
      "       lfarm-bench search [--micro] [--sweep] [--device sim|cpu] [--model MODEL.pt2]... "
      "[--seeds N]\n"
      "                          [--budget N] [--update] [--strategy NAME]... "
      "[--record FILE.db]\n"
      "       lfarm-bench search --under-load L... --model MODEL.pt2|CASE... [--seeds N] [--budget "
      "N] "
      "[--json]\n"
      "       lfarm-bench genomes [--scaling] [--model MODEL.pt2...] [--count N] [--sample K]\n"
      "       lfarm-bench dispatch [--coordinators C] [--workers N] [--task-ms T] [--tasks K] "
      "[--slots S] "
      "[--no-curve]\n"
      "                            [--real-search [--model MODEL.pt2] [--jobs N] [--in-flight N]]\n"
      "       lfarm-bench submit-storm [--clients N] [--graphs same|distinct]\n"
      "       lfarm-bench restart [--open N] [--known K]\n"
      "       lfarm-bench takeover [--tries N] [--lease-ms MS] [--restart]\n"
      "       lfarm-bench cache [--plans N] [--kernels K] [--object-bytes B] [--lookups L]\n"
      "       lfarm-bench scale [--plans N] [--measurements M] [--plan-bytes B] [--state DIR | "
      "--engine "
      "ADDRESS]\n"
      "       lfarm-bench day [--table] [--one] [--seed N] [--jobs N] [--file DAY] [--help]\n"
      "       lfarm-bench models MODEL... [--peers] [--python CMD] [--dtype T] [--threads 1,2] "
      "[--help]\n"
      "       lfarm-bench llm [--mode single|all|sweep|quick] [--python CMD] [--render-only RUN] "
      "[--help]\n"
      "       lfarm-bench gpu [--quick] [--only rows|product|attention|warpgroups]\n"
      "       lfarm-bench gpu-static GRAPH.pt2 [--target cuda-sm_NN] [--machine NAME] "
      "[--budget N | --plain]\n"
      "                              [--seed N] [--no-access] [--measure] [--dump DIR] "
      "[--markdown] [--save FILE | --program FILE]\n"
      "       lfarm-bench gpu-schedules PROGRAM [--target cuda-sm_NN] [--size N] [--measure | "
      "--measured FILE]\n"
      "       lfarm-bench gpu-verify GRAPH.pt2 [--layers N] [--value INPUTS=A,B,...]... "
      "[--kernels] [--budget N [--candidates] | --plain]\n");
  return command == "--help" ? 0 : 2;
}
