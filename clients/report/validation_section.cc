// Validations: variants of a model beside the teacher that they come from.
#include <algorithm>
#include <map>
#include <set>

#include "clients/report/drawing/curves.h"
#include "clients/report/drawing/figures.h"
#include "clients/report/run_sections.h"
#include "common/base/cat.h"
#include "common/text/units.h"

namespace clients {

using common::cat;

namespace {

constexpr size_t kTabsMax = 8;  // that the style sheet knows; further devices follow below

using Rows = std::vector<const VariantRow*>;

std::string times_text(double ratio) { return cat(value_text(ratio), "\u00d7"); }

const char* look_of(VariantVerdict verdict) {
  if (verdict == VariantVerdict::kPass) return "pass";
  return verdict == VariantVerdict::kFail ? "fail" : "part";
}

std::string place_of(const RunHead& head, bool many_machines) {
  std::string device = head.device.empty() ? "device not named" : head.device;
  return many_machines && !head.machine.empty() ? cat(device, " of ", head.machine) : device;
}

Rows rows_of(const Validation& validation, const std::string& variant) {
  Rows rows;
  for (const VariantRow& row : validation.rows) {
    if (row.variant == variant) rows.push_back(&row);
  }
  return rows;
}

size_t batches_of(const Validation& validation) {
  std::set<int64_t> batches;
  for (const VariantRow& row : validation.rows) batches.insert(row.batch);
  return batches.size();
}

// "1.0 to 2.0", of what each row has.
template <class Value>
std::string range_text(const Rows& rows, const Value& value, std::string (*text)(double)) {
  double low = value(*rows.front()), high = low;
  for (const VariantRow* row : rows) {
    low = std::min(low, value(*row));
    high = std::max(high, value(*row));
  }
  std::string from = text(low), to = text(high);
  return from == to ? from : cat(from, " to ", to);
}

void write_card(HtmlWriter* html, const Validation& validation, const std::string& variant) {
  Rows rows = rows_of(validation, variant);
  auto verdict = verdict_of(validation, variant);
  html->line();
  html->open("li", {{"class", "card"}});
  html->open("p", {{"class", "title"}});
  html->element("bdi", variant);
  if (verdict) {
    html->element("span", verdict_name(*verdict), {{"class", cat("verdict ", look_of(*verdict))}});
  } else {
    html->element("span", variant == validation.teacher ? "teacher" : "not compared",
                  {{"class", "note"}});
  }
  html->close("p");
  html->open("dl");
  auto fact = [html](const char* what, const std::string& value) {
    html->element("dt", what);
    html->element("dd", value);
  };
  fact("Median ms", range_text(
                        rows, [](const VariantRow& r) { return r.latency_ms; }, number_text));
  fact("Error", range_text(
                    rows, [](const VariantRow& r) { return r.error; }, common::error_text));
  double slowest = 0;
  size_t passed = 0, compared = 0;
  for (const VariantRow* row : rows) {
    if (!row->verdict) continue;
    ++compared;
    passed += *row->verdict == VariantVerdict::kPass ? 1 : 0;
    slowest = std::max(slowest, *row->time_ratio);
  }
  if (compared > 0) {
    fact("Time over teacher", times_text(slowest));
    fact("Batches passed", cat(passed, " of ", compared));
  }
  html->close("li");
}

template <class Value>
void write_over_batches(HtmlWriter* html, const Validation& validation, const char* name,
                        const Value& value) {
  std::vector<CurveLine> lines;
  for (const std::string& variant : validation.variants) {
    CurveLine line{lines.size(), {}};
    for (const VariantRow* row : rows_of(validation, variant)) {
      line.points.emplace_back(static_cast<double>(row->batch), value(*row));
    }
    lines.push_back(std::move(line));
  }
  html->line();
  html->open("figure");
  bool is_log = kind_for(lines) == Axis::Kind::kLogarithmic;
  html->element("figcaption", cat(name, is_log ? ", logarithmic" : ""));
  write_curves(
      html, lines,
      {cat(name, " of ", lines.size(), " variants over the batch; the table has the values."),
       "batch \u2192", Axis::Kind::kLogarithmic});
  html->close("figure");
}

void write_variant_scatter(HtmlWriter* html, const Validation& validation) {
  std::vector<Dot> dots;
  for (size_t k = 0; k < validation.variants.size(); ++k) {
    int last = -1;
    for (const VariantRow* row : rows_of(validation, validation.variants[k])) {
      Dot dot;
      dot.series = k;
      dot.x = row->latency_ms;
      dot.y = row->error;
      dot.title = cat(row->variant, ", batch ", row->batch, ": ",
                      common::duration_text(row->latency_ms * 1e6), ", error ",
                      common::error_text(row->error));
      dot.joined_to = last;
      last = static_cast<int>(dots.size());
      dots.push_back(std::move(dot));
    }
  }
  html->line();
  html->open("figure");
  html->element("figcaption", "Error against latency; lines join the batches of a variant.");
  write_scatter(
      html, dots,
      {cat("Error against latency of ", dots.size(), " measurements; the table has them."),
       "milliseconds \u2192", "\u2191 error", "exact"});
  html->close("figure");
}

template <class Value>
void write_ratio_map(HtmlWriter* html, const Validation& validation, const std::string& caption,
                     const Value& value) {
  std::set<int64_t> batches;
  for (const VariantRow& row : validation.rows) {
    if (value(row)) batches.insert(row.batch);
  }
  if (batches.empty()) return;
  std::vector<std::string> columns{"Variant"};
  for (int64_t batch : batches) columns.push_back(cat("batch ", batch));
  begin_table(html, caption, columns, 1, "heat");
  for (const std::string& variant : validation.variants) {
    if (variant == validation.teacher) continue;
    std::map<int64_t, double> found;
    for (const VariantRow* row : rows_of(validation, variant)) {
      if (value(*row)) found[row->batch] = *value(*row);
    }
    html->line();
    html->open("tr");
    html->open("th", {{"scope", "row"}});
    html->element("bdi", variant);
    html->close("th");
    for (int64_t batch : batches) {
      auto at = found.find(batch);
      if (at == found.end()) {
        html->element("td", "");
      } else {
        // Small ratios are good here; exactly 0 is as good as can be.
        double gain = at->second > 0 ? 1 / at->second : 10;
        html->element("td", times_text(at->second), {{"class", heat_of(gain)}});
      }
    }
    html->close("tr");
  }
  end_table(html);
}

// Passing rows first, then by time; the teacher's last.
void write_variants_table(HtmlWriter* html, const Validation& validation,
                          const std::string& place) {
  Rows order;
  for (const VariantRow& row : validation.rows) order.push_back(&row);
  auto rank = [](const VariantRow* row) {
    return std::pair(row->verdict ? static_cast<int>(*row->verdict) : 4,
                     row->time_ratio.value_or(0));
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const VariantRow* a, const VariantRow* b) { return rank(a) < rank(b); });
  begin_table(html, cat("All variants of ", validation.head.name, " on ", place, ", best first"),
              {"Variant", "Result", "Batch", "Median ms", "Spread ms", "Of teacher\u2019s time",
               "Error", "At most", "Of teacher\u2019s error"},
              2);
  for (const VariantRow* row : order) {
    html->line();
    html->open("tr");
    html->open("th", {{"scope", "row"}});
    html->element("bdi", row->variant);
    html->close("th");
    html->element("td",
                  row->verdict                         ? verdict_name(*row->verdict)
                  : row->variant == validation.teacher ? "teacher"
                                                       : "not compared",
                  {{"class", row->verdict ? look_of(*row->verdict) : "note"}});
    auto number = [html](const std::string& text) {
      html->element("td", text, {{"class", "num"}});
    };
    number(count_of(row->batch));
    number(number_text(row->latency_ms));
    number(row->spread_ms > 0 ? number_text(row->spread_ms) : "");
    number(row->time_ratio ? times_text(*row->time_ratio) : "");
    number(common::error_text(row->error));
    number(row->error_limit ? common::error_text(*row->error_limit) : "");
    number(row->error_ratio ? times_text(*row->error_ratio) : "");
    html->close("tr");
  }
  end_table(html);
}

void write_validation(HtmlWriter* html, const Validation& validation, const std::string& place) {
  if (validation.rows.empty()) {
    html->element("p", "The log names no variant.", {{"class", "none"}});
    return;
  }
  html->open("ul", {{"class", "cards"}});
  for (const std::string& variant : validation.variants) write_card(html, validation, variant);
  html->close("ul");
  if (validation.rows.size() > 2) {
    write_legend(html, validation.variants);
    if (batches_of(validation) > 1) {
      html->open("div", {{"class", "multiples wide"}});
      write_over_batches(html, validation, "Error by batch",
                         [](const VariantRow& row) { return row.error; });
      write_over_batches(html, validation, "Median milliseconds by batch",
                         [](const VariantRow& row) { return row.latency_ms; });
      html->close("div");
    }
    write_variant_scatter(html, validation);
  }
  html->open("div", {{"class", "heats"}});
  write_ratio_map(html, validation, "Time over the teacher\u2019s",
                  [](const VariantRow& row) { return row.time_ratio; });
  write_ratio_map(html, validation, "Error over the teacher\u2019s",
                  [](const VariantRow& row) { return row.error_ratio; });
  html->close("div");
  write_variants_table(html, validation, place);
}

// Of one name on several devices: a tab for each.
void write_tabs(HtmlWriter* html, const std::vector<const Validation*>& group, size_t number) {
  std::set<std::string> machines;
  for (const Validation* one : group) machines.insert(one->head.machine);
  html->open("div", {{"class", "tabs"}, {"role", "group"}, {"aria-label", "Devices"}});
  for (size_t k = 0; k < std::min(group.size(), kTabsMax); ++k) {
    std::string id = cat("tab-", number, "-", k), name = cat("tabs-", number);
    if (k == 0) {
      html->empty("input", {{"type", "radio"}, {"name", name}, {"id", id}, {"checked", ""}});
    } else {
      html->empty("input", {{"type", "radio"}, {"name", name}, {"id", id}});
    }
    html->element("label", place_of(group[k]->head, machines.size() > 1), {{"for", id}});
  }
  for (const Validation* one : group) {
    std::string place = place_of(one->head, machines.size() > 1);
    html->line();
    html->open("section", {{"aria-label", place}});
    html->element("h3", place);
    write_validation(html, *one, place);
    html->close("section");
  }
  html->close("div");
}

}  // namespace

void write_validations(HtmlWriter* html, const std::vector<Validation>& validations) {
  if (validations.empty()) return;
  write_heading(html, "validations", "Validation of variants",
                "Variants of a model beside the teacher that they come from. One passes whose time "
                "is at most 1.05 times the teacher\u2019s and whose error is at most 1.5 times the "
                "teacher\u2019s plus 0.001, at every batch.");
  size_t number = 0;
  for (size_t begin = 0; begin < validations.size();) {
    std::vector<const Validation*> group;
    for (; begin < validations.size(); ++begin) {
      const Validation& one = validations[begin];
      if (!group.empty() && one.head.name != group.front()->head.name) break;
      group.push_back(&one);
    }
    RunHead head = group.front()->head;
    if (group.size() > 1) head.device = head.machine = "";  // the tabs name them
    write_run_heading(html, head);
    if (group.size() == 1) {
      write_validation(html, *group.front(), place_of(group.front()->head, false));
    } else {
      write_tabs(html, group, ++number);
    }
  }
}

}  // namespace clients
