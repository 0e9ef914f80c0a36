// choose-checkpoints: see passes.h. The algorithms are checkpoint/ (cuts, frontier, articulations)
// and cost/liveness.h (peak); this file states which plans are allowed under each option and picks
// one.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>

#include "autosp/checkpoint/articulations.h"
#include "autosp/checkpoint/frontier.h"
#include "autosp/checkpoint/recompute_choices.h"
#include "autosp/checkpoint/recompute_cut.h"
#include "autosp/cost/liveness.h"
#include "autosp/cost/op_class.h"
#include "autosp/passes/checkpoint_report.h"
#include "autosp/passes/joint_program.h"
#include "autosp/passes/passes.h"
#include "autosp/support/check.h"

namespace autosp::passes {
namespace {

using checkpoint::CheckpointRules;
using checkpoint::PricedPlan;
using checkpoint::RecomputeChoices;
using cost::JointOp;
using cost::JointProgram;
using cost::OpClass;
using cost::ValueIndex;

// The patience of "sac": a byte is saved when making it again would take longer than moving this
// many bytes. Between what a normalisation's statistics need (a pass over the hidden state for 4
// bytes a row) and what a linear gives up (hidden size / arithmetic intensity) lie orders of
// magnitude, so the plan does not hang on the figure.
constexpr std::int64_t kPatience = 256;

// Every n-th boundary is kept; 0: none.
constexpr std::array<std::size_t, 5> kStrides = {0, 1, 2, 4, 8};

// Plans simulated, before some are chosen from.
constexpr std::size_t kSimulated = 64;

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

struct Candidate {
  PricedPlan plan;
  std::int64_t peak = 0;
};

// All plans that keep some boundaries.
struct Separated {
  Separated(const JointProgram& program, const CheckpointRules& rules)
      : choices(program, rules), frontier(choices) {}
  RecomputeChoices choices;
  checkpoint::Frontier frontier;
};

// A simulated point of a frontier.
struct Spot {
  std::size_t point = 0;
  std::int64_t peak = 0, time = 0;
};

// Two of them, nothing between them simulated.
struct Span {
  const Separated* of = nullptr;
  Spot left, right;
};

class Chooser {
 public:
  Chooser(ir::Graph& graph, PassContext& context)
      : graph_(graph),
        context_(context),
        view_(jointProgram(graph, context.options.machine, context.options.fused)),
        program_(view_.program) {}

  Status run() {
    AUTOSP_RETURN_IF_ERROR(refuseImpossible());
    remarkUnknown();
    boundaries_ = checkpoint::articulations(program_);
    sweep();
    AUTOSP_ASSIGN_OR_RETURN(const Candidate chosen, choose());
    apply(chosen);
    context_.report.checkpoints = describeCheckpoints(graph_, view_, boundaries_, chosen.plan,
                                                      peakOf(chosen.plan.plan, true));
    CheckpointSummary& summary = *context_.report.checkpoints;
    summary.mode = context_.options.memory_budget ? "budget" : context_.options.checkpoint;
    for (const Candidate& point : frontier_) {
      summary.frontier.emplace_back(point.peak, point.plan.cost.time);
    }
    summary.stock_peak = stock_peak_;
    return Status::ok();
  }

 private:
  // An op that the user's policy wants to run again although it may run only once.
  Status refuseImpossible() {
    const std::vector<cost::OpIndex> stuck = checkpoint::opsThatCannotRunAgain(program_);
    if (stuck.empty()) {
      return Status::ok();
    }
    const ir::OpId id = view_.ops[at(stuck.front())];
    return Diagnostic{
        Severity::kError, graph_.describe(id), graph_.op(id).location,
        "the backward would have to run this op again, but it reads an input that the program "
        "overwrites, or changes its operands, so a second run would give other numbers",
        "Take it out of the checkpointed region, or let the checkpoint policy save it"};
  }

  // What has no price is kept: its time is not known, and a second run might not be free of
  // effects.
  void remarkUnknown() {
    std::set<std::string> names;
    ir::OpId first;
    for (std::size_t o = 0; o < program_.ops.size(); ++o) {
      const JointOp& op = program_.ops[o];
      if (op.kind == OpClass::kOther && !op.backward) {
        first = first.valid() ? first : view_.ops[o];
        names.insert(graph_.op(view_.ops[o]).name);
      }
    }
    if (names.empty()) {
      return;
    }
    std::string list;
    for (const std::string& name : names) {
      list += (list.empty() ? "" : ", ") + name;
    }
    context_.report.remark({Severity::kRemark, graph_.describe(first), graph_.op(first).location,
                            "ops without a price are never run again: " + list, ""});
  }

