// Values to bytes and back by one description of their fields, so that both directions agree.
//
//   template <class Archive, class Value>  // Value: StageTime, const where it is written
//   void fields(Archive& archive, Value& time) { archive(time.stage, time.ms); }
//
// Both ends are of one build (search_frames.h), so that nothing of this has versions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cache/store/records.h"
#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/wire/task.h"
#include "coordinator/search/records/tuning_records.h"

namespace coordinator::service {

// The last value of an enumeration: what is read beyond it is damaged.
template <class Enum>
constexpr Enum kLastOf{};
template <>
inline constexpr common::Code kLastOf<common::Code> = common::Code::kOutOfRange;
template <>
inline constexpr common::TaskKind kLastOf<common::TaskKind> = common::TaskKind::kComparison;
template <>
inline constexpr common::Template kLastOf<common::Template> = common::Template::kHorizontal;
template <>
inline constexpr TuningRecordKind kLastOf<TuningRecordKind> = TuningRecordKind::kKin;

class FieldsWriter {
 public:
  template <class... Values>
  void operator()(const Values&... values) {
    (put(values), ...);
  }
  std::string take() { return std::move(out_); }

 private:
  template <class Value>
  void put(const Value& value) {
    if constexpr (std::is_same_v<Value, double>) {
      cache::append_f64(out_, value);
    } else if constexpr (std::is_enum_v<Value> || std::is_integral_v<Value>) {
      cache::append_u64(out_, static_cast<uint64_t>(value));
    } else {
      fields(*this, value);
    }
  }
  void put(const std::string& text) {
    cache::append_u64(out_, text.size());
    out_ += text;
  }
  void put(const common::Bytes& bytes) {
    cache::append_u64(out_, bytes.size());
    out_ += common::as_text(bytes);
  }
  void put(const common::Digest& digest) { cache::append_digest(out_, digest); }
  template <class Value>
  void put(const std::optional<Value>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <class First, class Second>
  void put(const std::pair<First, Second>& pair) {
    put(pair.first);
    put(pair.second);
  }
  template <class Value>
  void put(const std::vector<Value>& values) {
    put(values.size());
    for (const Value& value : values) put(value);
  }

  std::string out_;
};

// A read beyond the end fails and leaves `ok()` false for good.
class FieldsReader {
 public:
  explicit FieldsReader(std::string_view bytes) : in_(bytes) {}

  template <class... Values>
  void operator()(Values&... values) {
    (get(values), ...);
  }
  bool ok() const { return ok_ && in_.ok(); }
  bool done() const { return ok_ && in_.done(); }
  // What was read makes no sense.
  void fail() { ok_ = false; }

 private:
  template <class Value>
  void get(Value& value) {
    if constexpr (std::is_same_v<Value, double>) {
      value = in_.f64();
    } else if constexpr (std::is_same_v<Value, bool>) {
      value = in_.u64() != 0;
    } else if constexpr (std::is_enum_v<Value>) {
      uint64_t number = in_.u64();
      if (number > static_cast<uint64_t>(kLastOf<Value>)) return fail();
      value = static_cast<Value>(number);
    } else if constexpr (std::is_integral_v<Value>) {
      value = static_cast<Value>(in_.u64());
    } else {
      fields(*this, value);
    }
  }
  void get(std::string& text) { text = std::string(in_.take(in_.u64())); }
  void get(common::Bytes& bytes) {
    bytes = common::to_bytes(common::as_bytes(in_.take(in_.u64())));
  }
  void get(common::Digest& digest) { digest = in_.digest(); }
  template <class Value>
  void get(std::optional<Value>& value) {
    bool has_value = false;
    get(has_value);
    if (!has_value) return;
    value.emplace();
    get(*value);
  }
  template <class First, class Second>
  void get(std::pair<First, Second>& pair) {
    get(pair.first);
    get(pair.second);
  }
  template <class Value>
  void get(std::vector<Value>& values) {
    for (uint64_t left = in_.u64(); left > 0 && has_more(); --left) get(values.emplace_back());
  }
  // An element takes a byte at least: a count of more is no reason to go on.
  bool has_more() {
    if (in_.rest().empty()) fail();
    return ok();
  }

  cache::FieldReader in_;
  bool ok_ = true;
};

}  // namespace coordinator::service
