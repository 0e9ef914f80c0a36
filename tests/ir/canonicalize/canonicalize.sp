// A write to a fresh tensor.
// RUN: --canonicalize
autosp.graph "forward" ranks=2 {
  input %0 : f32[4,6] grad parameter "w"
  input %1 : f32[4,6] user "x"
  %2 : f32[4,6] grad = aten.mul.Tensor(self=%0, other=%1) {pointwise}
  %3 : f32[4,6] grad = aten.add_.Tensor(self=%2, other=%1, alpha=1) {pointwise, mutates}
  %4 : f32[4,6] grad = aten.relu.default(self=%2) {pointwise}
  output %4 "y"
}
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : f32[4,6] grad parameter "w"
  input %1 : f32[4,6] user "x"
  %2 : f32[4,6] grad = aten.mul.Tensor(self=%0, other=%1) {pointwise}
  %3 : f32[4,6] grad = aten.add.Tensor(self=%2, other=%1, alpha=1) {pointwise}
  %4 : f32[4,6] grad = aten.relu.default(self=%3) {pointwise}
  output %4 "y"
}
// -----
// A tensor filled by a write to its first element and one to the others: labels shifted to the right.
autosp.graph "forward" ranks=2 {
  input %0 : i64[2,6] user "labels"
  %1 : i64[2,6] = aten.new_zeros.default(self=%0, size=[2, 6])
  %2 : i64[2,5] = aten.slice.Tensor(self=%0, dim=1, start=0, end=-1, step=1)
  %3 : i64[2,5] = aten.clone.default(self=%2, memory_format=none)
  %4 : i64[2,5] = aten.slice.Tensor(self=%1, dim=1, start=1, end=9223372036854775807, step=1)
  %5 : i64[2,5] = aten.copy_.default(self=%4, src=%3, non_blocking=false) {mutates}
  %6 : i64[2] = aten.select.int(self=%1, dim=1, index=0)
  %7 : i64[2] = aten.fill_.Scalar(self=%6, value=7) {mutates}
  output %1 "shifted"
}
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : i64[2,6] user "labels"
  %1 : i64[2,6] = aten.new_zeros.default(self=%0, size=[2, 6])
  %2 : i64[2,5] = aten.slice.Tensor(self=%0, dim=1, start=0, end=-1, step=1)
  %3 : i64[2,5] = aten.clone.default(self=%2, memory_format=none)
  %4 : i64[2,5] = aten.slice.Tensor(self=%1, dim=1, start=1, end=9223372036854775807, step=1)
  %8 : i64[2,1] = aten.slice.Tensor(self=%1, dim=1, start=0, end=1, step=1)
  %9 : i64[2,6] = aten.cat.default(tensors=[%8, %3], dim=1)
  %6 : i64[2] = aten.select.int(self=%9, dim=1, index=0)
  %7 : i64[2] = aten.full_like.default(self=%6, fill_value=7, dtype=none, layout=none, device=none, pin_memory=none, memory_format=none)
  %10 : i64[2,1] = aten.unsqueeze.default(self=%7, dim=1)
  %11 : i64[2,6] = aten.cat.default(tensors=[%10, %3], dim=1)
  output %11 "shifted"
}
// -----
// A view taken before the write is taken again after it.
autosp.graph "forward" ranks=2 {
  input %0 : f32[4,6] grad parameter "w"
  %1 : f32[4,6] grad = aten.exp.default(self=%0) {pointwise}
  %2 : f32[6,4] grad = aten.t.default(self=%1)
  %3 : f32[4,6] grad = aten.mul_.Tensor(self=%1, other=2.0) {pointwise, mutates}
  %4 : f32[6,4] grad = aten.relu.default(self=%2) {pointwise}
  output %4 ""
}
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : f32[4,6] grad parameter "w"
  %1 : f32[4,6] grad = aten.exp.default(self=%0) {pointwise}
  %2 : f32[6,4] grad = aten.t.default(self=%1)
  %3 : f32[4,6] grad = aten.mul.Tensor(self=%1, other=2.0) {pointwise}
  %5 : f32[6,4] grad = aten.t.default(self=%3)
  %4 : f32[6,4] grad = aten.relu.default(self=%5) {pointwise}
  output %4 ""
}
// -----
// A write to a buffer stays: the caller sees it.
autosp.graph "forward" ranks=2 {
  input %0 : i64[] buffer "num_batches"
  %1 : i64[] = aten.add_.Tensor(self=%0, other=1, alpha=1) {pointwise, mutates}
  output %1 ""
}
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : i64[] buffer "num_batches"
  %1 : i64[] = aten.add_.Tensor(self=%0, other=1, alpha=1) {pointwise, mutates}
  output %1 ""
}
// -----
// Ops that do nothing go, unless an output would become an input.
autosp.graph "forward" ranks=2 {
  input %0 : i64[4,6] user "ids"
  input %1 : f32[4,6] grad parameter "w"
  %2 : i64[4,6] = aten.add.Tensor(self=%0, other=0, alpha=1) {pointwise}
  %3 : i64[4,6] = aten.slice.Tensor(self=%2, dim=1, start=0, end=9223372036854775807, step=1)
  %4 : f32[4,6] grad = aten.to.dtype(self=%1, dtype=#"torch.float32", non_blocking=false, copy=false, memory_format=none)
  %5 : f32[4,6] grad = aten.dropout.default("input"=%4, p=0.1, train=false) {random}
  %6 : f32[4,6] grad = aten.mul.Tensor(self=%5, other=%3) {pointwise}
  %7 : f32[4,6] grad = aten.view.default(self=%1, size=[4, 6])
  output %6 ""
  output %7 ""
}
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : i64[4,6] user "ids"
  input %1 : f32[4,6] grad parameter "w"
  %6 : f32[4,6] grad = aten.mul.Tensor(self=%1, other=%0) {pointwise}
  %7 : f32[4,6] grad = aten.view.default(self=%1, size=[4, 6])
  output %6 ""
  output %7 ""
}