  // The rules of a mode: which ops are kept whatever it costs.
  CheckpointRules rules(bool keep_attention, bool keep_collectives,
                        const std::vector<ValueIndex>& kept_values) const {
    CheckpointRules out;
    out.banned.assign(program_.ops.size(), 0);
    for (std::size_t o = 0; o < program_.ops.size(); ++o) {
      const OpClass kind = program_.ops[o].kind;
      out.banned[o] = kind == OpClass::kOther || (keep_attention && kind == OpClass::kAttention) ||
                      (keep_collectives && kind == OpClass::kCollective);
    }
    for (ValueIndex v : kept_values) {
      out.banned[at(program_.values[at(v)].maker)] = 1;
    }
    return out;
  }

  // The same, and products after the last boundary (the head of a language model) are kept too.
  CheckpointRules keepHead(CheckpointRules out) const {
    if (boundaries_.empty()) {
      return out;
    }
    std::size_t last = at(program_.values[at(boundaries_.back())].maker);
    for (std::size_t o = last; o < program_.ops.size(); ++o) {
      last = program_.ops[o].kind == OpClass::kAttention && !program_.ops[o].backward ? o : last;
    }
    for (std::size_t o = last + 1; o < program_.ops.size(); ++o) {
      out.banned[o] = out.banned[o] != 0 || program_.ops[o].kind == OpClass::kMatmul;
    }
    return out;
  }

  bool keepCollectives() const { return !context_.options.repeat_collectives; }

  std::vector<ValueIndex> everyNth(std::size_t stride) const {
    std::vector<ValueIndex> out;
    for (std::size_t k = 0; stride > 0 && k < boundaries_.size(); k += stride) {
      out.push_back(boundaries_[k]);
    }
    return out;
  }

  cost::Peak peakOf(const cost::CheckpointPlan& plan, bool list_alive = false) const {
    cost::LivenessSettings settings;
    settings.fused = context_.options.fused;
    settings.on_cpu = context_.options.on_cpu;
    settings.rounding = context_.options.rounding;
    settings.list_alive = list_alive;
    return cost::simulatePeak(program_, plan, settings);
  }

  Candidate candidate(PricedPlan plan) const {
    const std::int64_t peak = peakOf(plan.plan).bytes;
    return {std::move(plan), peak};
  }

  // What a byte is worth to the fixed modes.
  checkpoint::Weights patience() const {
    const auto bytes_per_second = static_cast<std::int64_t>(context_.options.machine.memory);
    return {1'000'000'000'000, std::max<std::int64_t>(1, bytes_per_second / kPatience)};
  }

  // The better of two plans, the head kept and the head run again, by peak and time: the backward
  // begins with the head, so running it again pays only where what it makes is changed (to another
  // dtype) before it is used.
  template <typename Solve>
  Candidate withHeadOrWithout(const CheckpointRules& allowed, Solve solve) const {
    const checkpoint::Weights worth = patience();
    std::optional<Candidate> best;
    for (const CheckpointRules& each : {keepHead(allowed), allowed}) {
      const RecomputeChoices choices(program_, each);
      checkpoint::RecomputeCut cut(choices);
      Candidate found = candidate(choices.plan(solve(cut)));
      if (!best || worthOf(found, worth) < worthOf(*best, worth)) {
        best = std::move(found);
      }
    }
    return *std::move(best);
  }

  static double worthOf(const Candidate& c, const checkpoint::Weights& worth) {
    return static_cast<double>(c.peak) * static_cast<double>(worth.bytes) +
           static_cast<double>(c.plan.cost.time) * static_cast<double>(worth.time);
  }

  // "sac": attention, random ops and collectives once, boundaries kept, bytes before time.
  Candidate sequenceAware() const {
    return withHeadOrWithout(rules(true, true, boundaries_), [&](checkpoint::RecomputeCut& cut) {
      return cut.solve(patience(), checkpoint::Tie::kFewestBytes);
    });
  }

