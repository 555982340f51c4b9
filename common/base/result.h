// Result<T>: a value or an operating error whose code names the caller's next move.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "common/base/check.h"

namespace common {

// What the caller should do next, not where the error came from.
enum class Code {
  kInvalidInput,  // change the input; the same call fails again           (exit code 2)
  kUnsupported,   // the model uses something lfarm does not know          (exit code 3)
  kUnavailable,   // the other side is away: retry elsewhere or later      (exit code 4)
  kVerification,  // outputs differ from the reference: do not use them    (exit code 5)
  kCorrupt,       // stored or received bytes are damaged: fetch or build again
  kTimedOut,      // the time given was not enough
  kDeviceSick,    // the device or its driver failed: use another worker
  kInternal,      // an operating-system call failed in a way nobody expected
  kOutOfRange,    // an index among a model's inputs: change it; crosses no wire
};

// A short stable name, such as "invalid input".
const char* code_name(Code code);

// One line: what, where, what to do.
struct Error {
  Code code = Code::kInternal;
  std::string message;
};

inline Error invalid_input(std::string m) { return {Code::kInvalidInput, std::move(m)}; }
inline Error unsupported(std::string m) { return {Code::kUnsupported, std::move(m)}; }
inline Error unavailable(std::string m) { return {Code::kUnavailable, std::move(m)}; }
inline Error corrupt(std::string m) { return {Code::kCorrupt, std::move(m)}; }
inline Error internal_error(std::string m) { return {Code::kInternal, std::move(m)}; }

// Holds a T or an Error. value() on an error is a bug and aborts.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  T& value() & {
    LFARM_CHECK(ok(), error_text());
    return std::get<0>(state_);
  }
  const T& value() const& {
    LFARM_CHECK(ok(), error_text());
    return std::get<0>(state_);
  }
  T&& value() && {
    LFARM_CHECK(ok(), error_text());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const {
    LFARM_CHECK(!ok(), "error() called on a value");
    return std::get<1>(state_);
  }

 private:
  std::string error_text() const { return ok() ? "" : std::get<1>(state_).message; }
  std::variant<T, Error> state_;
};

// Result<void>: success or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit
  bool ok() const { return error_.index() == 0; }
  const Error& error() const {
    LFARM_CHECK(!ok(), "error() called on success");
    return std::get<1>(error_);
  }

 private:
  std::variant<std::monostate, Error> error_;
};
using Status = Result<void>;

}  // namespace common

#define LFARM_CONCAT_INNER(a, b) a##b
#define LFARM_CONCAT(a, b) LFARM_CONCAT_INNER(a, b)

// Returns the error of `expression` from the enclosing function, if it has one.
#define LFARM_RETURN_IF_ERROR(expression)                \
  do {                                                   \
    auto lfarm_status = (expression);                    \
    if (!lfarm_status.ok()) return lfarm_status.error(); \
  } while (false)

// LFARM_ASSIGN_OR_RETURN(auto x, f()): binds the value or returns the error.
#define LFARM_ASSIGN_OR_RETURN(lhs, expression)              \
  auto LFARM_CONCAT(lfarm_result_, __LINE__) = (expression); \
  if (!LFARM_CONCAT(lfarm_result_, __LINE__).ok()) {         \
    return LFARM_CONCAT(lfarm_result_, __LINE__).error();    \
  }                                                          \
  lhs = std::move(LFARM_CONCAT(lfarm_result_, __LINE__)).value()  // NOLINT: lhs may declare
