// RUN:
// An argument list that does not end.
autosp.graph "forward" ranks=2 {
  input %0 : f32[4] user "x"
  %1 : f32[4] = aten.relu.default(self=%0
  output %1 "y"
}
// ERROR: <stdin>:6:3: expected ')' after the arguments, found 'output'
// -----
autosp.graph "forward" ranks=2 {
  input %0 : f31[4] user "x"
}
// ERROR: <stdin>:2:14: expected an element type (b8, u8, i8, i16, i32, i64, f16, bf16, f32, f64, c64, c128 or other), found 'f31'
// -----
autosp.graph "forward" ranks=2 {
  %1 : f32[4] = aten.relu.default(self=%0)
}
// ERROR: <stdin>:2:40: %0 is not defined before it is read
// -----
autosp.graph "forward" ranks=2 {
  input %0 : f32[4] user "x" @S(0)
}
// ERROR: <stdin>:2:31: a cut says its base, as S(0,base=32)
// -----
autosp.graph "forward" ranks=2 {
  input %0 : f32[4] user "x
}
// ERROR: <stdin>:2:26: the string does not end on its line
// -----
// The verifier: a cut of a dim that is not there.
autosp.graph "forward" ranks=2 {
  input %0 : f32[4] user "x" @S(1,base=4)
}
// ERROR: input "x" (%0): form S(1,base=4) of f32[4]: there is no dim 1
// -----
// A token where a tensor is read.
autosp.graph "forward" ranks=2 {
  %0 : token = torch.enter_autocast(device=#"cpu") {effect}
  %1 : f32[4] = aten.relu.default(self=%0) at "model.py:12"
}
// ERROR: aten.relu.default on %1 (model.py:12): it reads the token %0; only ops with an effect take tokens
// -----
// RUN: --timing=yes
autosp.graph "forward" ranks=2 {
}
// ERROR: --timing takes no value
// -----
// RUN: --option objective=fast
autosp.graph "forward" ranks=2 {
}
// ERROR: option objective: expected memory or time, found 'fast'
// -----
// RUN: --remove-dead-op
autosp.graph "forward" ranks=2 {
}
// ERROR: unknown flag or pass '--remove-dead-op' (did you mean '--remove-dead-ops'?)
// -----
// RUN: --insert-conversions
autosp.graph "forward" ranks=2 {
}
// ERROR: pass insert-conversions needs 'placement', which no pass before it provides; run choose-placement first
