// A plan's run beside another runtime's profile of the same model: operator by operator, in
// launches and as a whole.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace clients {

struct PlanRun;

struct OperatorTime {
  std::string name;
  double ms = 0;  // of one run
};
struct OtherRuntime {
  std::string name;
  std::vector<OperatorTime> operators;
  double launches = 0;  // of one run: kernels, or operators that call no other; 0: not known
  double run_ms = 0;    // of one run by the clock; 0: not known
};

struct OperatorRatio {
  std::string name;
  double ms = 0, other_ms = 0;
  double ratio() const { return ms / other_ms; }
};
enum class ParityVerdict { kParity, kSlower, kNotComparable };
struct Parity {
  std::string runtime;
  ParityVerdict verdict = ParityVerdict::kNotComparable;
  std::vector<OperatorRatio> common;               // by name
  std::vector<std::string> only_here, only_there;  // operators of one of them
  // What takes longer here than there, the largest difference first, kGaps at most. Operators that
  // are only here count whole: there they may be a part of others.
  std::vector<OperatorRatio> gaps;
  std::optional<OperatorRatio> whole;  // a run by the clock
  double launches = 0;
  std::optional<double> other_launches;
};
inline constexpr double kParityRatio = 1.10;
inline constexpr size_t kGaps = 5;
// Parity when all common operators take at most 1.10 times as long as there.
Parity parity_with(const PlanRun& run, const OtherRuntime& other);

// What an operator of any runtime is called here: "aten::addmm" and "MatMul" are "matmul". Names
// that mean nothing here stay, in small letters.
std::string operation_name(const std::string& name);

}  // namespace clients
