// RUN:
// Every kind of attribute.
autosp.graph "forward" ranks=1 {
  input %0 : f32[4] user "x"
  %1 : f32[4] = mylib.f.default(none=none, yes=true, no=false, int=3, negative=-9223372036854775808, value=%0)
  %2 : f32[4] = mylib.f.default(float=3.0, short=1., small=1e-5, third=0.3333333333333333, inf=-inf, nan=nan)
  %3 : f32[4] = mylib.f.default(text="a \"b\" \\ \n\t // \x01 é", opaque=#"torch.float32", empty=[], list=[1, [2.0, none], %0, "x"])
  %4 : f32[4] = "<built-in function add>"("weird name"=1)
  output %1 "y"
}
// CHECK:
autosp.graph "forward" ranks=1 {
  input %0 : f32[4] user "x"
  %1 : f32[4] = mylib.f.default(none=none, yes=true, no=false, int=3, negative=-9223372036854775808, value=%0)
  %2 : f32[4] = mylib.f.default(float=3.0, short=1.0, small=1e-05, third=0.3333333333333333, inf=-inf, nan=nan)
  %3 : f32[4] = mylib.f.default(text="a \"b\" \\ \n\t // \x01 é", opaque=#"torch.float32", empty=[], list=[1, [2.0, none], %0, "x"])
  %4 : f32[4] = "<built-in function add>"("weird name"=1)
  output %1 "y"
}
