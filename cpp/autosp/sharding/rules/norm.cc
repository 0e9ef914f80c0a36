// Rules of normalizations: the dims a statistic is taken over stay whole, the others pass. Ops that
// write running statistics have no rule: a rank's own rows would not give the batch's statistics.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autosp/sharding/rule_table.h"
#include "autosp/sharding/rules/rule_builder.h"

namespace autosp::sharding {
namespace {

using ir::Graph;
using ir::Op;
using ir::TensorType;
using Rule = std::optional<OpRule>;

// Normalizes the last dims, as many as normalized_shape has. Results after the first are
// statistics, one for each row.
Rule layerNorm(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const TensorType* input = build.type("input");
  const std::size_t normalized = op.arg("normalized_shape").asList().size();
  if (input == nullptr || normalized > input->rank()) {
    return std::nullopt;
  }
  DimFactors dims;
  DimFactors statistic;
  for (std::size_t i = 0; i < input->rank(); ++i) {
    const bool row = i + normalized < input->rank();
    dims.push_back(build.factor("d" + std::to_string(i), input->dim(i),
                                row ? FactorKind::kPass : FactorKind::kWhole));
    statistic.push_back(row ? dims.back() : kNoFactor);
  }
  build.operand("input", dims);
  build.broadcastOperand("weight", dims);
  build.broadcastOperand("bias", dims);
  build.result(0, dims);
  for (std::size_t r = 1; r < op.results.size(); ++r) {
    build.result(r, statistic);
  }
  return std::move(build).build();
}

// [n, c, ...] with statistics of groups of channels.
Rule groupNorm(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const TensorType* input = build.type("input");
  if (input == nullptr || input->rank() < 2) {
    return std::nullopt;
  }
  DimFactors dims = {build.factor("n", input->dim(0))};
  for (std::size_t i = 1; i < input->rank(); ++i) {
    dims.push_back(
        build.factor(i == 1 ? "c" : "d" + std::to_string(i), input->dim(i), FactorKind::kWhole));
  }
  build.operand("input", dims);
  build.operand("weight", {dims[1]});
  build.operand("bias", {dims[1]});
  build.results(dims);
  return std::move(build).build();
}

// [n, c, ...] with one statistic for each channel, and for each n when `per_row`. Without
// statistics of its own (evaluation) the op is elementwise. A result of one dim is a statistic of
// each channel. The backward fails on no channels, and on no rows where each has its statistics.
Rule channelNorm(const Graph& graph, const Op& op, bool own_statistics, bool per_row) {
  RuleBuilder build(graph, op);
  const TensorType* input = build.type("input");
  const bool running = op.has("running_mean") || op.has("running_var");
  if (input == nullptr || input->rank() < 2 || (running && (own_statistics || per_row))) {
    return std::nullopt;
  }
  own_statistics = own_statistics || !running;
  const FactorKind mixed = own_statistics ? FactorKind::kWhole : FactorKind::kPass;
  DimFactors dims = {
      per_row ? build.occupiedFactor("n", input->dim(0))
              : build.factor("n", input->dim(0), mixed),
      build.occupiedFactor("c", input->dim(1))};
  for (std::size_t i = 2; i < input->rank(); ++i) {
    dims.push_back(build.factor("d" + std::to_string(i), input->dim(i), mixed));
  }
  build.operand("input", dims);
  for (const char* arg : {"weight", "bias", "running_mean", "running_var"}) {
    build.operand(arg, {dims[1]});
  }
  build.result(0, dims);
  for (std::size_t r = 1; r < op.results.size(); ++r) {
    build.result(r, {dims[1]});
  }
  return std::move(build).build();
}

Rule batchNorm(const Graph& graph, const Op& op) {
  return channelNorm(graph, op, op.boolArg("training", true), false);
}

Rule instanceNorm(const Graph& graph, const Op& op) {
  return channelNorm(graph, op, op.boolArg("use_input_stats", true), true);
}

}  // namespace

const std::vector<RuleRow>& normRules() {
  static const std::vector<RuleRow> rows = {
      {"aten.layer_norm.default", "(... d, d?, d?) -> ... d   whole d", layerNorm},
      {"aten.native_layer_norm.default", "(... d, d?, d?) -> ... d, ... 1, ... 1   whole d",
       layerNorm},
      {"aten.rms_norm.default", "(... d, d?) -> ... d   whole d", layerNorm},
      {"aten._fused_rms_norm.default", "(... d, d?) -> ... d, ... 1   whole d", layerNorm},
      {"aten.group_norm.default", "(n c ..., c?, c?) -> n c ...   whole c, whole ...", groupNorm},
      {"aten.batch_norm.default",
       "(n c ..., c?, c?, c?, c?) -> n c ...   in training whole n, whole ...", batchNorm},
      {"aten.instance_norm.default", "(n c ..., c?, c?) -> n c ...   whole ...", instanceNorm},
  };
  return rows;
}

}  // namespace autosp::sharding
