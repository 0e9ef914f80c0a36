// RUN: --canonicalize
autosp.graph "forward" ranks=2 {
  input %0 : f32[4,6] buffer "cache"
  %1 : f32[6] = aten.select.int(self=%0, dim=0, index=0)
  %2 : f32[6] = aten.zero_.default(self=%1) {mutates} at "model.py:3"
  output %2 ""
}
// ERROR: aten.zero_.default on %2 (model.py:3): it writes in place through a view of an input. Write it out of place
// -----
autosp.graph "forward" ranks=2 {
  input %0 : f32[4,6] user "x"
  %1 : f32[4,6] = aten.exp.default(self=%0)
  %2 : f32[24] = aten.reshape.default(self=%1, shape=[24])
  %3 : f32[24] = aten.neg_.default(self=%2) {mutates} at "model.py:4"
  %4 : f32[4,6] = aten.relu.default(self=%1) at "model.py:5"
  output %4 ""
}
// ERROR: aten.relu.default on %4 (model.py:5): it reads %1, which may share memory with what aten.neg_.default on %3 wrote in place. Write it out of place, or clone it before
// -----
autosp.graph "forward" ranks=2 {
  input %0 : f32[4,6] grad parameter "w"
  %1 : f32[4,6] grad = aten.exp.default(self=%0)
  %2 : token = torch.set_grad_enabled(mode=false) {effect}
  %3 : f32[4,6] = aten.clamp_.default(self=%1, min=0, max=none) {mutates} at "model.py:6"
  output %1 ""
}
// ERROR: aten.clamp_.default on %3 (model.py:6): it writes in place, without gradients, to a tensor that has one. Write it out of place
// -----
autosp.graph "forward" ranks=2 {
  input %0 : f32[4,6] grad parameter "w"
  %1 : f32[4,6] grad = aten.exp.default(self=%0)
  %2 : f32[4,6] grad = aten.logical_not_.default(self=%1) {pointwise, mutates} at "model.py:8"
  output %2 ""
}
// ERROR: aten.logical_not_.default on %2 (model.py:8): it writes truth values in place to a tensor that has a gradient, and torch keeps the gradient of what was there before. Write it out of place
// -----
autosp.graph "forward" ranks=2 {
  input %0 : f32[4,6] user "x"
  %1 : f32[4,6] = aten.exp.default(self=%0)
  %2 : f32[4,6] = aten.normal_.default(self=%1, mean=0.0, std=1.0, generator=none) {random, mutates} at "model.py:7"
  output %2 ""
}
// ERROR: aten.normal_.default on %2 (model.py:7): it writes in place and has no out-of-place form that is known here. Write it out of place
// -----
autosp.graph "forward" ranks=2 {
  input %0 : f32[4,6] user "x"
  %1 : f32[4,1] = aten.sum.dim_IntList(self=%0, dim=[1], keepdim=true, dtype=none)
  %2 : f32[4,6] = aten.expand.default(self=%1, size=[4, 6], implicit=false)
  %3 : f32[4,6] = aten.neg_.default(self=%2) {mutates} at "model.py:8"
  output %3 ""
}
// ERROR: aten.neg_.default on %3 (model.py:8): it writes in place through aten.expand.default on %2. Write it out of place
