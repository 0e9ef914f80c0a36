// The passes, in the order in which the forward pipeline runs them. Each stands in the file of its
// name and has one row in registry.cc. A pass neither verifies, times nor dumps: the pass manager
// does, around it. It returns an error where the graph or the options are at fault, and leaves
// remarks in the report.
#pragma once

#include "autosp/ir/graph.h"
#include "autosp/passes/context.h"
#include "autosp/support/status.h"

namespace autosp::passes {

// remove-dead-ops: removes ops that no output and no effect needs.
//   before:  %1 : f32[4] = aten.relu.default(self=%0)   %2 : f32[4] = aten.exp.default(self=%0)
//   output %1 after:   %1 : f32[4] = aten.relu.default(self=%0)   output %1
// Assumes nothing, never declines. First, so that no later pass plans for what is not computed.
Status removeDeadOps(ir::Graph& graph, PassContext& context);

// canonicalize: in-place ops on fresh tensors become the functional ones, ops that change nothing
// go.
//   before:  %2 : f32[4] = aten.add_.Tensor(self=%1, other=%0, alpha=1) {pointwise, mutates}
//   after:   %2 : f32[4] = aten.add.Tensor(self=%1, other=%0, alpha=1) {pointwise}
// Writes through views become values (a slice becomes a cat), and views read later are taken again.
// Errors: a write through a view of an input, a read of what may share memory with what was
// written, an in-place op without a known functional form. A write to an input by which the program
// keeps state stays. First of the rewrites: every later pass may take values as immutable.
Status canonicalize(ir::Graph& graph, PassContext& context);

// analyze-masks: attention whose mask is provably "key <= query" becomes causal, an always true
// mask goes.
//   before:  %9 : f32[1,8,32,4] = aten.scaled_dot_product_attention.default(..., attn_mask=%8,
//   is_causal=false, ...) after:   %9 : f32[1,8,32,4] =
//   aten.scaled_dot_product_attention.default(..., attn_mask=none, is_causal=true, ...)
// Any other mask stays as it is, with a remark. Before placement, or the plan would be about the
// mask.
Status analyzeMasks(ir::Graph& graph, PassContext& context);

// fold-repeat-kv: attention reads keys and values at their own heads instead of repeated ones.
//   before:  %7 : f32[1,8,32,4] = repeat of %3 : f32[1,2,32,4]   attention(key=%7,
//   enable_gqa=false) after:   attention(key=%3, enable_gqa=true)
// Only where key head k feeds query heads k*g..k*g+g-1, for keys and values alike. Before
// placement, which exchanges what attention reads.
Status foldRepeatKv(ir::Graph& graph, PassContext& context);

// lower-random: makes dropout a pure function of a seed and the global element index, so that every
// sp degree drops the same elements; refuses other random ops on more than one rank, and dropout
// inside attention.
//   before:  %2 : f32[4,8] = aten.dropout.default(input=%1, p=0.1, train=true)
//   after:   input %0 : i64[] seed "autosp_seed"
//            %2 : f32[4,8] = autosp.dropout(input=%1, p=0.1, seed=%0, op_id=0)
// Once, before placement: to placement it is an elementwise op.
Status lowerRandom(ir::Graph& graph, PassContext& context);

// choose-placement: chooses a form for every value and a strategy for every op, exactly
// (placement_network.h).
//   before:  %3 : f32[2,32,64] grad = aten.linear.default(input=%1, weight=%2, bias=none)
//   after:   %3 : f32[2,32,64] grad @S(1,base=32) = aten.linear.default(...) needs [S(1,base=32),
//   Q]
// Finds the sequence dims first. Declines nothing; errors: no sequence, two of them, an op without
// a rule under on_unsupported="error", more than half of the sequence's bytes whole. After masks
// and repeated key heads are gone, or the plan would be about them.
Status choosePlacement(ir::Graph& graph, PassContext& context);

// insert-conversions: makes the forms that the annotations ask for, each copy once, just before its
// first reader (after its producer when that reader stands in a no-grad region), and lowers ops by
// strategy.
//   before:  %3 : f32[2,32,64] @S(1,base=32) = aten.linear.default(input=%1, weight=%2) needs
//   [S(1,base=32), Q] after:   %4 : f32[64,64] @Q = autosp.convert(inputs=[%2])
//            %3 : f32[2,32,64] @S(1,base=32) = aten.linear.default(input=%1, weight=%4)
Status insertConversions(ir::Graph& graph, PassContext& context);

// merge-collectives: neighbouring conversions of one kind become one: q, k and v exchanged
// together, weights' gradients reduced in buckets, in the order in which the forward first uses
// them.
//   before:  %4 = autosp.convert(inputs=[%1])   %5 = autosp.convert(inputs=[%2])
//   after:   %4, %5 = autosp.convert(inputs=[%1, %2])
Status mergeCollectives(ir::Graph& graph, PassContext& context);

// report-plan: writes the conversions of the finished plan into the report: value, reader, source
// line, forms, collectives each way and the bytes a rank sends. The graph stays as it is.
Status reportPlan(ir::Graph& graph, PassContext& context);

// choose-checkpoints: of a joint forward and backward graph, which values the forward saves and
// which ops the backward runs again (checkpoint/recompute_cut.h: exact; cost/liveness.h: peak).
//   before:  %5 : f32[8,64] = aten.mm.default(self=%2, mat2=%1)   %6 : f32[8,64] =
//   aten.silu.default(self=%5) after:   %5 : f32[8,64] saved = aten.mm.default(...)   %6 :
//   f32[8,64] = aten.silu.default(self=%5) {recompute}
// Honours keep and recompute as a user's policy; values marked saved are what "stock" means.
// Errors: a policy that no plan can follow, a budget that no plan fits. The only pass of its
// pipeline: what it decides is handed over by tags.
Status chooseCheckpoints(ir::Graph& graph, PassContext& context);

}  // namespace autosp::passes
