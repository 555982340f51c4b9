#include "clients/report/run_sections.h"

#include "clients/report/drawing/figures.h"
#include "clients/report/page.h"
#include "common/base/cat.h"

namespace clients {

using common::cat;

namespace {

std::string block_text(size_t row_block, size_t column_block) {
  if (row_block == 1 && column_block == 1) return "";
  return cat(" Each cell is the mean of ", row_block, " \u00d7 ", column_block, ".");
}

}  // namespace

void write_run_heading(HtmlWriter* html, const RunHead& head) {
  html->line();
  html->open("h3");
  html->element("bdi", head.name);
  std::string place = head.device;
  if (!head.machine.empty()) place += cat(place.empty() ? "" : " of ", head.machine);
  if (!place.empty()) html->element("span", cat(" on ", place), {{"class", "note"}});
  html->close("h3");
  html->open("p", {{"class", "sub"}});
  html->text(time_text(head.at_ns));
  if (!head.note.empty()) {
    html->text("; ");
    html->element("bdi", head.note);
  }
  html->close("p");
}

void write_fact(HtmlWriter* html, const std::string& what, const std::string& value,
                const char* look) {
  html->open("div");
  html->element("dt", what);
  html->element("dd", value, {{"class", look}});
  html->close("div");
}

std::string count_of(int64_t count) {
  std::string text = cat(count);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

void write_map_figure(HtmlWriter* html, const std::string& caption, const HeatMap& whole,
                      const HeatScale& scale) {
  size_t row_block = 1, column_block = 1;
  HeatMap map = shrunk(whole, &row_block, &column_block);
  html->line();
  html->open("figure");
  html->open("figcaption");
  html->element("bdi", caption);
  html->close("figcaption");
  scale.write_key(html);
  write_heat_map(html, map, scale,
                 cat(caption, ", as a heat map; the table below has the values."));
  html->open("details");
  html->element("summary", cat("Values as a table.", block_text(row_block, column_block)));
  std::vector<std::string> columns{map.rows.empty() ? "Row" : map.rows};
  for (size_t k = 0; k < map.values.front().size(); ++k) {
    columns.push_back(k < map.column_names.size() ? map.column_names[k] : cat(k));
  }
  begin_table(html, caption, columns, 1);
  for (size_t r = 0; r < map.values.size(); ++r) {
    html->line();
    html->open("tr");
    html->element("th", r < map.row_names.size() ? map.row_names[r] : cat(r), {{"scope", "row"}});
    for (double value : map.values[r]) {
      html->element("td", value_text(value), {{"class", "num"}});
    }
    html->close("tr");
  }
  end_table(html);
  html->close("details");
  html->close("figure");
}

}  // namespace clients
