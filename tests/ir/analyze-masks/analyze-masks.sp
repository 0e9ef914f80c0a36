// Keys up to the query, as written by comparing positions.
// RUN: --analyze-masks --assume=functional --report
autosp.graph "forward" ranks=2 {
  input %0 : f32[2,4,6,8] grad user "q"
  %1 : i64[6] = aten.arange.default(end=6)
  %2 : i64[6,1] = aten.unsqueeze.default(self=%1, dim=1)
  %3 : b8[6,6] = aten.le.Tensor(self=%1, other=%2)
  %4 : f32[2,4,6,8] grad = aten.scaled_dot_product_attention.default(query=%0, key=%0, value=%0, attn_mask=%3, dropout_p=0.0, is_causal=false, scale=none, enable_gqa=false)
  output %4 ""
}
// STDERR: masks:
// STDERR:   aten.scaled_dot_product_attention.default on %4: k <= q: is_causal
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : f32[2,4,6,8] grad user "q"
  %1 : i64[6] = aten.arange.default(end=6)
  %2 : i64[6,1] = aten.unsqueeze.default(self=%1, dim=1)
  %3 : b8[6,6] = aten.le.Tensor(self=%1, other=%2)
  %4 : f32[2,4,6,8] grad = aten.scaled_dot_product_attention.default(query=%0, key=%0, value=%0, attn_mask=none, dropout_p=0.0, is_causal=true, scale=none, enable_gqa=false)
  output %4 ""
}
// -----
// Every key is visible.
autosp.graph "forward" ranks=2 {
  input %0 : f32[2,4,6,8] grad user "q"
  %1 : i64[6] = aten.arange.default(end=6)
  %2 : i64[6,1] = aten.unsqueeze.default(self=%1, dim=1)
  %3 : b8[6,1] = aten.ge.Scalar(self=%2, other=0)
  %4 : b8[2,1,6,6] = aten.expand.default(self=%3, size=[2, 1, 6, 6])
  %5 : f32[2,4,6,8] grad = aten.scaled_dot_product_attention.default(query=%0, key=%0, value=%0, attn_mask=%4, dropout_p=0.0, is_causal=false, scale=none, enable_gqa=false)
  output %5 ""
}
// STDERR: masks:
// STDERR:   aten.scaled_dot_product_attention.default on %5: every key is visible: no mask
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : f32[2,4,6,8] grad user "q"
  %1 : i64[6] = aten.arange.default(end=6)
  %2 : i64[6,1] = aten.unsqueeze.default(self=%1, dim=1)
  %3 : b8[6,1] = aten.ge.Scalar(self=%2, other=0)
  %4 : b8[2,1,6,6] = aten.expand.default(self=%3, size=[2, 1, 6, 6])
  %5 : f32[2,4,6,8] grad = aten.scaled_dot_product_attention.default(query=%0, key=%0, value=%0, attn_mask=none, dropout_p=0.0, is_causal=false, scale=none, enable_gqa=false)
  output %5 ""
}
// -----
// An additive mask of minus infinity.
autosp.graph "forward" ranks=2 {
  input %0 : f32[2,4,6,8] grad user "q"
  %1 : i64[6] = aten.arange.default(end=6)
  %2 : i64[6,1] = aten.unsqueeze.default(self=%1, dim=1)
  %3 : b8[6,6] = aten.gt.Tensor(self=%1, other=%2)
  %4 : f32[6,6] = aten.zeros.default(size=[6, 6])
  %5 : f32[6,6] = aten.masked_fill.Scalar(self=%4, mask=%3, value=-inf)
  %6 : f32[2,4,6,8] grad = aten.scaled_dot_product_attention.default(query=%0, key=%0, value=%0, attn_mask=%5, dropout_p=0.0, is_causal=false, scale=none, enable_gqa=false)
  output %6 ""
}
// STDERR: masks:
// STDERR:   aten.scaled_dot_product_attention.default on %6: k <= q: is_causal
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : f32[2,4,6,8] grad user "q"
  %1 : i64[6] = aten.arange.default(end=6)
  %2 : i64[6,1] = aten.unsqueeze.default(self=%1, dim=1)
  %3 : b8[6,6] = aten.gt.Tensor(self=%1, other=%2)
  %4 : f32[6,6] = aten.zeros.default(size=[6, 6])
  %5 : f32[6,6] = aten.masked_fill.Scalar(self=%4, mask=%3, value=-inf)
  %6 : f32[2,4,6,8] grad = aten.scaled_dot_product_attention.default(query=%0, key=%0, value=%0, attn_mask=none, dropout_p=0.0, is_causal=true, scale=none, enable_gqa=false)
  output %6 ""
}
// -----
// Causal and padded: the padding is data, so the mask stays.
autosp.graph "forward" ranks=2 {
  input %0 : f32[2,4,6,8] grad user "q"
  input %1 : i64[2,6] user "attention_mask"
  %2 : i64[6] = aten.arange.default(end=6)
  %3 : i64[6,1] = aten.unsqueeze.default(self=%2, dim=1)
  %4 : b8[6,6] = aten.le.Tensor(self=%2, other=%3)
  %5 : b8[2,6] = aten.ne.Scalar(self=%1, other=0)
  %6 : b8[2,1,1,6] = aten.view.default(self=%5, size=[2, 1, 1, 6])
  %7 : b8[2,1,6,6] = aten.bitwise_and.Tensor(self=%4, other=%6)
  %8 : f32[2,4,6,8] grad = aten.scaled_dot_product_attention.default(query=%0, key=%0, value=%0, attn_mask=%7, dropout_p=0.0, is_causal=false, scale=none, enable_gqa=false) at "model.py:12"
  output %8 ""
}
// STDERR: remark: aten.scaled_dot_product_attention.default on %8 (model.py:12): the mask %7 is neither causal nor always true; it is kept as a tensor (72 bytes)
// STDERR: masks:
// STDERR:   aten.scaled_dot_product_attention.default on %8: kept: ((-q + k <= 0) and !(%1[b, k] == 0))
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : f32[2,4,6,8] grad user "q"
  input %1 : i64[2,6] user "attention_mask"
  %2 : i64[6] = aten.arange.default(end=6)
  %3 : i64[6,1] = aten.unsqueeze.default(self=%2, dim=1)
  %4 : b8[6,6] = aten.le.Tensor(self=%2, other=%3)
  %5 : b8[2,6] = aten.ne.Scalar(self=%1, other=0)
  %6 : b8[2,1,1,6] = aten.view.default(self=%5, size=[2, 1, 1, 6])
  %7 : b8[2,1,6,6] = aten.bitwise_and.Tensor(self=%4, other=%6)
  %8 : f32[2,4,6,8] grad = aten.scaled_dot_product_attention.default(query=%0, key=%0, value=%0, attn_mask=%7, dropout_p=0.0, is_causal=false, scale=none, enable_gqa=false) at "model.py:12"
  output %8 ""
}
// -----
// A window of four keys.
autosp.graph "forward" ranks=2 {
  input %0 : f32[2,4,6,8] grad user "q"
  %1 : i64[6] = aten.arange.default(end=6)
  %2 : i64[6,1] = aten.unsqueeze.default(self=%1, dim=1)
  %3 : i64[6,6] = aten.sub.Tensor(self=%1, other=%2, alpha=1)
  %4 : b8[6,6] = aten.le.Scalar(self=%3, other=0)
  %5 : b8[6,6] = aten.gt.Scalar(self=%3, other=-4)
  %6 : b8[6,6] = aten.logical_and.default(self=%4, other=%5)
  %7 : f32[2,4,6,8] grad = aten.scaled_dot_product_attention.default(query=%0, key=%0, value=%0, attn_mask=%6, dropout_p=0.0, is_causal=false, scale=none, enable_gqa=false)
  output %7 ""
}
// STDERR: remark: aten.scaled_dot_product_attention.default on %7: the mask %6 is neither causal nor always true; it is kept as a tensor (36 bytes)
// STDERR: masks:
// STDERR:   aten.scaled_dot_product_attention.default on %7: kept: ((-q + k <= 0) and (q - k - 3 <= 0))
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : f32[2,4,6,8] grad user "q"
  %1 : i64[6] = aten.arange.default(end=6)
  %2 : i64[6,1] = aten.unsqueeze.default(self=%1, dim=1)
  %3 : i64[6,6] = aten.sub.Tensor(self=%1, other=%2, alpha=1)
  %4 : b8[6,6] = aten.le.Scalar(self=%3, other=0)
  %5 : b8[6,6] = aten.gt.Scalar(self=%3, other=-4)
  %6 : b8[6,6] = aten.logical_and.default(self=%4, other=%5)
  %7 : f32[2,4,6,8] grad = aten.scaled_dot_product_attention.default(query=%0, key=%0, value=%0, attn_mask=%6, dropout_p=0.0, is_causal=false, scale=none, enable_gqa=false)
  output %7 ""
}
// -----
// Fewer queries than keys: is_causal would align the other corner.
autosp.graph "forward" ranks=2 {
  input %0 : f32[2,4,3,8] grad user "q"
  input %1 : f32[2,4,6,8] grad user "kv"
  %2 : i64[6] = aten.arange.default(end=6)
  %3 : i64[3] = aten.arange.start(start=3, end=6)
  %4 : i64[3,1] = aten.unsqueeze.default(self=%3, dim=1)
  %5 : b8[3,6] = aten.le.Tensor(self=%2, other=%4)
  %6 : f32[2,4,3,8] grad = aten.scaled_dot_product_attention.default(query=%0, key=%1, value=%1, attn_mask=%5, dropout_p=0.0, is_causal=false, scale=none, enable_gqa=false)
  output %6 ""
}
// STDERR: remark: aten.scaled_dot_product_attention.default on %6: the mask %5 is neither causal nor always true; it is kept as a tensor (18 bytes)
// STDERR: masks:
// STDERR:   aten.scaled_dot_product_attention.default on %6: kept: (k - q - 3 <= 0)
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : f32[2,4,3,8] grad user "q"
  input %1 : f32[2,4,6,8] grad user "kv"
  %2 : i64[6] = aten.arange.default(end=6)
  %3 : i64[3] = aten.arange.start(start=3, end=6)
  %4 : i64[3,1] = aten.unsqueeze.default(self=%3, dim=1)
  %5 : b8[3,6] = aten.le.Tensor(self=%2, other=%4)
  %6 : f32[2,4,3,8] grad = aten.scaled_dot_product_attention.default(query=%0, key=%1, value=%1, attn_mask=%5, dropout_p=0.0, is_causal=false, scale=none, enable_gqa=false)
  output %6 ""
}
