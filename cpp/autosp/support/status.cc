// One stable layout for every diagnostic.
#include "autosp/support/status.h"

namespace autosp {

std::string Diagnostic::text() const {
  std::string out = op;
  if (!location.empty()) {
    out += (out.empty() ? "(" : " (") + location + ")";
  }
  if (!out.empty()) {
    out += ": ";
  }
  out += message;
  if (!remedy.empty()) {
    if (!out.empty() && out.back() != '.') {
      out += '.';
    }
    out += ' ' + remedy;
  }
  return out;
}

}  // namespace autosp
