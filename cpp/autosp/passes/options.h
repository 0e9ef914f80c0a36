// What the user may ask of the passes. The Python side has a larger dataclass and hands over, as
// text, the fields that the core reads; autosp-opt takes the same ones with --option name=value.
// One table in options.cc gives each option its parser, its text and its line of help.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autosp/cost/machine.h"
#include "autosp/support/status.h"

namespace autosp::passes {

// kMemory: what carries the sequence is cut wherever a rule can cut it, then the fastest of those
// plans. kTime: every form is allowed and priced.
enum class Objective : std::uint8_t { kMemory, kTime };

// kAuto: float outputs left cut are returned cut when the graph also returns a scalar loss, else
// whole.
enum class OutputForms : std::uint8_t { kAuto, kWhole, kCut };

struct Options {
  Objective objective = Objective::kMemory;
  // Gradients of whole inputs stay partial sums, scaled so that the mean over data and sequence
  // ranks is the true gradient (for DDP); else they are reduced in the backward.
  bool gradients_partial = false;
  // An op without a rule is an error; else its operands are made whole, with a remark on what that
  // costs.
  bool on_unsupported_error = false;
  OutputForms outputs = OutputForms::kAuto;
  // "auto", "ulysses", "gather", "ring", or "2d:UxR" for U ranks on heads times R on the ring.
  std::string attention = "auto";
  // The sequence dim of named inputs; empty: inferred from attention.
  std::vector<std::pair<std::string, std::int64_t>> sequence_dims;
  // Users' sharding rules: op and spelling, e.g. {"mylib.rope.default", "b h s d, s d -> b h s d"}.
  std::vector<std::pair<std::string, std::string>> rules;
  // What the forward saves for the backward: "sac", "stock" (as marked in the graph) or "full".
  std::string checkpoint = "sac";
  // Simulated peak of a step on a rank: bytes, or a share of the marked plan's. Overrides
  // `checkpoint`.
  struct MemoryBudget {
    std::int64_t bytes = 0;
    double percent = 0;  // 0: bytes count
    friend bool operator==(const MemoryBudget&, const MemoryBudget&) = default;
  };
  std::optional<MemoryBudget> memory_budget;
  // A fusing compiler (Inductor) runs the programs.
  bool fused = true;
  // With `fused`: its C++ backend, not Triton's.
  bool on_cpu = false;
  // The backward may run collectives again: only where all ranks take the same decision.
  bool repeat_collectives = true;
  // Allocations are multiples of this many bytes.
  std::int64_t rounding = 1;
  // The whole sequence's, for messages; 0: not known.
  std::int64_t sequence_length = 0;
  // What prices are for.
  cost::Machine machine;
  // Size of the sp axis; 0: the graph's own.
  int ranks = 0;
};

// Sets one option from text, as `setOption(options, "objective", "time")`. The error names what is
// allowed and, for an unknown name, the nearest one.
Status setOption(Options& options, std::string_view name, std::string_view value);

// The options that differ from their defaults, as setOption takes them.
std::vector<std::pair<std::string, std::string>> changedOptions(const Options& options);

// One line an option: name, values and default, meaning.
std::vector<std::pair<std::string, std::string>> optionHelp();

}  // namespace autosp::passes
