#include "clients/cli/compare/compared_row.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/text/units.h"

namespace clients {

using common::cat;

namespace {

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  double place = share * static_cast<double>(values.size() - 1);
  auto below = static_cast<size_t>(place);
  size_t above = std::min(below + 1, values.size() - 1);
  double part = place - static_cast<double>(below);
  return values[below] * (1 - part) + values[above] * part;
}

}  // namespace

const SideResult* side_of(const ModelRow& row, const std::string& name) {
  for (const SideResult& side : row.sides) {
    if (side.name == name) return &side;
  }
  return nullptr;
}

double RowBound::least_ms() const {
  double compute = operations_per_s > 0 ? operations / operations_per_s : 0;
  double read = bytes_per_s > 0 ? bytes / bytes_per_s : 0;
  return 1e3 * std::max(compute, read);
}

bool RowBound::is_reads() const {
  return operations_per_s <= 0 || bytes * operations_per_s >= operations * bytes_per_s;
}

std::optional<double> median_ms(const SideResult& side) {
  if (side.us.empty()) return std::nullopt;
  return quantile(side.us, 0.5) / 1e3;
}

double spread_ms(const SideResult& side) {
  return side.us.empty() ? 0 : (quantile(side.us, 0.75) - quantile(side.us, 0.25)) / 1e3;
}

const SideResult* best_peer(const ModelRow& row) {
  const SideResult* best = nullptr;
  for (const SideResult& side : row.sides) {
    if (side.name == kLfarmSide || !side.competes || side.us.empty()) continue;
    if (best == nullptr || *median_ms(side) < *median_ms(*best)) best = &side;
  }
  return best;
}

std::optional<double> ratio_to_best(const ModelRow& row) {
  const SideResult* own = side_of(row, kLfarmSide);
  const SideResult* best = best_peer(row);
  if (own == nullptr || own->us.empty() || best == nullptr || !row.problem.empty()) {
    return std::nullopt;
  }
  return *median_ms(*best) / *median_ms(*own);
}

std::optional<double> roofline_share(const ModelRow& row, const SideResult& side) {
  auto ms = median_ms(side);
  if (!ms || row.bound.least_ms() <= 0) return std::nullopt;
  return row.bound.least_ms() / *ms;
}

std::string refusal_of(const PeerFacts& facts, bool has_vectors) {
  if (facts.blas == "reference") {
    return cat("computes products with the reference BLAS (", facts.blas_path,
               "): no ratio; install OpenBLAS for OpenMP there");
  }
  if (facts.blas.empty() || facts.blas == "unknown") {
    return cat("its BLAS is not known",
               facts.blas_path.empty() ? "" : cat(" (", facts.blas_path, ")"), ": no ratio");
  }
  bool is_plain = facts.capability == "DEFAULT" || facts.capability == "NO AVX";
  if (is_plain && has_vectors) {
    return "uses none of the processor's vectors (is /proc mounted where it runs?): no ratio";
  }
  return "";
}

std::string roofline_text(const Roofline& roofline) {
  double bytes_per_s = roofline.reads.empty() ? 0 : roofline.reads.back().bytes_per_s;
  return cat(roofline.device, ": ", common::fixed_text(roofline.operations_per_s / 1e9, 0),
             " GFLOP/s float32, reads memory at ", common::fixed_text(bytes_per_s / 1e9, 1),
             " GB/s");
}

std::string facts_text(const PeerFacts& facts) {
  std::string text = facts.onnxruntime.empty() ? cat("torch ", facts.torch)
                                               : cat("onnxruntime ", facts.onnxruntime);
  text += cat(", BLAS ", facts.blas.empty() ? "not named" : facts.blas);
  if (!facts.blas_path.empty()) text += cat(" (", facts.blas_path, ")");
  if (!facts.capability.empty()) text += cat(", ", facts.capability);
  return text;
}

}  // namespace clients
