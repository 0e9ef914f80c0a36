// a policy that no plan can follow
// RUN: --choose-checkpoints --option fused=false
autosp.graph "joint" ranks=1 {
  input %0 : f32[4096,256] user "x"
  input %1 : f32[256] buffer "scale"
  input %2 : f32[4096,256] tangent "t"
  %3 : f32[256] = aten.exp.default(self=%1) {pointwise, recompute} at "m.py:3"
  %4 : f32[4096,256] = aten.mul.Tensor(self=%0, other=%3) {pointwise}
  %5 : f32[256] = aten.mul.Tensor(self=%1, other=0.5) {pointwise}
  %6 : f32[4096,256] = aten.mul.Tensor(self=%2, other=%3) {pointwise}
  output %5 "new scale" writes %1
  output %4 "y"
  output %6 "gradient0" gradient
}
// ERROR: aten.exp.default on %3 (m.py:3): the backward would have to run this op again, but it reads an input that the program overwrites, or changes its operands, so a second run would give other numbers. Take it out of the checkpointed region, or let the checkpoint policy save it
// -----
// a budget that nothing fits
// RUN: --choose-checkpoints --option fused=false --option memory_budget=1000000 --option sequence_length=4096
autosp.graph "joint" ranks=2 {
  input %0 : f32[4096,256] user "x"
  input %1 : f32[256,256] grad parameter "w"
  input %2 : f32[1,8,4096,32] tangent "t"
  %3 : f32[4096,256] = aten.mm.default(self=%0, mat2=%1)
  %4 : f32[4096,256] = aten.tanh.default(self=%3) {pointwise} at "m.py:4"
  %5 : f32[4096,256] = aten.mm.default(self=%4, mat2=%1)
  %6 : f32[4096,256] = aten.add.Tensor(self=%3, other=%5) {pointwise}
  %7 : f32[1,8,4096,32] of %6 = aten.view.default(self=%6)
  %8 : f32[1,8,4096,32], %9 : f32[1,8,4096] = aten._scaled_dot_product_flash_attention_for_cpu.default(query=%7, key=%7, value=%7, dropout_p=0.0, is_causal=true) {random} at "m.py:6"
  %10 : f32[1,8,4096,32] = aten.add.Tensor(self=%7, other=%8) {pointwise}
  %11 : f32[1,8,4096,32] = aten.tanh.default(self=%10) {pointwise}
  %12 : f32[1,8,4096,32] = aten.mul.Tensor(self=%2, other=%11) {pointwise}
  %13 : f32[1,8,4096,32], %14 : f32[1,8,4096,32], %15 : f32[1,8,4096,32] = aten._scaled_dot_product_flash_attention_for_cpu_backward.default(grad_out=%12, query=%7, key=%7, value=%7, out=%8, logsumexp=%9, dropout_p=0.0, is_causal=true)
  %16 : f32[4096,256] of %13 = aten.view.default(self=%13)
  %17 : f32[4096,256] = aten.mul.Tensor(self=%16, other=%4) {pointwise}
  %18 : f32[256,4096] of %17 = aten.t.default(self=%17)
  %19 : f32[256,256] = aten.mm.default(self=%18, mat2=%0)
  output %11 "y"
  output none "gradient0" gradient
  output %19 "gradient1" gradient
}
// ERROR: no checkpointing plan fits memory_budget (976.6 KiB): the smallest simulated peak is 24.1 MiB, 256.0 KiB of it gradients. Raise memory_budget to 24.1 MiB, or shorten the sequence from 4096 to about 120, or use more ranks
// -----
// a budget below the gradients
// RUN: --choose-checkpoints --option fused=false --option memory_budget=1000 --option sequence_length=4096
autosp.graph "joint" ranks=2 {
  input %0 : f32[4096,256] user "x"
  input %1 : f32[256,256] grad parameter "w"
  input %2 : f32[1,8,4096,32] tangent "t"
  %3 : f32[4096,256] = aten.mm.default(self=%0, mat2=%1)
  %4 : f32[4096,256] = aten.tanh.default(self=%3) {pointwise} at "m.py:4"
  %5 : f32[4096,256] = aten.mm.default(self=%4, mat2=%1)
  %6 : f32[4096,256] = aten.add.Tensor(self=%3, other=%5) {pointwise}
  %7 : f32[1,8,4096,32] of %6 = aten.view.default(self=%6)
  %8 : f32[1,8,4096,32], %9 : f32[1,8,4096] = aten._scaled_dot_product_flash_attention_for_cpu.default(query=%7, key=%7, value=%7, dropout_p=0.0, is_causal=true) {random} at "m.py:6"
  %10 : f32[1,8,4096,32] = aten.add.Tensor(self=%7, other=%8) {pointwise}
  %11 : f32[1,8,4096,32] = aten.tanh.default(self=%10) {pointwise}
  %12 : f32[1,8,4096,32] = aten.mul.Tensor(self=%2, other=%11) {pointwise}
  %13 : f32[1,8,4096,32], %14 : f32[1,8,4096,32], %15 : f32[1,8,4096,32] = aten._scaled_dot_product_flash_attention_for_cpu_backward.default(grad_out=%12, query=%7, key=%7, value=%7, out=%8, logsumexp=%9, dropout_p=0.0, is_causal=true)
  %16 : f32[4096,256] of %13 = aten.view.default(self=%13)
  %17 : f32[4096,256] = aten.mul.Tensor(self=%16, other=%4) {pointwise}
  %18 : f32[256,4096] of %17 = aten.t.default(self=%17)
  %19 : f32[256,256] = aten.mm.default(self=%18, mat2=%0)
  output %11 "y"
  output none "gradient0" gradient
  output %19 "gradient1" gradient
}
// ERROR: no checkpointing plan fits memory_budget (1000 bytes): the smallest simulated peak is 24.1 MiB, 256.0 KiB of it gradients. Raise memory_budget to 24.1 MiB; no sequence is short enough, since the gradients alone take 256.0 KiB
// -----
// impossible values
// RUN: --choose-checkpoints --option fused=false --option checkpoint=some
autosp.graph "joint" ranks=1 {
}
// ERROR: option checkpoint: expected sac, stock or full, found 'some'
// -----
// RUN: --choose-checkpoints --option fused=false --option memory_budget=0
autosp.graph "joint" ranks=1 {
}
// ERROR: option memory_budget: expected none, bytes or a share as 60%, found '0'
// -----
// RUN: --choose-checkpoints --option fused=false --option memory_budget=120%
autosp.graph "joint" ranks=1 {
}
// ERROR: option memory_budget: expected none, bytes or a share as 60%, found '120%'
// -----
// RUN: --choose-checkpoints --option fused=false --option memory_budget=-5
autosp.graph "joint" ranks=1 {
}
// ERROR: option memory_budget: expected none, bytes or a share as 60%, found '-5'
// -----
// RUN: --choose-checkpoints --option fused=false --option memory_budget=60GiB
autosp.graph "joint" ranks=1 {
}
// ERROR: option memory_budget: expected none, bytes or a share as 60%, found '60GiB'
// -----
// RUN: --choose-checkpoints --option fused=false --option repeat_collectives=maybe
autosp.graph "joint" ranks=1 {
}
// ERROR: option repeat_collectives: expected true or false, found 'maybe'
// -----
// RUN: --choose-checkpoints --option fused=false --option rounding=0
autosp.graph "joint" ranks=1 {
}
// ERROR: option rounding: expected an integer, found '0'
