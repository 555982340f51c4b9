// The subcommands of lfarm-bench and what they share.
#pragma once

#include <string>
#include <vector>

namespace bench {

// Arguments after the subcommand's name. They return the process's exit code.
int run_stages(const std::vector<std::string>& arguments);
int run_egraph(const std::vector<std::string>& arguments);
int run_calls(const std::vector<std::string>& arguments);
int run_compile(const std::vector<std::string>& arguments);
int run_reference(const std::vector<std::string>& arguments);
int run_search(const std::vector<std::string>& arguments);
// search --under-load.
int run_search_under_load(const std::vector<std::string>& arguments);
int run_genomes(const std::vector<std::string>& arguments);
int run_models(const std::vector<std::string>& arguments);
int run_llm(const std::vector<std::string>& arguments);
int run_gpu_static(const std::vector<std::string>& arguments);
int run_gpu_schedules(const std::vector<std::string>& arguments);
int run_gpu_verify(const std::vector<std::string>& arguments);
int run_gpu(const std::vector<std::string>& arguments);
int run_dispatch(const std::vector<std::string>& arguments);
int run_submit_storm(const std::vector<std::string>& arguments);
int run_cache(const std::vector<std::string>& arguments);
int run_scale(const std::vector<std::string>& arguments);
int run_day(const std::vector<std::string>& arguments);
int run_restart(const std::vector<std::string>& arguments);
int run_takeover(const std::vector<std::string>& arguments);

// A coordinator over the scripted search (tests/farm/service/service_script.h), with the arguments
// of lfarm-coordinator.
int run_scripted_coordinator(int argc, const char* const* argv);
// The same over the real search.
int run_searching_coordinator(int argc, const char* const* argv);

// The process's peak resident memory in MiB.
double peak_mb();

}  // namespace bench
