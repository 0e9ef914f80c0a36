// Builds the text of a failed internal check.
#include "autosp/support/check.h"

#include <string_view>

namespace autosp {

void failCheck(const char* condition, const std::string& message, const char* file, int line) {
  std::string_view path(file);
  if (auto slash = path.rfind('/'); slash != std::string_view::npos) {
    path.remove_prefix(slash + 1);
  }
  throw InternalError("internal error: " + message + " [" + condition + " at " +
                      std::string(path) + ":" + std::to_string(line) + "]");
}

}  // namespace autosp
