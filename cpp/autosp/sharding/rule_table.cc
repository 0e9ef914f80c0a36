#include "autosp/sharding/rule_table.h"

#include <algorithm>

#include "autosp/support/check.h"

namespace autosp::sharding {
namespace {

std::vector<RuleRow> allRows() {
  std::vector<RuleRow> out;
  for (const auto* family :
       {&pointwiseRules(), &matmulRules(), &viewRules(), &windowRules(), &creationRules(),
        &reductionRules(), &normRules(), &indexingRules(), &lossRules(), &convolutionRules()}) {
    out.insert(out.end(), family->begin(), family->end());
  }
  return out;
}

// "mylib::rope" and "mylib.rope" as the graph names them: "mylib.rope.default".
std::string graphName(std::string op) {
  if (const auto colons = op.find("::"); colons != std::string::npos) {
    op.replace(colons, 2, ".");
  }
  if (std::count(op.begin(), op.end(), '.') == 1) {
    op += ".default";
  }
  return op;
}

}  // namespace

RuleTable::RuleTable() {
  for (const RuleRow& row : allRows()) {
    const bool added = built_in_.emplace(row.op, row.function).second;
    AUTOSP_CHECK(added, "two rows for " + std::string(row.op));
  }
}

Status RuleTable::add(std::string op, std::string_view spelling) {
  op = graphName(std::move(op));
  if (std::count(op.begin(), op.end(), '.') != 2) {
    return Diagnostic{Severity::kError, "", "", "a rule is for an op, found the name '" + op + "'",
                      "Name it as torch does: \"mylib::rope\""};
  }
  Result<SpelledRule> rule = SpelledRule::parse(spelling);
  AUTOSP_RETURN_IF_ERROR(rule.status());
  spelled_.insert_or_assign(std::move(op), std::move(rule).value());
  return Status::ok();
}

std::optional<OpRule> RuleTable::find(const ir::Graph& graph, const ir::Op& op) const {
  if (const auto at = spelled_.find(op.name); at != spelled_.end()) {
    return at->second.bind(graph, op);
  }
  if (const auto at = built_in_.find(op.name); at != built_in_.end()) {
    return at->second(graph, op);
  }
  // A random op draws other numbers for other shapes.
  if (op.traits.pointwise && !op.traits.random) {
    return broadcastRule(graph, op);
  }
  return std::nullopt;
}

std::vector<RuleRow> RuleTable::rows() const {
  std::vector<RuleRow> out = allRows();
  std::sort(out.begin(), out.end(),
            [](const RuleRow& a, const RuleRow& b) { return a.op < b.op; });
  return out;
}

}  // namespace autosp::sharding
