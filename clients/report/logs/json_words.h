// Reads the words of a JSON object one by one, and says which one is wrong.
//
//   Words words(object);
//   words.text("model", &model, Need::kNeeded);
//   words.count("batch", &batch);
//   LFARM_RETURN_IF_ERROR(words.finish());  // '"batch" is not a whole number from 0'
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "clients/report/logs/run_head.h"
#include "common/base/result.h"

namespace clients {

// The object that a line holds. kInvalidInput: it is none, or a word comes twice in it or in one
// within, which JSON's own reader would let pass.
common::Result<nlohmann::json> parse_object(std::string_view text);

// Single values. kInvalidInput names the word. Times are "2026-11-21T22:45:36Z", and then
// nanoseconds since 1970.
common::Status read_text(const std::string& word, const nlohmann::json& value, std::string* into);
common::Status read_number(const std::string& word, const nlohmann::json& value, double* into);
common::Status read_count(const std::string& word, const nlohmann::json& value, int64_t* into);
common::Status read_time(const std::string& word, const nlohmann::json& value, int64_t* into);

// kInvalidInput for a number below 0.
common::Status check_not_negative(const char* word, double value);

enum class Need { kOptional, kNeeded };

// Reads stop at the first error, which finish() gives; what an absent word is for stays as it was.
// In lists `null` is a number that is not finite, which JSON cannot write: NaN.
class Words {
 public:
  // The object outlives this.
  explicit Words(const nlohmann::json& object) : object_(object) {}

  bool has(const char* word) const;
  // Of at most kRecordTextMax bytes, without control characters, not empty.
  void text(const char* word, std::string* into, Need need = Need::kOptional);
  void count(const char* word, int64_t* into, Need need = Need::kOptional);
  void number(const char* word, double* into, Need need = Need::kOptional);
  void time(const char* word, int64_t* into);
  void flag(const char* word, bool* into, Need need = Need::kOptional);
  // From 1 to `count_max` of them.
  void numbers(const char* word, std::vector<double>* into, size_t count_max);
  // Rows of equal length, at most `cells_max` numbers in all; at least one.
  void rows(const char* word, NumberRows* into, size_t cells_max);
  // {"name": number, ...}, in the order of names.
  void named_numbers(const char* word, NamedNumbers* into, size_t count_max);

  // The first error so far.
  common::Status status() const { return error_ ? common::Status(*error_) : common::Status(); }
  // Also refuses a word that nobody read.
  common::Status finish();

 private:
  // The value to read; null where there is none or an error came before.
  const nlohmann::json* find(const char* word, Need need);
  void keep(const common::Status& status);

  const nlohmann::json& object_;
  std::set<std::string> read_;
  std::optional<common::Error> error_;
};

}  // namespace clients
