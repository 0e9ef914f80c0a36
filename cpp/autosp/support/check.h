// Internal invariants. A failed check is this project's own fault, never the user's: it throws
// InternalError and never aborts, because the host process is someone's training job.
#pragma once

#include <stdexcept>
#include <string>

namespace autosp {

// Raised when an invariant of the compiler itself does not hold.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void failCheck(const char* condition, const std::string& message, const char* file,
                            int line);

}  // namespace autosp

// On in release builds too.
#define AUTOSP_CHECK(condition, message)                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      ::autosp::failCheck(#condition, (message), __FILE__, __LINE__);      \
    }                                                                      \
  } while (false)
