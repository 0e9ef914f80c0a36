#include "autosp/cost/op_class.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "autosp/cost/prices.h"

namespace autosp::cost {
namespace {

constexpr std::array<std::string_view, 10> kAttention = {
    "aten.scaled_dot_product_attention.default",
    "aten._scaled_dot_product_flash_attention.default",
    "aten._scaled_dot_product_flash_attention_for_cpu.default",
    "aten._scaled_dot_product_efficient_attention.default",
    "aten._scaled_dot_product_cudnn_attention.default",
    "aten._scaled_dot_product_fused_attention_overrideable.default",
    "aten._flash_attention_forward.default",
    "aten._efficient_attention_forward.default",
    "aten._cudnn_attention_forward.default",
    "higher_order.flex_attention"};

constexpr std::array<std::string_view, 9> kAttentionBackward = {
    "aten._scaled_dot_product_flash_attention_backward.default",
    "aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
    "aten._scaled_dot_product_efficient_attention_backward.default",
    "aten._scaled_dot_product_cudnn_attention_backward.default",
    "aten._scaled_dot_product_fused_attention_overrideable_backward.default",
    "aten._flash_attention_backward.default",
    "aten._efficient_attention_backward.default",
    "aten._cudnn_attention_backward.default",
    "higher_order.flex_attention_backward"};

constexpr std::array<std::string_view, 14> kMatmuls = {"aten.mm.default",
                                                       "aten.addmm.default",
                                                       "aten.bmm.default",
                                                       "aten.baddbmm.default",
                                                       "aten.linear.default",
                                                       "aten.matmul.default",
                                                       "aten.mv.default",
                                                       "aten.addmv.default",
                                                       "aten.einsum.default",
                                                       "aten._scaled_mm.default",
                                                       "aten._grouped_mm.default",
                                                       "aten.convolution.default",
                                                       "aten.convolution_backward.default",
                                                       "aten.linear_backward.default"};

// Not tagged pointwise, yet Inductor computes them inside their reader: copies, fills, and reads at
// computed places.
constexpr std::array<std::string_view, 30> kCopies = {
    "aten.clone.default",         "aten._to_copy.default",
    "aten.contiguous.default",    "aten.full.default",
    "aten.full_like.default",     "aten.zeros.default",
    "aten.zeros_like.default",    "aten.ones.default",
    "aten.ones_like.default",     "aten.new_zeros.default",
    "aten.new_full.default",      "aten.arange.start_step",
    "aten.arange.default",        "prims.iota.default",
    "aten.scalar_tensor.default", "aten.constant_pad_nd.default",
    "aten.slice_scatter.default", "aten.select_scatter.default",
    "aten.cat.default",           "aten.embedding.default",
    "aten.index.Tensor",          "aten.gather.default",
    "aten.index_select.default",  "aten.tril.default",
    "aten.triu.default",          "aten.repeat.default",
    "aten.flip.default",          "prims.convert_element_type.default",
    "aten.stack.default",         "aten.masked_fill.Scalar"};

constexpr std::array<std::string_view, 38> kReductions = {
    "aten.sum.default",
    "aten.sum.dim_IntList",
    "aten.mean.default",
    "aten.mean.dim",
    "aten.prod.default",
    "aten.prod.dim_int",
    "aten.amax.default",
    "aten.amin.default",
    "aten.max.default",
    "aten.min.default",
    "aten.max.dim",
    "aten.min.dim",
    "aten.argmax.default",
    "aten.argmin.default",
    "aten.any.default",
    "aten.any.dim",
    "aten.all.default",
    "aten.all.dim",
    "aten.var.correction",
    "aten.var_mean.correction",
    "aten.std.correction",
    "aten.logsumexp.default",
    "aten._softmax.default",
    "aten._log_softmax.default",
    "aten._softmax_backward_data.default",
    "aten._log_softmax_backward_data.default",
    "aten.native_layer_norm.default",
    "aten.native_layer_norm_backward.default",
    "aten._fused_rms_norm.default",
    "aten._fused_rms_norm_backward.default",
    "aten.native_group_norm.default",
    "aten.linalg_vector_norm.default",
    "aten._native_batch_norm_legit_functional.default",
    "aten.native_batch_norm.default",
    "aten.nll_loss_forward.default",
    "aten.nll_loss_backward.default",
    "aten.nll_loss2d_forward.default",
    "aten.nll_loss2d_backward.default"};

constexpr std::array<std::string_view, 14> kHeavy = {
    "aten.exp.default",           "aten.exp2.default",     "aten.expm1.default",
    "aten.log.default",           "aten.log2.default",     "aten.log1p.default",
    "aten.sigmoid.default",       "aten.tanh.default",     "aten.silu.default",
    "aten.gelu.default",          "aten.softplus.default", "aten.silu_backward.default",
    "aten.gelu_backward.default", "aten.logsumexp.default"};

bool contains(auto const& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool isCollective(const ir::Op& op) {
  return op.name.starts_with("_c10d_functional.") ||
         op.name.starts_with("_c10d_functional_autograd.");
}

}  // namespace

bool isAttentionBackward(const ir::Op& op) {
  return contains(kAttentionBackward, op.name);
}

bool isAttentionKernel(const ir::Op& op) {
  return contains(kAttention, op.name) || isAttentionBackward(op);
}

bool drawsRandomNumbers(const ir::Op& op) {
  return op.traits.random && (!isAttentionKernel(op) || op.floatArg("dropout_p", 0.0) != 0.0);
}

bool isHeavy(const ir::Op& op) {
  return contains(kHeavy, op.name);
}

OpClass classOf(const ir::Graph& graph, const ir::Op& op) {
  const auto shares = [&](ir::ValueId v) {
    return !graph.value(v).is_tensor || graph.value(v).base.valid();
  };
  if (!op.results.empty() && std::all_of(op.results.begin(), op.results.end(), shares)) {
    return OpClass::kView;
  }
  if (isAttentionKernel(op)) {
    return OpClass::kAttention;
  }
  if (isCollective(op)) {
    return OpClass::kCollective;
  }
  if (drawsRandomNumbers(op)) {
    return OpClass::kRandom;
  }
  if (contains(kMatmuls, op.name)) {
    return OpClass::kMatmul;
  }
  if (contains(kReductions, op.name)) {
    return OpClass::kReduction;
  }
  if (op.traits.pointwise || contains(kCopies, op.name)) {
    return OpClass::kPointwise;
  }
  return OpClass::kOther;
}

std::int64_t rerunTime(const Machine& machine, const ir::Graph& graph, const ir::Op& op,
                       OpClass kind, bool fused_away) {
  if (kind == OpClass::kView || fused_away) {
    return 0;
  }
  double moved = 0;
  std::set<ir::ValueId> counted;
  for (ir::ValueId v : op.operands()) {
    if (graph.value(v).is_tensor && counted.insert(v).second) {
      moved += static_cast<double>(graph.type(v).bytes());
    }
  }
  double made = 0;
  for (ir::ValueId v : op.results) {
    if (graph.value(v).is_tensor) {
      made += static_cast<double>(graph.type(v).bytes());
    }
  }
  double seconds = std::max(static_cast<double>(flops(graph, op)) / machine.flops,
                            (moved + made) / machine.memory);
  if (kind == OpClass::kCollective) {
    seconds = machine.latency + made / machine.link;
  }
  return static_cast<std::int64_t>((seconds + machine.launch) * 1e12 + 0.5);
}

}  // namespace autosp::cost