  // "full": only the inputs of the layers are saved.
  Candidate full() const {
    std::vector<ValueIndex> inputs = checkpoint::layerInputs(program_, boundaries_);
    std::erase(inputs, -1);
    return withHeadOrWithout(rules(false, keepCollectives(), inputs),
                             [&](checkpoint::RecomputeCut& cut) {
                               return cut.solve(cut.bytesFirst(), checkpoint::Tie::kFewestBytes);
                             });
  }

  // The plan that the importer has marked: that of torch's partitioner.
  Candidate stock() const {
    PricedPlan out;
    out.plan = markedPlan(graph_, view_);
    for (std::size_t v = 0; v < program_.values.size(); ++v) {
      out.cost.bytes += out.plan.saved[v] != 0 ? program_.values[v].bytes : 0;
    }
    for (std::size_t o = 0; o < program_.ops.size(); ++o) {
      out.cost.time += out.plan.recomputed[o] != 0 ? program_.ops[o].time : 0;
    }
    return candidate(std::move(out));
  }

  // Simulates one plan of a frontier.
  Spot simulated(const Separated& of, std::size_t point) {
    candidates_.push_back(candidate(of.frontier.plan(point)));
    return {point, candidates_.back().peak, candidates_.back().plan.cost.time};
  }

  // What plans within the span could still improve: the area, in bytes of peak times time run
  // again, between what its ends promise and what is known.
  double promise(const Span& span) const {
    if (span.right.point < span.left.point + 2 || span.right.peak <= span.left.peak) {
      return 0;
    }
    std::vector<std::pair<std::int64_t, std::int64_t>> known{{span.right.peak, 0}};
    std::int64_t time = span.left.time;  // the least for the peak reached so far
    for (const Candidate& c : candidates_) {
      if (c.peak <= span.left.peak) {
        time = std::min(time, c.plan.cost.time);
      } else if (c.peak < span.right.peak) {
        known.emplace_back(c.peak, c.plan.cost.time);
      }
    }
    std::sort(known.begin(), known.end());
    double area = 0;
    std::int64_t from = span.left.peak;
    for (const auto& [peak, next] : known) {
      area += static_cast<double>(peak - from) *
              static_cast<double>(std::max<std::int64_t>(0, time - span.right.time));
      from = peak;
      time = std::min(time, next);
    }
    return area;
  }

  // The plan nearest to the middle of a span, by bytes; none of its ends.
  static std::size_t middle(const checkpoint::Frontier& frontier, std::size_t left,
                            std::size_t right) {
    const auto& points = frontier.points();
    const std::int64_t half = points[left].bytes + (points[right].bytes - points[left].bytes) / 2;
    std::size_t point = left + 1;
    while (point + 1 < right && points[point].bytes < half) {
      ++point;
    }
    return point;
  }

  // All plans a budget may choose from, and the frontier of (peak, time) among them. Plans that
  // promise most are simulated first; which ones does not hang on the budget, so that a smaller one
  // never gets a larger peak.
  void sweep() {
    std::vector<std::unique_ptr<Separated>> all;
    std::vector<Span> spans;
    auto split = [&](std::size_t which) {
      const Span span = spans[which];
      if (span.right.point < span.left.point + 2) {
        return;
      }
      spans.erase(spans.begin() + static_cast<std::ptrdiff_t>(which));
      const Spot between =
          simulated(*span.of, middle(span.of->frontier, span.left.point, span.right.point));
      spans.push_back({span.of, span.left, between});
      spans.push_back({span.of, between, span.right});
    };
    for (std::size_t stride : kStrides) {
      if (stride > 1 && stride >= boundaries_.size()) {
        continue;  // the same as the one before
      }
      all.push_back(
          std::make_unique<Separated>(program_, rules(false, keepCollectives(), everyNth(stride))));
      const Separated* of = all.back().get();
      const std::size_t last = of->frontier.points().size() - 1;
      const Spot left = simulated(*of, 0);
      if (last == 0) {
        continue;
      }
      const std::size_t whole = spans.size();
      spans.push_back({of, left, simulated(*of, last)});
      // A long chain of ops run again may take more memory than it saves, so the ends alone do not
      // tell: in four parts.
      for (int k = 0; k < 3; ++k) {
        split(whole);
      }
    }
    sequence_aware_ = candidates_.size();
    candidates_.push_back(sequenceAware());
    full_ = candidates_.size();
    candidates_.push_back(full());
    while (candidates_.size() < kSimulated) {
      std::vector<double> promises;
      for (const Span& span : spans) {
        promises.push_back(promise(span));
      }
      const auto best = std::max_element(promises.begin(), promises.end());
      if (best == promises.end() || *best <= 0) {
        break;
      }
      split(static_cast<std::size_t>(best - promises.begin()));
    }
    std::vector<const Candidate*> order;
    for (const Candidate& c : candidates_) {
      order.push_back(&c);
    }
    std::stable_sort(order.begin(), order.end(), [](const Candidate* a, const Candidate* b) {
      return std::pair(a->peak, a->plan.cost.time) < std::pair(b->peak, b->plan.cost.time);
    });
    for (const Candidate* c : order) {
      if (frontier_.empty() || c->plan.cost.time < frontier_.back().plan.cost.time) {
        frontier_.push_back(*c);
      }
    }
  }

