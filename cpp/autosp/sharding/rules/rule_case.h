// One op on its own, for tests of rules: arguments and results are given by name and shape, and
// text() is the rule that the family's rows give it, in the notation of OpRule::text(), or "none".
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autosp/ir/graph.h"
#include "autosp/sharding/rule_table.h"

namespace autosp::sharding {

class RuleCase {
 public:
  using Sizes = std::vector<std::int64_t>;

  explicit RuleCase(std::string op, int ranks = 2) {
    op_.name = std::move(op);
    graph_.ranks = ranks;
  }

  // A tensor argument.
  RuleCase& in(std::string arg, const Sizes& sizes, ir::DType dtype = ir::DType::kF32,
               bool requires_grad = false) {
    op_.args.emplace_back(std::move(arg), addInput(sizes, dtype, requires_grad));
    return *this;
  }
  // The tensor of an earlier argument once more.
  RuleCase& again(std::string arg, std::string_view earlier) {
    op_.args.emplace_back(std::move(arg), op_.valueArg(earlier));
    return *this;
  }
  // A list of tensors; no sizes for a None in it.
  RuleCase& list(std::string arg, const std::vector<std::optional<Sizes>>& items,
                 ir::DType dtype = ir::DType::kF32) {
    ir::AttrList attrs;
    for (const auto& sizes : items) {
      if (sizes) {
        attrs.emplace_back(addInput(*sizes, dtype, false));
      } else {
        attrs.emplace_back();
      }
    }
    op_.args.emplace_back(std::move(arg), std::move(attrs));
    return *this;
  }
  RuleCase& attr(std::string arg, ir::Attr value) {
    op_.args.emplace_back(std::move(arg), std::move(value));
    return *this;
  }
  RuleCase& ints(std::string arg, const Sizes& values) {
    return attr(std::move(arg), ir::Attr::ints(values));
  }
  RuleCase& out(const Sizes& sizes, ir::DType dtype = ir::DType::kF32) {
    results_.push_back({typeOf(sizes, dtype)});
    return *this;
  }

  // Adds the op to the graph; once.
  const ir::Op& op() {
    if (!id_.valid()) {
      id_ = graph_.addOp(op_, results_);
    }
    return graph_.op(id_);
  }
  const ir::Graph& graph() const { return graph_; }

  std::optional<OpRule> rule(const std::vector<RuleRow>& rows) {
    for (const RuleRow& row : rows) {
      if (row.op == op_.name) {
        const ir::Op& made = op();
        return row.function(graph_, made);
      }
    }
    return std::nullopt;
  }
  std::string text(const std::vector<RuleRow>& rows) {
    const auto found = rule(rows);
    return found ? found->text() : "none";
  }

 private:
  static ir::TensorType typeOf(const Sizes& sizes, ir::DType dtype) {
    return {dtype, {sizes.begin(), sizes.end()}};
  }
  ir::ValueId addInput(const Sizes& sizes, ir::DType dtype, bool requires_grad) {
    return graph_.addInput("x" + std::to_string(graph_.inputs().size()), ir::InputKind::kUser,
                           typeOf(sizes, dtype), requires_grad);
  }

  ir::Graph graph_;
  ir::Op op_;
  ir::OpId id_;
  std::vector<ir::Graph::ResultType> results_;
};

}  // namespace autosp::sharding
