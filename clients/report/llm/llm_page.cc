#include "clients/report/llm/llm_page.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "clients/report/drawing/document.h"
#include "clients/report/drawing/figures.h"
#include "clients/report/drawing/svg.h"
#include "clients/report/llm/llm_curves.h"
#include "clients/report/llm/llm_series.h"
#include "clients/report/run_sections.h"
#include "clients/report/sections.h"
#include "common/base/cat.h"
#include "common/text/units.h"

namespace clients {

using common::cat;

namespace {

constexpr const char* kTitle = "lfarm language models";
constexpr size_t kTextMax = 40;  // of an error beside bars

std::string shortened(const std::string& text) {
  return text.size() <= kTextMax ? text : cat(text.substr(0, kTextMax), "\u2026");
}

std::string time_of(double value, LlmFigure figure) {
  return common::duration_text(value * (figure == LlmFigure::kPlan ? 1e9 : 1e6));
}

std::string shape_note(const LlmRow& row) {
  return row.shape.empty() || row.shape == "full" ? "" : cat("(", row.shape, ")");
}

GroupedBar bar_of(const LlmRow& row, LlmFigure figure) {
  GroupedBar bar;
  bar.series = colour_of(row.way);
  bar.label = row.budget > 0 ? cat(row.way, ", ", row.budget, " candidates") : row.way;
  if (!row.error.empty()) {
    bar.is_missing = true;
    bar.text = shortened(row.error);
    return bar;
  }
  const std::vector<double>& samples = figure == LlmFigure::kFirstToken ? row.ttft_ms : row.tpot_ms;
  bar.value = figure == LlmFigure::kPlan ? row.plan_s : median_of(samples);
  if (figure != LlmFigure::kPlan && samples.size() > 1) {
    auto [low, high] = std::minmax_element(samples.begin(), samples.end());
    bar.low = *low;
    bar.high = *high;
  }
  bar.text = time_of(bar.value, figure);
  return bar;
}

void write_facts(HtmlWriter* html, const std::vector<LlmRun>& runs,
                 const std::vector<LlmSeries>& all) {
  const auto slower = std::count_if(all.begin(), all.end(),
                                    [](const LlmSeries& one) { return one.is_regression(); });
  html->open("dl", {{"class", "facts"}});
  write_fact(html, "Runs", cat(runs.size()));
  write_fact(html, "Rows of the last", cat(runs.back().rows.size()));
  write_fact(html, "Slower than before", runs.size() < 2 ? "one run alone" : cat(slower),
             slower > 0 ? "fail" : "");
  html->close("dl");
}

void write_last(HtmlWriter* html, const LlmRun& run) {
  html->open("p", {{"class", "sub"}});
  html->text("The last run is ");
  html->element("bdi", run.id);
  html->text(cat(" of ", run.at, ", mode "));
  html->element("bdi", run.mode);
  html->text(", on ");
  html->element("bdi", cat(run.device, run.machine.empty() ? "" : cat(" of ", run.machine)));
  for (const auto& [what, value] : {std::pair{", commit ", &run.commit},
                                    {" on ", &run.branch},
                                    {", driver ", &run.driver},
                                    {", ", &run.cuda}}) {
    if (value->empty()) continue;
    html->text(what);
    html->element("bdi", *value);
  }
  html->text(".");
  html->close("p");
}

std::string slower_text(double ratio) {
  return ratio > 0 ? cat(formatted("%.2f", ratio), "\u00d7 as long") : "";
}

void write_slower(HtmlWriter* html, const std::vector<LlmSeries>& all) {
  write_heading(html, "slower", "Slower than before",
                "Medians of the last run that are over 1.05 times those of up to five runs before "
                "it on the same machine, where its fastest sample is slower, too.");
  if (std::none_of(all.begin(), all.end(),
                   [](const LlmSeries& one) { return one.is_regression(); })) {
    html->element("p", "Nothing is.", {{"class", "none"}});
    return;
  }
  begin_table(html, "Slower than before", {"What", "First token", "Each other token"}, 1);
  for (const LlmSeries& one : all) {
    if (!one.is_regression()) continue;
    html->line();
    html->open("tr");
    html->open("th", {{"scope", "row"}});
    html->element("bdi", words_of(one));
    html->close("th");
    html->element("td", slower_text(one.ttft_slower), {{"class", "num fail"}});
    html->element("td", slower_text(one.tpot_slower), {{"class", "num fail"}});
    html->close("tr");
  }
  end_table(html);
}

void write_rows(HtmlWriter* html, const LlmRun& run) {
  html->open("details");
  html->element("summary", "All rows of the run as a table");
  begin_table(html, "Medians",
              {"Model", "Shape", "Way", "Prompt", "Candidates", "First token ms",
               "Each other token ms", "Tokens/s", "Plan s", "Peak MiB", "Samples"},
              3);
  for (const LlmRow& row : run.rows) {
    html->line();
    html->open("tr");
    for (const std::string& word : {row.model, row.shape, row.way}) {
      html->open("td");
      html->element("bdi", word);
      html->close("td");
    }
    html->element("td", cat(row.prompt_tokens), {{"class", "num"}});
    html->element("td", row.budget > 0 ? cat(row.budget) : "", {{"class", "num"}});
    if (!row.error.empty()) {
      html->open("td", {{"class", "fail"}, {"colspan", "6"}});
      html->element("bdi", row.error);
      html->close("td");
      html->close("tr");
      continue;
    }
    const double each = median_of(row.tpot_ms);
    for (double value : {median_of(row.ttft_ms), each, each > 0 ? 1e3 / each : 0, row.plan_s,
                         row.peak_mb, static_cast<double>(row.tpot_ms.size())}) {
      html->element("td", number_text(value), {{"class", "num"}});
    }
    html->close("tr");
  }
  end_table(html);
  html->close("details");
}

void write_budgets(HtmlWriter* html, const std::vector<LlmRun>& runs) {
  const std::vector<LlmPlot> plots = budget_plots(runs);
  if (plots.empty()) return;
  write_heading(html, "budgets", kBudgetTitle,
                "The time of each token after the first, over the best of these, by the number of "
                "candidates that the search had; of the last run that tried several.");
  html->open("div", {{"class", "multiples"}});
  for (const LlmPlot& plot : plots) {
    html->line();
    html->open("figure");
    html->open("figcaption");
    html->element("bdi", plot.name);
    html->close("figcaption");
    write_sweep(html, {{0, true, plot.lines[0].points}}, plot.what);
    html->close("figure");
  }
  html->close("div");
}

void write_history_cell(HtmlWriter* html, double value, double slower) {
  const bool is_slower = slower > 0;
  html->element("td",
                is_slower ? cat(number_text(value), ", ", slower_text(slower)) : number_text(value),
                {{"class", is_slower ? "num fail" : "num"}});
}

void write_history_table(HtmlWriter* html, const std::vector<const LlmSeries*>& lines) {
  html->open("details");
  html->element("summary", "Values as a table");
  begin_table(html, "Medians by run",
              {"Run", "Commit", "Way", "First token ms", "Each other token ms", "Plan s"}, 3);
  for (const LlmSeries* line : lines) {
    for (const LlmPoint& point : line->points) {
      html->line();
      html->open("tr");
      for (const std::string& word : {point.run, point.commit.substr(0, 8), line->way}) {
        html->open("td");
        html->element("bdi", word);
        html->close("td");
      }
      write_history_cell(html, point.ttft_ms, point.ttft_slower);
      write_history_cell(html, point.tpot_ms, point.tpot_slower);
      write_history_cell(html, point.row.plan_s, 0);
      html->close("tr");
    }
  }
  end_table(html);
  html->close("details");
}

// One figure for each model, shape and prompt on a machine that several runs measured.
void write_history(HtmlWriter* html, const std::vector<LlmRun>& runs,
                   const std::vector<LlmSeries>& all) {
  write_heading(html, "history", kHistoryTitle,
                "The time of each token after the first, run by run: medians. A ring marks a run "
                "that was slower than those before it.");
  const std::vector<LlmPlot> plots = history_plots(runs, all);
  if (plots.empty()) {
    html->element("p", "No two runs measured the same on one machine.", {{"class", "none"}});
    return;
  }
  write_legend(html, {std::begin(kWayNames), std::end(kWayNames)});
  for (const LlmPlot& plot : plots) {
    html->line();
    html->open("figure");
    html->open("figcaption");
    html->element("bdi", plot.name);
    html->text(", in ms");
    html->close("figcaption");
    write_curves(html, plot.lines, {plot.what, "run", Axis::Kind::kLinear});
    write_history_table(html, plot.series);
    html->close("figure");
  }
}

}  // namespace

const char* title_of(LlmFigure figure) {
  switch (figure) {
    case LlmFigure::kFirstToken:
      return "Time to the first token";
    case LlmFigure::kNextToken:
      return "Time of each other token";
    case LlmFigure::kPlan:
      return "Time to a plan";
  }
  return "";
}

std::vector<BarGroup> bars_of(const LlmRun& run, LlmFigure figure) {
  std::vector<BarGroup> groups;
  for (const LlmRow& row : run.rows) {
    std::string name = cat(row.model, ", ", row.prompt_tokens, " tokens");
    std::string note = shape_note(row);
    auto group = std::find_if(groups.begin(), groups.end(), [&](const BarGroup& one) {
      return one.name == name && (one.note == note || row.shape.empty());
    });
    if (group == groups.end()) group = groups.insert(groups.end(), {name, note, {}});
    group->bars.push_back(bar_of(row, figure));
  }
  return groups;
}

std::string llm_page(const std::vector<LlmRun>& runs, const std::string& source) {
  HtmlWriter html;
  begin_document(&html, kTitle);
  html.open("p", {{"class", "sub"}});
  html.text(cat(runs.size(), runs.size() == 1 ? " run of " : " runs of "));
  html.element("bdi", source);
  html.close("p");
  if (runs.empty()) {
    html.open("div", {{"class", "empty"}});
    html.element("p", "Nothing is measured yet. To measure language models:");
    html.element("code", cat("lfarm-bench llm --mode quick --out ", source));
    html.close("div");
    return html.take();
  }
  const std::vector<LlmSeries> all = llm_series(runs);
  write_facts(&html, runs, all);
  write_last(&html, runs.back());
  if (runs.size() > 1) write_slower(&html, all);
  for (LlmFigure figure : kLlmFigures) {
    const bool is_plan = figure == LlmFigure::kPlan;
    const bool is_first = figure == LlmFigure::kFirstToken;
    write_heading(&html,
                  is_plan    ? "plan"
                  : is_first ? "ttft"
                             : "tpot",
                  title_of(figure),
                  is_plan ? "Compiled and searched for, from nothing kept. Shorter is better."
                          : "Medians; lines go from the fastest sample to the slowest. Shorter is "
                            "better.");
    write_grouped_bars(&html, bars_of(runs.back(), figure), title_of(figure));
  }
  write_rows(&html, runs.back());
  write_budgets(&html, runs);
  write_history(&html, runs, all);
  html.close("html");
  html.line();
  return html.take();
}

std::string llm_json(const std::vector<LlmRun>& runs) {
  using Json = nlohmann::ordered_json;
  Json out{{"runs", Json::array()}, {"series", Json::array()}};
  for (const LlmRun& run : runs) {
    Json one = Json::parse(json_of(run));
    one["rows"] = Json::array();
    for (const LlmRow& row : run.rows) one["rows"].push_back(Json::parse(json_of(row)));
    out["runs"].push_back(std::move(one));
  }
  for (const LlmSeries& series : llm_series(runs)) {
    Json one{{"model", series.model},   {"shape", series.shape},
             {"way", series.way},       {"machine", series.machine},
             {"device", series.device}, {"prompt_tokens", series.prompt_tokens},
             {"points", Json::array()}};
    if (series.budget > 0) one["budget"] = series.budget;
    if (series.ttft_slower > 0) one["ttft_slower"] = series.ttft_slower;
    if (series.tpot_slower > 0) one["tpot_slower"] = series.tpot_slower;
    for (const LlmPoint& point : series.points) {
      Json each{{"run", point.run}, {"ttft_ms", point.ttft_ms}, {"tpot_ms", point.tpot_ms}};
      if (point.ttft_slower > 0) each["ttft_slower"] = point.ttft_slower;
      if (point.tpot_slower > 0) each["tpot_slower"] = point.tpot_slower;
      one["points"].push_back(std::move(each));
    }
    out["series"].push_back(std::move(one));
  }
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace clients