  Result<Candidate> choose() {
    const Options& options = context_.options;
    if (!options.memory_budget) {
      if (options.checkpoint != "stock") {
        return candidates_[options.checkpoint == "full" ? full_ : sequence_aware_];
      }
      Candidate marked = stock();
      stock_peak_ = marked.peak;
      return marked;
    }
    std::int64_t budget = options.memory_budget->bytes;
    if (options.memory_budget->percent > 0) {
      stock_peak_ = stock().peak;
      budget = static_cast<std::int64_t>(static_cast<double>(stock_peak_) *
                                         options.memory_budget->percent / 100);
    }
    // The frontier falls in time as it rises in peak: the last point that fits is the fastest.
    const Candidate* best = nullptr;
    for (const Candidate& point : frontier_) {
      best = point.peak <= budget ? &point : best;
    }
    if (best == nullptr) {
      return nothingFits(budget);
    }
    return *best;
  }

  Status nothingFits(std::int64_t budget) const {
    const Candidate& least = frontier_.front();
    const std::int64_t gradients = peakOf(least.plan.plan).gradients;
    const std::int64_t length = context_.options.sequence_length;
    std::string remedy = "Raise memory_budget to " + bytesText(least.peak);
    if (budget <= gradients) {  // whole on every rank
      remedy +=
          "; no sequence is short enough, since the gradients alone take " + bytesText(gradients);
    } else if (length > 0) {
      // What is not gradients grows with the sequence.
      const double share = static_cast<double>(budget - gradients) /
                           static_cast<double>(std::max<std::int64_t>(1, least.peak - gradients));
      remedy += ", or shorten the sequence from " + std::to_string(length) + " to about " +
                std::to_string(static_cast<std::int64_t>(static_cast<double>(length) * share));
    }
    remedy += budget > gradients ? ", or use more ranks" : "";
    return Diagnostic{Severity::kError, "", "",
                      "no checkpointing plan fits memory_budget (" + bytesText(budget) +
                          "): the smallest simulated peak is " + bytesText(least.peak) + ", " +
                          bytesText(gradients) + " of it gradients",
                      remedy};
  }

  void apply(const Candidate& chosen) {
    for (std::size_t v = 0; v < graph_.valueCount(); ++v) {
      graph_.value(ir::ValueId(v)).saved = false;
    }
    for (std::size_t v = 0; v < program_.values.size(); ++v) {
      graph_.value(view_.values[v]).saved = chosen.plan.plan.saved[v] != 0;
    }
    for (std::size_t o = 0; o < program_.ops.size(); ++o) {
      graph_.op(view_.ops[o]).traits.recompute = chosen.plan.plan.recomputed[o] != 0;
    }
  }

  ir::Graph& graph_;
  PassContext& context_;
  JointView view_;
  const JointProgram& program_;
  std::vector<ValueIndex> boundaries_;
  std::vector<Candidate> candidates_;
  std::size_t sequence_aware_ = 0, full_ = 0;  // of candidates_
  std::vector<Candidate> frontier_;            // rising peak, falling time
  std::int64_t stock_peak_ = -1;
};

}  // namespace

Status chooseCheckpoints(ir::Graph& graph, PassContext& context) {
  return Chooser(graph, context).run();
}

}  // namespace autosp::passes
