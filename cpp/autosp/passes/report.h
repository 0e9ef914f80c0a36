// What the passes tell the user, collected and never printed by the core: remarks and warnings, the
// conversions that the plan inserts with their bytes, and named facts. Its text is the same on
// every rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autosp/ir/form.h"
#include "autosp/support/status.h"

namespace autosp::passes {

// One change of form, as the plan inserts it.
struct Conversion {
  std::string value;     // "%5"
  std::string reader;    // "aten.mm.default on %9"; "output" for what the program returns
  std::string location;  // the reader's source line
  ir::Form from;
  ir::Form to;
  std::string forward;     // "all-gather", "all-to-all", "slice", "none"
  std::string backward;    // the same, of the gradient; "none" when it has no gradient
  std::int64_t bytes = 0;  // sent by a rank, forward and backward together
};

// A fact under a heading: {"attention", "%41", "ulysses; ring would cost 12 MiB more"}.
struct Entry {
  std::string section;
  std::string key;
  std::string value;
};

// What the plan did, in numbers.
struct Summary {
  std::int64_t sequence_length = 0;   // of the longest input that holds the sequence; 0: not known
  int values_cut = 0;                 // float activations that carry the sequence, computed cut
  int values_whole = 0;               // the same, computed whole on every rank
  std::int64_t sequence_bytes = 0;    // of both together
  std::int64_t whole_bytes = 0;       // of the second
  int ops_made_whole = 0;             // ops that read the sequence and have no sharding rule
  std::int64_t bytes_made_whole = 0;  // of their operands
  std::int64_t plan_time = 0;         // picoseconds, as priced
};

// What choose-checkpoints took. Bytes are one rank's, times picoseconds on the option's machine.
struct CheckpointSummary {
  std::string mode;        // "sac", "stock", "full", "budget"
  std::int64_t saved = 0;  // the sum of the five below
  std::int64_t saved_attention = 0, saved_mlp = 0, saved_residual = 0, saved_loss = 0,
               saved_other = 0;
  int recomputed_ops = 0;  // views not counted
  int recomputed_matmuls = 0, recomputed_attention = 0, recomputed_collectives = 0;
  std::int64_t recompute_time = 0;
  std::int64_t step_time = 0;  // of the forward and the backward, nothing run again
  std::int64_t peak = 0;       // simulated: what the step allocates beyond parameters and inputs
  std::int64_t gradients = 0;
  bool peak_in_backward = false;
  std::string peak_op, peak_location;
  std::vector<std::pair<std::string, std::int64_t>> alive;  // the largest values alive at the peak
  std::vector<std::pair<std::int64_t, std::int64_t>>
      frontier;                  // (peak, time run again): rising peak
  std::int64_t stock_peak = -1;  // of torch's own plan; -1: not asked for
};

class Report {
 public:
  Summary summary;
  std::optional<CheckpointSummary> checkpoints;

  // A diagnostic's `severity` is set by these; errors are returned by the pass, not reported.
  void remark(Diagnostic diagnostic);
  void warning(Diagnostic diagnostic);
  void conversion(Conversion conversion) { conversions_.push_back(std::move(conversion)); }
  void entry(std::string section, std::string key, std::string value);

  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }
  const std::vector<Conversion>& conversions() const { return conversions_; }
  const std::vector<Entry>& entries() const { return entries_; }

  // All of it, a line each: diagnostics ("warning: ..."), conversions, then entries under their
  // sections in the order in which the sections first came.
  std::string text() const;

 private:
  std::vector<Diagnostic> diagnostics_;
  std::vector<Conversion> conversions_;
  std::vector<Entry> entries_;
};

// "remark: aten.sort.default on %5 (model.py:88): ..."
std::string severityText(const Diagnostic& diagnostic);

}  // namespace autosp::passes
