#include "clients/cli/base/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "clients/cli/base/report.h"
#include "common/base/cat.h"
#include "common/base/clock.h"

namespace clients {
namespace {

using common::cat;

constexpr int64_t kLineEveryNs = 2'000'000'000;

// Columns of the terminal; a line that is longer would not stay one line.
size_t terminal_width() {
  winsize size{};
  bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col - size_t{1} : size_t{79};
}

// "3.4x"
std::string ratio_text(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2fx", ratio);
  return text;
}

// The lesser of what candidates and time leave; 0 when nothing is left, or nothing is known.
double left_ms_of(const common::Progress& progress, uint64_t budget_ms) {
  auto elapsed_ms = static_cast<double>(progress.elapsed_ms);
  double left_ms = std::numeric_limits<double>::infinity();
  if (progress.candidates_total > progress.candidates_done && progress.candidates_done > 0) {
    left_ms = elapsed_ms / static_cast<double>(progress.candidates_done) *
              static_cast<double>(progress.candidates_total - progress.candidates_done);
  }
  if (budget_ms != 0) {
    left_ms = std::min(left_ms, std::max(static_cast<double>(budget_ms) - elapsed_ms, 0.0));
  }
  return std::isinf(left_ms) ? 0 : left_ms;
}

// "search     12/64 candidates, best 4.1 ms, plain 4.1 ms (1.00x), expected 1.2 ms, 2 workers,
// about 9 s left". What is expected is an estimate, and of interest while nothing measured is as
// good.
std::string progress_line(const common::Progress& progress, uint64_t budget_ms) {
  std::string line = progress.stage;
  line.resize(std::max<size_t>(line.size(), 10), ' ');
  line += cat(' ', progress.candidates_done);
  if (progress.candidates_total != 0) line += cat('/', progress.candidates_total);
  line += " candidates";
  auto best = static_cast<double>(progress.best_ns);
  if (best > 0) line += cat(", best ", duration_text(best));
  if (auto plain = static_cast<double>(progress.baseline_ns); plain > 0) {
    line += cat(", plain ", duration_text(plain));
    if (best > 0) line += cat(" (", ratio_text(plain / best), ")");
  }
  auto expected = static_cast<double>(progress.expected_ns);
  bool has_hope = expected > 0 && (best == 0 || expected < best);
  if (has_hope) line += cat(", expected ", duration_text(expected));
  line += cat(", ", progress.workers, progress.workers == 1 ? " worker" : " workers");
  double left_ms = left_ms_of(progress, budget_ms);
  if (left_ms > 0) line += cat(", about ", duration_text(left_ms * 1e6), " left");
  return line;
}

}  // namespace

Progress::Progress(bool quiet) : terminal_(::isatty(STDERR_FILENO) != 0), quiet_(quiet) {}

Progress::~Progress() { clear(); }

void Progress::show(const std::string& line) {
  if (terminal_) {
    std::string fitting = line.substr(0, terminal_width());
    std::string padded = fitting;
    padded.resize(std::max(padded.size(), width_), ' ');
    std::fprintf(stderr, "\r%s", padded.c_str());
    width_ = fitting.size();
  } else if (!quiet_) {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
}

void Progress::stage(const std::string& text) { show(text); }

void Progress::update(const common::Progress& progress, uint64_t budget_ms) {
  bool is_stuck = !progress.trouble.empty();
  if (is_stuck && !was_stuck_) stage(cat("waiting: ", progress.trouble));
  was_stuck_ = is_stuck;
  if (is_stuck) return;
  int64_t now = common::SteadyClock().now_ns();
  bool due = progress.stage != last_stage_ || now - last_line_ns_ >= kLineEveryNs;
  if (!terminal_ && !due) return;
  last_stage_ = progress.stage;
  last_line_ns_ = now;
  show(progress_line(progress, budget_ms));
}

void Progress::clear() {
  if (!terminal_ || width_ == 0) return;
  std::fprintf(stderr, "\r%*s\r", static_cast<int>(width_), "");
  std::fflush(stderr);
  width_ = 0;
}

}  // namespace clients
