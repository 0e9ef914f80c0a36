#include "autosp/passes/report.h"

#include <algorithm>

#include "autosp/passes/checkpoint_report.h"

namespace autosp::passes {

void Report::remark(Diagnostic diagnostic) {
  diagnostic.severity = Severity::kRemark;
  diagnostics_.push_back(std::move(diagnostic));
}

void Report::warning(Diagnostic diagnostic) {
  diagnostic.severity = Severity::kWarning;
  diagnostics_.push_back(std::move(diagnostic));
}

void Report::entry(std::string section, std::string key, std::string value) {
  entries_.push_back({std::move(section), std::move(key), std::move(value)});
}

std::string Report::text() const {
  std::string out;
  for (const Diagnostic& diagnostic : diagnostics_) {
    out += severityText(diagnostic) + "\n";
  }
  if (!conversions_.empty()) {
    out += "conversions:\n";
  }
  for (const Conversion& c : conversions_) {
    out += "  " + c.value + " " + c.from.text() + " -> " + c.to.text() + " for " + c.reader;
    out += (c.location.empty() ? "" : " (" + c.location + ")") + ": forward " + c.forward;
    out += ", backward " + c.backward + ", " + std::to_string(c.bytes) + " bytes\n";
  }
  std::vector<std::string> sections;
  for (const Entry& entry : entries_) {
    if (std::find(sections.begin(), sections.end(), entry.section) == sections.end()) {
      sections.push_back(entry.section);
    }
  }
  for (const std::string& section : sections) {
    out += section + ":\n";
    for (const Entry& entry : entries_) {
      if (entry.section == section) {
        out += "  " + entry.key + ": " + entry.value + "\n";
      }
    }
  }
  return checkpoints ? out + checkpointText(*checkpoints) : out;
}

std::string severityText(const Diagnostic& diagnostic) {
  switch (diagnostic.severity) {
    case Severity::kRemark:
      return "remark: " + diagnostic.text();
    case Severity::kWarning:
      return "warning: " + diagnostic.text();
    case Severity::kError:
      break;
  }
  return "error: " + diagnostic.text();
}

}  // namespace autosp::passes
