// Plans: what their instances keep in memory, and what their kernels take.
#include <algorithm>

#include "clients/report/drawing/bars.h"
#include "clients/report/drawing/figures.h"
#include "clients/report/run_sections.h"
#include "common/base/cat.h"
#include "common/text/units.h"

namespace clients {

using common::bytes_text;
using common::cat;

namespace {

void write_plan_memory(HtmlWriter* html, const PlanMemory& plan) {
  double sum = 0;
  for (const auto& [what, bytes] : plan.memory) sum += bytes;
  std::vector<Bar> bars;
  for (const auto& [what, bytes] : plan.memory) bars.push_back({what, bytes_text(bytes), {bytes}});
  std::stable_sort(bars.begin(), bars.end(),
                   [](const Bar& a, const Bar& b) { return a.parts > b.parts; });
  if (bars.size() > 1) {
    html->open("figure");
    write_bars(html, bars, {"bytes"});
    html->close("figure");
  }
  html->open("details");
  html->element("summary", cat("Bytes as a table, ", bytes_text(sum), " in all"));
  begin_table(html, cat("Memory of ", plan.head.name), {"For", "Bytes", "Share"}, 1);
  for (const auto& [what, bytes] : plan.memory) {
    html->line();
    html->open("tr");
    html->open("th", {{"scope", "row"}});
    html->element("bdi", what);
    html->close("th");
    html->element("td", count_of(static_cast<int64_t>(bytes)), {{"class", "num"}});
    html->element("td", cat(number_text(sum > 0 ? 100 * bytes / sum : 0), " %"),
                  {{"class", "num"}});
    html->close("tr");
  }
  end_table(html);
  html->close("details");
}

constexpr size_t kKernelsShown = 200;  // the slowest; the rest is in the bundle

void write_plan_kernels(HtmlWriter* html, const PlanMemory& plan) {
  if (plan.kernels.empty()) return;
  std::vector<const KernelTime*> slowest;
  double all_ms = 0;
  for (const KernelTime& kernel : plan.kernels) {
    slowest.push_back(&kernel);
    all_ms += kernel.ms;
  }
  std::stable_sort(slowest.begin(), slowest.end(),
                   [](const KernelTime* a, const KernelTime* b) { return a->ms > b->ms; });
  if (slowest.size() > kKernelsShown) slowest.resize(kKernelsShown);
  html->open("details");
  html->element("summary", cat("Kernels as a table (", plan.kernels.size(), ")"));
  begin_table(html, cat("Kernels of ", plan.head.name, ", the slowest first"),
              {"Kernel", "Weights of", "At", "Calls", "Time", "Share"}, 3);
  for (const KernelTime* kernel : slowest) {
    html->line();
    html->open("tr");
    html->open("th", {{"scope", "row"}});
    html->element("bdi", kernel->kernel);
    html->close("th");
    for (const std::string* text : {&kernel->modules, &kernel->sources}) {
      html->open("td");
      html->element("bdi", *text);
      html->close("td");
    }
    html->element("td", count_of(kernel->calls), {{"class", "num"}});
    html->element("td", kernel->ms > 0 ? common::duration_text(kernel->ms * 1e6) : "",
                  {{"class", "num"}});
    html->element("td", cat(number_text(all_ms > 0 ? 100 * kernel->ms / all_ms : 0), " %"),
                  {{"class", "num"}});
    html->close("tr");
  }
  end_table(html);
  html->close("details");
}

}  // namespace

void write_plans(HtmlWriter* html, const std::vector<PlanMemory>& plans) {
  if (plans.empty()) return;
  write_heading(html, "memory", "Memory of plans",
                "What an instance keeps: weights as the model has them, copies of them in other "
                "orders, states, the arena of values between kernels, kernels\u2019 own scratch "
                "areas, and code.");
  for (const PlanMemory& plan : plans) {
    write_run_heading(html, plan.head);
    write_plan_memory(html, plan);
    write_plan_kernels(html, plan);
  }
}

}  // namespace clients
