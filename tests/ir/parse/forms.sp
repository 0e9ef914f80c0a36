// RUN:
// Whole, partial and cut values.
autosp.graph "forward" ranks=2 {
  input %0 : f32[4,6] grad user "x" @R
  input %1 : f32[6,6] grad parameter "w" @Q
  %2 : f32[4,6] grad @P = mylib.f.default(self=%0)
  %3 : f32[4,6] grad @S(1,base=6) = mylib.f.default(self=%0)
  %4 : f32[4,6] grad @S(1,group=4, outer=2, shift=-1, inner=3, base=7) = mylib.f.default(self=%0)
  output %3 "y"
}
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : f32[4,6] grad user "x" @R
  input %1 : f32[6,6] grad parameter "w" @Q
  %2 : f32[4,6] grad @P = mylib.f.default(self=%0)
  %3 : f32[4,6] grad @S(1,base=6) = mylib.f.default(self=%0)
  %4 : f32[4,6] grad @S(1,outer=2,inner=3,base=7,shift=-1,group=4) = mylib.f.default(self=%0)
  output %3 "y"
}
// -----
// What choose-placement decided for ops and outputs.
autosp.graph "forward" ranks=2 {
  input %0 : f32[4,6] grad user "x" @R
  input %1 : f32[6,6] grad parameter "w" @R
  %2 : f32[4,6] grad @S(0,base=4) = aten.mm.default(self=%0, mat2=%1) needs [S(0,base=4), Q] from 2 at "model.py:3"
  %3 : f32[] grad @P = aten.mean.default(self=%2) needs [S(0,base=4)] lowering "sum-then-divide"
  output %3 "loss" @R
  output %2 "logits" may_stay_cut @S(0,base=4)
}
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : f32[4,6] grad user "x" @R
  input %1 : f32[6,6] grad parameter "w" @R
  %2 : f32[4,6] grad @S(0,base=4) = aten.mm.default(self=%0, mat2=%1) needs [S(0,base=4), Q] from 2 at "model.py:3"
  %3 : f32[] grad @P = aten.mean.default(self=%2) needs [S(0,base=4)] lowering "sum-then-divide"
  output %3 "loss" @R
  output %2 "logits" may_stay_cut @S(0,base=4)
}
