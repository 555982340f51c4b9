#include "clients/cli/base/table.h"

#include <algorithm>
#include <cstdio>

namespace clients {

Table::Table(std::vector<std::string> header) : has_header_(!header.empty()) {
  if (has_header_) rows_.push_back(std::move(header));
}

void Table::row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

void Table::print() {
  if (rows_.size() <= (has_header_ ? 1u : 0u)) return;
  for (const auto& row : rows_) {
    widths_.resize(std::max(widths_.size(), row.size()));
    for (size_t k = 0; k < row.size(); ++k) widths_[k] = std::max(widths_[k], row[k].size());
  }
  for (const auto& row : rows_) {
    std::string line;
    for (size_t k = 0; k < row.size(); ++k) {
      std::string cell = row[k];
      if (k + 1 < row.size()) cell.resize(widths_[k] + 2, ' ');
      line += cell;
    }
    std::printf("%s\n", line.c_str());
  }
  rows_.clear();
  has_header_ = false;
}

}  // namespace clients
