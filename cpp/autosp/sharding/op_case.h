// A graph of one op, for tests of rules: OpCase("aten.mm.default").tensor("self", {4, 6}).tensor("mat2",
// {6, 8}).result({4, 8}).text() is the text of the op's rule, "none" when it has none.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autosp/sharding/rule_table.h"

namespace autosp::sharding {

class OpCase {
 public:
  using Sizes = std::vector<std::int64_t>;

  explicit OpCase(std::string name, int ranks = 2) {
    op_.name = std::move(name);
    graph_.ranks = ranks;
  }
  OpCase& tensor(std::string arg, const Sizes& sizes, bool requires_grad = true,
                 ir::DType dtype = ir::DType::kF32) {
    return set(std::move(arg), ir::Attr(input(sizes, requires_grad, dtype)));
  }
  OpCase& tensors(std::string arg, const std::vector<Sizes>& all) {
    ir::AttrList list;
    for (const Sizes& sizes : all) {
      list.emplace_back(input(sizes, true, ir::DType::kF32));
    }
    return set(std::move(arg), ir::Attr(std::move(list)));
  }
  OpCase& set(std::string arg, ir::Attr value) {
    op_.args.emplace_back(std::move(arg), std::move(value));
    return *this;
  }
  OpCase& ints(std::string arg, const Sizes& values) {
    return set(std::move(arg), ir::Attr::ints(values));
  }
  OpCase& result(const Sizes& sizes, ir::DType dtype = ir::DType::kF32) {
    results_.push_back({{dtype, {sizes.begin(), sizes.end()}}, true, true});
    return *this;
  }
  OpCase& pointwise() {
    op_.traits.pointwise = true;
    return *this;
  }
  OpCase& random() {
    op_.traits.random = true;
    return *this;
  }

  // The graph, with the op in it.
  const ir::Graph& graph() {
    if (!id_.valid()) {
      id_ = graph_.addOp(op_, results_);
    }
    return graph_;
  }
  const ir::Op& op() { return graph().op(id_); }
  std::optional<OpRule> rule(const RuleTable& table = RuleTable()) {
    graph();
    return ruleFor(graph_, id_, table);
  }
  std::string text(const RuleTable& table = RuleTable()) {
    const auto found = rule(table);
    return found ? found->text() : "none";
  }

 private:
  ir::ValueId input(const Sizes& sizes, bool requires_grad, ir::DType dtype) {
    return graph_.addInput("x" + std::to_string(graph_.inputs().size()), ir::InputKind::kUser,
                           {dtype, {sizes.begin(), sizes.end()}}, requires_grad);
  }

  ir::Graph graph_;
  ir::Op op_;
  std::vector<ir::Graph::ResultType> results_;
  ir::OpId id_;
};

}  // namespace autosp::sharding
