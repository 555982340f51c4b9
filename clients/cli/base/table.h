// Text in aligned columns.
#pragma once

#include <string>
#include <vector>

namespace clients {

class Table {
 public:
  // An empty `header` is not printed.
  explicit Table(std::vector<std::string> header);
  void row(std::vector<std::string> cells);
  // Writes the rows since the last print() to standard output, the header before the first; nothing
  // when there are none. Columns are as wide as in what was printed before, or wider.
  void print();

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> widths_;
  bool has_header_;  // which is the first of rows_
};

}  // namespace clients
