// RUN:
// An argument list that does not end.
autosp.graph "forward" ranks=2 {
  input %0 : f32[4] user "x"
  %1 : f32[4] = aten.relu.default(self=%0
  output %1 "y"
}
// -----
autosp.graph "forward" ranks=2 {
  input %0 : f31[4] user "x"
}
// -----
autosp.graph "forward" ranks=2 {
  %1 : f32[4] = aten.relu.default(self=%0)
}
// -----
autosp.graph "forward" ranks=2 {
  input %0 : f32[4] user "x" @S(0)
}
// -----
autosp.graph "forward" ranks=2 {
  input %0 : f32[4] user "x
}
// -----
// The verifier: a cut of a dim that is not there.
autosp.graph "forward" ranks=2 {
  input %0 : f32[4] user "x" @S(1,base=4)
}
// -----
// A token where a tensor is read.
autosp.graph "forward" ranks=2 {
  %0 : token = torch.enter_autocast(device=#"cpu") {effect}
  %1 : f32[4] = aten.relu.default(self=%0) at "model.py:12"
}
// -----
// RUN: --objective=time
autosp.graph "forward" ranks=2 {
}
// -----
// RUN: --option objectve=time
autosp.graph "forward" ranks=2 {
}
// -----
// RUN: --remove-dead-op
autosp.graph "forward" ranks=2 {
}
// -----
// RUN: --insert-conversions
autosp.graph "forward" ranks=2 {
}
