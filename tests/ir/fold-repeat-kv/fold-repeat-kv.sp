// Two kv heads repeated for eight query heads, by expand after the head dim.
// RUN: --fold-repeat-kv --assume=functional --remove-dead-ops
autosp.graph "forward" ranks=2 {
  input %0 : f32[2,8,6,4] grad user "q"
  input %1 : f32[2,2,6,4] grad user "k"
  input %2 : f32[2,2,6,4] grad user "v"
  %3 : f32[2,2,1,6,4] grad = aten.unsqueeze.default(self=%1, dim=2)
  %4 : f32[2,2,4,6,4] grad = aten.expand.default(self=%3, size=[2, 2, 4, 6, 4])
  %5 : f32[2,8,6,4] grad = aten.reshape.default(self=%4, shape=[2, 8, 6, 4])
  %6 : f32[2,2,1,6,4] grad = aten.unsqueeze.default(self=%2, dim=2)
  %7 : f32[2,2,4,6,4] grad = aten.expand.default(self=%6, size=[2, 2, 4, 6, 4])
  %8 : f32[2,8,6,4] grad = aten.reshape.default(self=%7, shape=[2, 8, 6, 4])
  %9 : f32[2,8,6,4] grad = aten.scaled_dot_product_attention.default(query=%0, key=%5, value=%8, attn_mask=none, dropout_p=0.0, is_causal=true, scale=none, enable_gqa=false)
  output %9 ""
}
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : f32[2,8,6,4] grad user "q"
  input %1 : f32[2,2,6,4] grad user "k"
  input %2 : f32[2,2,6,4] grad user "v"
  %9 : f32[2,8,6,4] grad = aten.scaled_dot_product_attention.default(query=%0, key=%1, value=%2, attn_mask=none, dropout_p=0.0, is_causal=true, scale=none, enable_gqa=true)
  output %9 ""
}
// -----
// By repeat_interleave.
autosp.graph "forward" ranks=2 {
  input %0 : f32[2,8,6,4] grad user "q"
  input %1 : f32[2,2,6,4] grad user "kv"
  %2 : f32[2,8,6,4] grad = aten.repeat_interleave.self_int(self=%1, repeats=4, dim=1, output_size=none)
  %3 : f32[2,8,6,4] grad = aten.scaled_dot_product_attention.default(query=%0, key=%2, value=%2, attn_mask=none, dropout_p=0.0, is_causal=true, scale=none, enable_gqa=false)
  output %3 ""
}
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : f32[2,8,6,4] grad user "q"
  input %1 : f32[2,2,6,4] grad user "kv"
  %3 : f32[2,8,6,4] grad = aten.scaled_dot_product_attention.default(query=%0, key=%1, value=%1, attn_mask=none, dropout_p=0.0, is_causal=true, scale=none, enable_gqa=true)
  output %3 ""
}
// -----
// Repeated before the head dim, query head h reads kv head h mod 2: not what enable_gqa means.
autosp.graph "forward" ranks=2 {
  input %0 : f32[2,8,6,4] grad user "q"
  input %1 : f32[2,2,6,4] grad user "kv"
  %2 : f32[2,1,2,6,4] grad = aten.unsqueeze.default(self=%1, dim=1)
  %3 : f32[2,4,2,6,4] grad = aten.expand.default(self=%2, size=[2, 4, 2, 6, 4])
  %4 : f32[2,8,6,4] grad = aten.reshape.default(self=%3, shape=[2, 8, 6, 4])
  %5 : f32[2,8,6,4] grad = aten.scaled_dot_product_attention.default(query=%0, key=%4, value=%4, attn_mask=none, dropout_p=0.0, is_causal=true, scale=none, enable_gqa=false)
  output %5 ""
}
// CHECK:
autosp.graph "forward" ranks=2 {
  input %0 : f32[2,8,6,4] grad user "q"
  input %1 : f32[2,2,6,4] grad user "kv"
  %2 : f32[2,1,2,6,4] grad = aten.unsqueeze.default(self=%1, dim=1)
  %3 : f32[2,4,2,6,4] grad = aten.expand.default(self=%2, size=[2, 4, 2, 6, 4])
  %4 : f32[2,8,6,4] grad = aten.reshape.default(self=%3, shape=[2, 8, 6, 4])
  %5 : f32[2,8,6,4] grad = aten.scaled_dot_product_attention.default(query=%0, key=%4, value=%4, attn_mask=none, dropout_p=0.0, is_causal=true, scale=none, enable_gqa=false)
  output %5 ""
}
