#include "autosp/passes/checkpoint_report.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace autosp::passes {
namespace {

using cost::JointOp;
using cost::JointProgram;
using cost::OpClass;
using cost::ValueIndex;

constexpr std::size_t kShownPoints = 8;

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

std::string fixed(double value, const char* format) {
  std::array<char, 48> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, value);
  return buffer.data();
}

std::string milliseconds(std::int64_t picoseconds) {
  return fixed(static_cast<double>(picoseconds) * 1e-9, "%.3f ms");
}

}  // namespace

std::string bytesText(std::int64_t bytes) {
  constexpr std::array<const char*, 4> kUnits = {"%.1f KiB", "%.1f MiB", "%.2f GiB", "%.2f TiB"};
  if (bytes < 1024) {
    return std::to_string(bytes) + " bytes";
  }
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fixed(value, kUnits[unit]);
}

CheckpointSummary describeCheckpoints(const ir::Graph& graph, const JointView& view,
                                      const std::vector<ValueIndex>& boundaries,
                                      const checkpoint::PricedPlan& plan, const cost::Peak& peak) {
  const JointProgram& program = view.program;
  CheckpointSummary out;
  out.saved = plan.cost.bytes;
  out.recompute_time = plan.cost.time;
  out.peak = peak.bytes;
  out.gradients = peak.gradients;
  out.peak_in_backward = peak.in_backward;
  if (peak.op >= 0) {
    const ir::OpId id = view.ops[at(peak.op)];
    out.peak_op = graph.describe(id);
    out.peak_location = graph.op(id).location;
  }
  // The largest of what is alive there.
  auto alive = peak.alive;
  std::stable_sort(alive.begin(), alive.end(),
                   [](auto& a, auto& b) { return a.second > b.second; });
  for (std::size_t k = 0; k < std::min<std::size_t>(alive.size(), 5); ++k) {
    const ir::ValueId value = view.values[at(alive[k].first)];
    out.alive.emplace_back("%" + std::to_string(value.index), alive[k].second);
  }

  // Where the boundaries stand, and whether attention lies before each.
  std::vector<cost::OpIndex> edges;
  for (ValueIndex v : boundaries) {
    edges.push_back(program.values[at(v)].maker);
  }
  std::vector<char> attends(edges.size() + 1, 0);
  for (std::size_t o = 0; o < program.ops.size(); ++o) {
    const JointOp& op = program.ops[o];
    out.step_time += op.time;
    if (op.kind == OpClass::kAttention && !op.backward) {
      const auto after =
          std::upper_bound(edges.begin(), edges.end(), static_cast<cost::OpIndex>(o));
      attends[static_cast<std::size_t>(after - edges.begin())] = 1;
    }
    if (plan.plan.recomputed[o] != 0 && op.kind != OpClass::kView && !op.deferred) {
      ++out.recomputed_ops;
      out.recomputed_matmuls += op.kind == OpClass::kMatmul ? 1 : 0;
      out.recomputed_attention += op.kind == OpClass::kAttention ? 1 : 0;
      out.recomputed_collectives += op.kind == OpClass::kCollective ? 1 : 0;
    }
  }
  for (std::size_t v = 0; v < program.values.size(); ++v) {
    if (plan.plan.saved[v] == 0) {
      continue;
    }
    const cost::OpIndex maker = program.values[v].maker;
    const std::int64_t bytes = program.values[v].bytes;
    const auto after = std::upper_bound(edges.begin(), edges.end(), maker);
    const auto segment = static_cast<std::size_t>(after - edges.begin());
    if (std::find(boundaries.begin(), boundaries.end(), static_cast<ValueIndex>(v)) !=
        boundaries.end()) {
      out.saved_residual += bytes;
    } else if (attends[segment] != 0) {
      out.saved_attention += bytes;
    } else if (segment == 0) {
      out.saved_other += bytes;
    } else if (segment == edges.size()) {
      out.saved_loss += bytes;
    } else {
      out.saved_mlp += bytes;
    }
  }
  return out;
}

std::string checkpointText(const CheckpointSummary& s) {
  const double extra = s.step_time > 0 ? 100.0 * static_cast<double>(s.recompute_time) /
                                             static_cast<double>(s.step_time)
                                       : 0;
  std::string out = "checkpoints (" + s.mode + "):\n";
  out += "  saved: " + bytesText(s.saved) + " (attention " + bytesText(s.saved_attention) +
         ", MLP " + bytesText(s.saved_mlp) + ", residual " + bytesText(s.saved_residual) +
         ", loss " + bytesText(s.saved_loss) + ", other " + bytesText(s.saved_other) + ")\n";
  out += "  run again: " + std::to_string(s.recomputed_ops) + " ops, " +
         milliseconds(s.recompute_time) + fixed(extra, " (%.1f%% of the step)") + "; " +
         std::to_string(s.recomputed_matmuls) + " matrix products, " +
         std::to_string(s.recomputed_attention) + " attention, " +
         std::to_string(s.recomputed_collectives) + " collectives\n";
  out += "  simulated peak: " + bytesText(s.peak) + " in the " +
         (s.peak_in_backward ? "backward" : "forward");
  out += s.peak_op.empty() ? "" : ", at " + s.peak_op;
  out += s.peak_location.empty() ? "" : " (" + s.peak_location + ")";
  out += "; " + bytesText(s.gradients) + " of gradients at the end";
  out += s.stock_peak >= 0 ? "; torch's own plan: " + bytesText(s.stock_peak) + "\n" : "\n";
  out +=
      "  frontier (peak, time run again), of " + std::to_string(s.frontier.size()) + " points:\n";
  const std::size_t step = (s.frontier.size() + kShownPoints - 1) / kShownPoints;
  for (std::size_t k = 0; k < s.frontier.size(); ++k) {
    const auto& [peak, time] = s.frontier[k];
    const bool taken = peak == s.peak && time == s.recompute_time;
    if (taken || k % step == 0 || k + 1 == s.frontier.size()) {
      out += "    " + bytesText(peak) + ", " + milliseconds(time) + (taken ? " <- taken\n" : "\n");
    }
  }
  return out;
}

}  // namespace autosp::passes
