// RUN: --remove-dead-ops
// A chain that nothing reads goes; ids of what stays do not change.
autosp.graph "forward" ranks=2 {
  input %0 : f32[4] user "x"
  %1 : f32[4] = aten.exp.default(self=%0)
  %2 : f32[4] = aten.log.default(self=%1)
  %3 : f32[4] = aten.relu.default(self=%0)
  output %3 "y"
}
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : f32[4] user "x"
  %3 : f32[4] = aten.relu.default(self=%0)
  output %3 "y"
}
// -----
// Effects and writes stay, and so does what they read.
autosp.graph "forward" ranks=2 {
  input %0 : f32[4] buffer "count"
  %1 : f32[4] = aten.exp.default(self=%0)
  %2 : f32[4] = aten.copy_.default(self=%0, src=%1) {mutates}
  %3 : token = torch.enter_autocast(device=#"cpu") {effect}
  torch.exit_autocast(state=%3) {effect}
}
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : f32[4] buffer "count"
  %1 : f32[4] = aten.exp.default(self=%0)
  %2 : f32[4] = aten.copy_.default(self=%0, src=%1) {mutates}
  %3 : token = torch.enter_autocast(device=#"cpu") {effect}
  torch.exit_autocast(state=%3) {effect}
}
// -----
// One used result keeps an op.
autosp.graph "forward" ranks=2 {
  input %0 : f32[4,3] user "x"
  %1 : f32[4], %2 : i64[4] = aten.max.dim(self=%0, dim=1)
  output %2 "indices"
}
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : f32[4,3] user "x"
  %1 : f32[4], %2 : i64[4] = aten.max.dim(self=%0, dim=1)
  output %2 "indices"
}
