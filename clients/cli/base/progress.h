// How far long work is: one line that changes on a terminal, a line now and then elsewhere.
#pragma once

#include <cstdint>
#include <string>

#include "common/wire/messages.h"

namespace clients {

// "search     12/64 candidates, best 4.1 ms, plain 4.1 ms (1.00x), expected 1.2 ms, 2 workers,
// about 9 s left". What is expected is an estimate, and is said while nothing measured is as good.
// Where all of that takes more than `width` columns, parts are left out from the least important
// on; the stage, the candidates' number and the time that is left never are.
std::string progress_line(const common::Progress& progress, uint64_t budget_ms, size_t width);

class Progress {
 public:
  // Writes to standard error. `quiet`: only to a terminal.
  explicit Progress(bool quiet);
  // Writes nothing.
  static Progress none() { return Progress(false, true); }
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // A new stage, such as "starting a farm".
  void stage(const std::string& text);
  // `budget_ms`: the search's time, 0 where only candidates bound it.
  void update(const common::Progress& progress, uint64_t budget_ms);
  // Takes the changing line away.
  void clear();

 private:
  Progress(bool terminal, bool quiet) : terminal_(terminal), quiet_(quiet) {}
  void show(const std::string& line);
  bool terminal_;
  bool quiet_;
  size_t width_ = 0;  // of the line that stands there
  std::string last_stage_;
  int64_t last_line_ns_ = 0;
  bool was_stuck_ = false;  // and why has been said
};

}  // namespace clients
