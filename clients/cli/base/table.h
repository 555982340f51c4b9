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
  // To standard output; nothing when there are no rows.
  void print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  bool has_header_;
};

}  // namespace clients
