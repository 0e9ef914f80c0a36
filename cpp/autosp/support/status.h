// Errors that are the fault of the graph, the options or the text: values, not exceptions.
// A Diagnostic names what was found, where (the op and the model's own source line) and what to do.
// Status carries at most one error; Result<T> a value or an error. Remarks and warnings travel in the
// Report (driver/), never here.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "autosp/support/check.h"

namespace autosp {

enum class Severity { kRemark, kWarning, kError };

struct Diagnostic {
  Severity severity = Severity::kError;
  std::string op;        // the op's name and result, e.g. "aten.sort.default on %5"; may be empty
  std::string location;  // the model's source line, "model.py:88"; may be empty
  std::string message;   // what was found
  std::string remedy;    // what the user can do; may be empty

  // "aten.sort.default on %5 (model.py:88): message. remedy"
  std::string text() const;
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Diagnostic error) : error_(std::move(error)) {}  // NOLINT: implicit on purpose
  static Status ok() { return {}; }
  static Status error(std::string message) {
    return Diagnostic{Severity::kError, "", "", std::move(message), ""};
  }
  bool isOk() const { return !error_.has_value(); }
  const Diagnostic& diagnostic() const { return *error_; }

 private:
  std::optional<Diagnostic> error_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}            // NOLINT: implicit on purpose
  Result(Diagnostic error) : state_(std::move(error)) {}   // NOLINT: implicit on purpose
  Result(Status error) : state_(error.diagnostic()) {}     // NOLINT: implicit on purpose
  bool isOk() const { return std::holds_alternative<T>(state_); }
  const T& value() const& {
    AUTOSP_CHECK(isOk(), "value of a failed Result");
    return std::get<T>(state_);
  }
  T&& value() && {
    AUTOSP_CHECK(isOk(), "value of a failed Result");
    return std::get<T>(std::move(state_));
  }
  const Diagnostic& diagnostic() const { return std::get<Diagnostic>(state_); }
  Status status() const { return isOk() ? Status() : Status(diagnostic()); }

 private:
  std::variant<T, Diagnostic> state_;
};

}  // namespace autosp

// Leaves the current function with the error, if there is one.
#define AUTOSP_RETURN_IF_ERROR(expr)                          \
  do {                                                        \
    if (::autosp::Status status_ = (expr); !status_.isOk()) { \
      return status_;                                         \
    }                                                         \
  } while (false)

// Declares or sets `target` from a Result, or leaves the current function with its error.
#define AUTOSP_ASSIGN_OR_RETURN(target, expr) \
  AUTOSP_ASSIGN_OR_RETURN_AT(AUTOSP_JOIN(result_at_line_, __LINE__), target, expr)
#define AUTOSP_ASSIGN_OR_RETURN_AT(result, target, expr) \
  auto result = (expr);                                  \
  if (!result.isOk()) {                                  \
    return result.diagnostic();                          \
  }                                                      \
  target = std::move(result).value()
#define AUTOSP_JOIN(a, b) AUTOSP_JOIN_EXPANDED(a, b)
#define AUTOSP_JOIN_EXPANDED(a, b) a##b
