// RUN:
// A graph of one input, returned.
autosp.graph "forward" ranks=2 {
  input %0 : f32[4] user "x"
  output %0 "y"
}
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : f32[4] user "x"
  output %0 "y"
}
// -----
// Kinds of inputs, element types, symbolic dims; symbols are sorted, a coefficient of 1 is left out.
autosp.graph "forward" ranks=1 {
  input %0 : i64[2,32] user "input_ids"
  input %1 : bf16[97,32] grad parameter "model.embed_tokens.weight"
  input %2 : f64[] buffer "scale"
  input %3 : b8[s0,2*s1*s0,1*s0] constant "mask"
  input %4 : i64[1] seed "seed"
  input %5 : other[3] user "packed"
  output none "nothing"
}
// CHECK:
autosp.graph "forward" ranks=1 {
  input %0 : i64[2,32] user "input_ids"
  input %1 : bf16[97,32] grad parameter "model.embed_tokens.weight"
  input %2 : f64[] buffer "scale"
  input %3 : b8[s0,2*s0*s1,s0] constant "mask"
  input %4 : i64[1] seed "seed"
  input %5 : other[3] user "packed"
  output none "nothing"
}
// -----
// Several results, no result, tokens, traits, origin and source line.
autosp.graph "forward" ranks=2 {
  input %0 : f32[2,3] user "x"
  %1 : f32[2], %2 : i64[2] = aten.max.dim(self=%0, dim=1, keepdim=false) from 3 at "model.py:88"
  %3 : token = torch.enter_autocast(device=#"cpu", dtype=#"torch.bfloat16") {effect}
  %4 : f32[2] = aten.bernoulli.p(self=%1, p=0.5, generator=none) {pointwise, random}
  %5 : f32[2] = aten.add_.Tensor(self=%4, other=%1) {pointwise, mutates}
  torch.exit_autocast(state=%3) {effect}
  output %5 "y"
  output %2 "indices"
}
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : f32[2,3] user "x"
  %1 : f32[2], %2 : i64[2] = aten.max.dim(self=%0, dim=1, keepdim=false) from 3 at "model.py:88"
  %3 : token = torch.enter_autocast(device=#"cpu", dtype=#"torch.bfloat16") {effect}
  %4 : f32[2] = aten.bernoulli.p(self=%1, p=0.5, generator=none) {pointwise, random}
  %5 : f32[2] = aten.add_.Tensor(self=%4, other=%1) {pointwise, mutates}
  torch.exit_autocast(state=%3) {effect}
  output %5 "y"
  output %2 "indices"
}
// -----
// Ids are kept, in any order; layout and comments are not.
autosp.graph "forward"   ranks=2 {
  input %7 : f32[4] user "x" // the input
  %9 : f32[4] = aten.relu.default(
      self=%7)
  %8 : f32[4] = aten.exp.default(self=%9) output %8 "y" }
// CHECK:
autosp.graph "forward" ranks=2 {
  input %7 : f32[4] user "x"
  %9 : f32[4] = aten.relu.default(self=%7)
  %8 : f32[4] = aten.exp.default(self=%9)
  output %8 "y"
}
