#include "clients/cli/base/progress.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <span>

#include "clients/cli/base/report.h"
#include "clients/cli/base/wrap.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/text/units.h"

namespace clients {
namespace {

using common::cat;

constexpr int64_t kLineEveryNs = 2'000'000'000;

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

// One part of the line. Parts of the highest rank are left out first where a line is too long.
struct Part {
  std::string text;
  int rank;
};

std::string joined(std::span<const Part> parts, int rank_max) {
  std::string line;
  for (const Part& part : parts) {
    if (!part.text.empty() && part.rank <= rank_max) line += part.text;
  }
  return line;
}

}  // namespace

std::string progress_line(const common::Progress& progress, uint64_t budget_ms, size_t width) {
  std::string stage = progress.stage;
  stage.resize(std::max<size_t>(stage.size(), 10), ' ');
  std::string count = cat(' ', progress.candidates_done);
  if (progress.candidates_total != 0) count += cat('/', progress.candidates_total);
  auto best = static_cast<double>(progress.best_ns);
  auto plain = static_cast<double>(progress.baseline_ns);
  auto expected = static_cast<double>(progress.expected_ns);
  std::string ratio =
      best > 0 && plain > 0 ? cat(" (", common::ratio_text(plain / best), "x)") : "";
  bool has_hope = expected > 0 && (best == 0 || expected < best);
  double left_ms = left_ms_of(progress, budget_ms);
  const std::array<Part, 8> parts{{
      {stage, 0},
      {count, 0},
      {" candidates", 3},
      {best > 0 ? cat(", best ", duration_text(best)) : "", 1},
      {plain > 0 ? cat(", plain ", duration_text(plain), ratio) : "", 2},
      {has_hope ? cat(", expected ", duration_text(expected)) : "", 4},
      {cat(", ", progress.workers, progress.workers == 1 ? " worker" : " workers"), 5},
      {left_ms > 0 ? cat(", about ", duration_text(left_ms * 1e6), " left") : "", 0},
  }};
  int rank = 5;
  while (rank > 0 && joined(parts, rank).size() > width) --rank;
  return joined(parts, rank);
}

Progress::Progress(bool quiet) : terminal_(::isatty(STDERR_FILENO) != 0), quiet_(quiet) {}

Progress::~Progress() { clear(); }

void Progress::show(const std::string& line) {
  if (terminal_) {
    std::string fitting = line.substr(0, terminal_width(STDERR_FILENO));
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
  size_t width = terminal_ ? terminal_width(STDERR_FILENO) : std::string::npos;
  show(progress_line(progress, budget_ms, width));
}

void Progress::clear() {
  if (!terminal_ || width_ == 0) return;
  std::fprintf(stderr, "\r%*s\r", static_cast<int>(width_), "");
  std::fflush(stderr);
  width_ = 0;
}

}  // namespace clients
