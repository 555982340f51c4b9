// What benchmarks, checks and searches found out, one record a run: what `lfarm report` shows and
// what later runs are held against.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace common {

// Of one run of a model (or of whatever `Record::model` names), by the clock of the host.
struct Latency {
  double median_ns = 0;
  double spread_ns = 0;  // between the quartiles; 0 where nobody said
  int64_t runs = 0;      // that the median is of; 0 where nobody said
  friend bool operator==(const Latency&, const Latency&) = default;
};

// The greatest over all outputs, against the reference.
struct OutputErrors {
  double absolute = 0;
  double relative = 0;  // |x - reference| / max(|reference|, the reference's median magnitude)
  friend bool operator==(const OutputErrors&, const OutputErrors&) = default;
};

// What a search had found after some of its budget.
struct SearchPoint {
  std::string strategy;  // "", or what tells searches of one model apart
  int64_t budget = 0;    // candidates that it might try
  int64_t candidates = 0;
  uint64_t seed = 0;
  double best_ns = 0;
  double baseline_ns = 0;  // of the plain program; 0 where it was not measured
  friend bool operator==(const SearchPoint&, const SearchPoint&) = default;
};

// A condition that whoever measured had set.
struct GateResult {
  std::string name;
  bool passed = false;
  std::string detail;
  friend bool operator==(const GateResult&, const GateResult&) = default;
};

struct Record {
  int64_t at_ns = 0;    // since 1970
  std::string source;   // the program that measured: "lfarm check"
  std::string machine;  // its name
  std::string device;   // the target: "cpu-x86_64-avx512"
  std::string backend;  // "lfarm", "interpreter", "eager", "inductor", "onnxruntime", ...
  std::string model;
  std::string sizes;  // of its symbols, "s0=4,s1=128"; empty where it has none
  std::optional<int64_t> batch;
  std::string dtype;  // "f32"; empty where it says nothing
  std::optional<Latency> latency;
  std::optional<OutputErrors> error;
  std::optional<SearchPoint> search;
  std::vector<GateResult> gates;
  friend bool operator==(const Record&, const Record&) = default;
};

inline constexpr size_t kRecordTextMax = 256;     // bytes of each text of a record
inline constexpr size_t kRecordDetailMax = 1024;  // of a gate's detail
inline constexpr size_t kRecordGatesMax = 64;

// kInvalidInput naming the field: texts are UTF-8 of bounded length without control characters;
// source, device, backend and model are not empty; numbers are finite and not negative, and best
// times, medians and batches positive.
Status check_record(const Record& record);

// kInvalidInput naming the field: not UTF-8, longer than that, a control character, or empty
// although it may not be.
Status check_record_text(const char* field, std::string_view text, size_t bytes_max,
                         bool may_be_empty);

// What to call this machine in records.
std::string machine_name();

// Cut and cleaned so that check_record() takes it as a text.
std::string record_text(std::string_view text, size_t bytes_max = kRecordTextMax);

}  // namespace common
