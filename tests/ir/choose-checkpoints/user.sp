// a policy that runs attention again
// RUN: --choose-checkpoints --option fused=false
autosp.graph "joint" ranks=2 {
  input %0 : f32[4096,256] user "x"
  input %1 : f32[256,256] grad parameter "w"
  input %2 : f32[1,8,4096,32] tangent "t"
  %3 : f32[4096,256] = aten.mm.default(self=%0, mat2=%1)
  %4 : f32[4096,256] = aten.tanh.default(self=%3) {pointwise} at "m.py:4"
  %5 : f32[4096,256] = aten.mm.default(self=%4, mat2=%1)
  %6 : f32[4096,256] = aten.add.Tensor(self=%3, other=%5) {pointwise}
  %7 : f32[1,8,4096,32] of %6 = aten.view.default(self=%6)
  %8 : f32[1,8,4096,32], %9 : f32[1,8,4096] = aten._scaled_dot_product_flash_attention_for_cpu.default(query=%7, key=%7, value=%7, dropout_p=0.0, is_causal=true) {random, recompute} at "m.py:6"
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
// CHECK:
autosp.graph "joint" ranks=2 {
  input %0 : f32[4096,256] user "x"
  input %1 : f32[256,256] grad parameter "w"
  input %2 : f32[1,8,4096,32] tangent "t"
  %3 : f32[4096,256] = aten.mm.default(self=%0, mat2=%1)
  %4 : f32[4096,256] saved = aten.tanh.default(self=%3) {pointwise} at "m.py:4"
  %5 : f32[4096,256] = aten.mm.default(self=%4, mat2=%1)
  %6 : f32[4096,256] saved = aten.add.Tensor(self=%3, other=%5) {pointwise}
  %7 : f32[1,8,4096,32] of %6 = aten.view.default(self=%6) {recompute}
  %8 : f32[1,8,4096,32], %9 : f32[1,8,4096] = aten._scaled_dot_product_flash_attention_for_cpu.default(query=%7, key=%7, value=%7, dropout_p=0.0, is_causal=true) {random, recompute} at "m.py:6"
  %10 : f32[1,8,4096,32] = aten.add.Tensor(self=%7, other=%8) {pointwise, recompute}
  %11 : f32[1,8,4096,32] = aten.tanh.default(self=%10) {pointwise, recompute}
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
// -----
// a policy that saves a value which full would make again
// RUN: --choose-checkpoints --option fused=false --option checkpoint=full
autosp.graph "joint" ranks=2 {
  input %0 : f32[4096,256] user "x"
  input %1 : f32[256,256] grad parameter "w"
  input %2 : f32[1,8,4096,32] tangent "t"
  %3 : f32[4096,256] = aten.mm.default(self=%0, mat2=%1)
  %4 : f32[4096,256] = aten.tanh.default(self=%3) {pointwise, keep} at "m.py:4"
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
// CHECK:
autosp.graph "joint" ranks=2 {
  input %0 : f32[4096,256] user "x"
  input %1 : f32[256,256] grad parameter "w"
  input %2 : f32[1,8,4096,32] tangent "t"
  %3 : f32[4096,256] = aten.mm.default(self=%0, mat2=%1)
  %4 : f32[4096,256] saved = aten.tanh.default(self=%3) {pointwise, keep} at "m.py:4"
  %5 : f32[4096,256] = aten.mm.default(self=%4, mat2=%1)
  %6 : f32[4096,256] saved = aten.add.Tensor(self=%3, other=%5) {pointwise}
  %7 : f32[1,8,4096,32] of %6 = aten.view.default(self=%6) {recompute}
  %8 : f32[1,8,4096,32], %9 : f32[1,8,4096] = aten._scaled_dot_product_flash_attention_for_cpu.default(query=%7, key=%7, value=%7, dropout_p=0.0, is_causal=true) {random, recompute} at "m.py:6"
  %10 : f32[1,8,4096,32] = aten.add.Tensor(self=%7, other=%8) {pointwise, recompute}
  %11 : f32[1,8,4096,32] = aten.tanh.default(self=%10) {pointwise, recompute}
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
// -----
// the user's wish to run a cheap op again wins over what is cheapest
// RUN: --choose-checkpoints --option fused=false
autosp.graph "joint" ranks=2 {
  input %0 : f32[4096,256] user "x"
  input %1 : f32[256,256] grad parameter "w"
  input %2 : f32[1,8,4096,32] tangent "t"
  %3 : f32[4096,256] = aten.mm.default(self=%0, mat2=%1)
  %4 : f32[4096,256] = aten.tanh.default(self=%3) {pointwise, recompute} at "m.py:4"
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
// CHECK:
autosp.graph "joint" ranks=2 {
  input %0 : f32[4096,256] user "x"
  input %1 : f32[256,256] grad parameter "w"
  input %2 : f32[1,8,4096,32] tangent "t"
  %3 : f32[4096,256] saved = aten.mm.default(self=%0, mat2=%1)
  %4 : f32[4096,256] = aten.tanh.default(self=%3) {pointwise, recompute} at "m.py:4"
  %5 : f32[4096,256] = aten.mm.default(self=%4, mat2=%1)
  %6 : f32[4096,256] saved = aten.add.Tensor(self=%3, other=%5) {pointwise}
  %7 : f32[1,8,4096,32] of %6 = aten.view.default(self=%6) {recompute}
  %8 : f32[1,8,4096,32] saved, %9 : f32[1,8,4096] saved = aten._scaled_dot_product_flash_attention_for_cpu.default(query=%7, key=%7, value=%7, dropout_p=0.0, is_causal=true) {random} at "m.py:6"
  %10 : f32[1,8,4096,32] = aten.add.Tensor(self=%7, other=%8) {pointwise, recompute}
  %11 : f32[1,8,4096,32] = aten.tanh.default(self=%10) {pointwise, recompute}
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
