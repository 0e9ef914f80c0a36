// Programs for the tests of this layer: built by hand, at random, and like a transformer's training
// step.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "autosp/cost/joint_program.h"

namespace autosp::checkpoint::samples {

using cost::Demand;
using cost::JointOp;
using cost::JointProgram;
using cost::JointValue;
using cost::OpClass;
using cost::OpIndex;
using cost::ValueIndex;
using Reads = std::vector<ValueIndex>;

class ProgramBuilder {
 public:
  JointProgram program;

  ValueIndex parameter(std::int64_t bytes = 1) { return input(bytes, true, false); }
  ValueIndex data(std::int64_t bytes = 1) { return input(bytes, false, true); }
  ValueIndex input(std::int64_t bytes, bool is_parameter, bool is_data) {
    JointValue value;
    value.base = static_cast<ValueIndex>(program.values.size());
    value.bytes = bytes;
    value.parameter = is_parameter;
    value.data = is_data;
    program.values.push_back(value);
    return value.base;
  }
  // An op with one result; returns the result.
  ValueIndex op(OpClass kind, Reads reads, std::int64_t bytes, std::int64_t time) {
    return ops(kind, std::move(reads), {bytes}, time).front();
  }
  // An op with several results.
  std::vector<ValueIndex> ops(OpClass kind, Reads reads, const std::vector<std::int64_t>& bytes,
                              std::int64_t time) {
    JointOp op;
    op.kind = kind;
    op.reads = std::move(reads);
    op.time = time;
    for (std::int64_t size : bytes) op.makes.push_back(result(size, -1));
    program.ops.push_back(op);
    return op.makes;
  }
  ValueIndex view(ValueIndex of) {
    JointOp op;
    op.kind = OpClass::kView;
    op.reads = {of};
    op.makes = {result(0, program.base(of))};
    program.ops.push_back(op);
    return op.makes.front();
  }
  ValueIndex backward(Reads reads, std::int64_t bytes = 1) {
    const ValueIndex out = op(OpClass::kOther, std::move(reads), bytes, 1);
    lastOp().backward = true;
    return out;
  }
  JointOp& lastOp() { return program.ops.back(); }
  JointOp& makerOf(ValueIndex v) { return program.ops[program.values[v].maker]; }

 private:
  ValueIndex result(std::int64_t bytes, ValueIndex base) {
    JointValue value;
    const auto index = static_cast<ValueIndex>(program.values.size());
    value.maker = static_cast<OpIndex>(program.ops.size());
    value.base = base < 0 ? index : base;
    value.bytes = bytes;
    program.values.push_back(value);
    return index;
  }
};

// A pre-norm transformer of equal layers in the ops that a trace has, forward and backward, with
// many views: 7,400 ops for 32 layers when long_trace is set. Bytes of bfloat16, times of a fast
// GPU.
struct TransformerShape {
  int layers = 32;
  std::int64_t tokens = 16384, width = 4096, hidden = 14336, heads = 32;
  bool separators = false;  // each layer's input has to be saved (Demand::kSave)
  bool long_trace = false;  // about twice as many views and pointwise ops
};

inline JointProgram transformer(const TransformerShape& shape) {
  ProgramBuilder b;
  constexpr std::int64_t kBytesPerMicrosecond = 2'000'000;
  constexpr std::int64_t kFlopsPerPicosecond = 400;
  const std::int64_t t = shape.tokens, d = shape.width, h = shape.hidden;
  const std::int64_t act = 2 * t * d, wide = 2 * t * h, row = 4 * t;
  auto traffic = [](std::int64_t bytes) { return bytes / kBytesPerMicrosecond * 1'000'000; };
  auto pointwise = [&](Reads reads, std::int64_t bytes, bool alone = false) {
    const std::int64_t moved = bytes * (static_cast<std::int64_t>(reads.size()) + 1);
    return b.op(OpClass::kPointwise, std::move(reads), bytes, alone ? traffic(moved) : 0);
  };
  auto matmul = [&](ValueIndex x, std::int64_t in, std::int64_t out) {
    const ValueIndex w = b.view(b.parameter(2 * in * out));
    const ValueIndex flat = b.view(x);
    const std::int64_t time = 2 * t * in * out / kFlopsPerPicosecond;
    return b.view(b.op(OpClass::kMatmul, {flat, w}, 2 * t * out, time));
  };
  auto views = [&](ValueIndex x, int count) {
    for (int i = 0; i < (shape.long_trace ? 2 * count : count); ++i) x = b.view(x);
    return x;
  };
  std::vector<Reads> backward_reads;
  auto norm = [&](ValueIndex x) {
    const ValueIndex wide_x = pointwise({x}, 2 * act);
    const ValueIndex square = pointwise({wide_x}, 2 * act);
    const ValueIndex mean = b.op(OpClass::kReduction, {square}, row, traffic(act));
    const ValueIndex scale = pointwise({mean}, row);
    const ValueIndex scaled = pointwise({wide_x, scale}, 2 * act);
    const ValueIndex narrow = pointwise({scaled}, act);
    const ValueIndex weight = b.parameter(2 * d);
    const ValueIndex out = pointwise({narrow, weight}, act, true);
    backward_reads.push_back({wide_x, scale, weight});
    backward_reads.push_back({narrow});
    return out;
  };
  auto exchange = [&](ValueIndex x, std::int64_t bytes) {
    return views(b.op(OpClass::kCollective, {views(x, 2)}, bytes, traffic(bytes * 10)), 2);
  };

  const ValueIndex tokens = b.data(8 * t), table = b.parameter(2 * d * 128256);
  const ValueIndex cosine = pointwise({b.data(8 * t)}, 2 * t * 128, true);
  ValueIndex x = b.op(OpClass::kOther, {table, tokens}, act, traffic(2 * act));
  for (int layer = 0; layer < shape.layers; ++layer) {
    if (shape.separators) b.makerOf(b.program.base(x)).demand = Demand::kSave;
    const ValueIndex normed = norm(x);
    Reads heads;
    for (int projection = 0; projection < 3; ++projection) {
      const std::int64_t out = projection == 0 ? d : d / 4;
      ValueIndex p = views(matmul(normed, d, out), 2);
      backward_reads.push_back({b.view(normed)});
      if (projection < 2) {  // rotary embedding
        const ValueIndex half = pointwise({views(p, 2)}, t * out);
        const ValueIndex turned = pointwise({half, views(p, 2)}, 2 * t * out, true);
        p = pointwise({p, cosine, turned}, 2 * t * out, true);
        backward_reads.push_back({cosine});
      }
      heads.push_back(exchange(p, 2 * t * out));
    }
    const std::int64_t attention_time = 4 * t * t * d / kFlopsPerPicosecond;
    const std::vector<ValueIndex> attention =
        b.ops(OpClass::kAttention, heads, {act, 4 * t * shape.heads}, attention_time);
    b.lastOp().demand = Demand::kSave;
    backward_reads.push_back({heads[0], heads[1], heads[2], attention[0], attention[1]});
    const ValueIndex mixed = exchange(attention[0], act);
    const ValueIndex projected = matmul(mixed, d, d);
    backward_reads.push_back({b.view(mixed)});
    x = pointwise({x, projected}, act, true);
    const ValueIndex normed_again = norm(x);
    const ValueIndex gate = matmul(normed_again, d, h), up = matmul(normed_again, d, h);
    backward_reads.push_back({b.view(normed_again)});
    const ValueIndex wide_gate = pointwise({gate}, 2 * wide);
    const ValueIndex sigmoid = pointwise({wide_gate}, 2 * wide);
    const ValueIndex product = pointwise({wide_gate, sigmoid}, 2 * wide);
    const ValueIndex silu = pointwise({product}, wide, true);
    const ValueIndex both = pointwise({silu, up}, wide, true);
    backward_reads.push_back({silu, up});
    backward_reads.push_back({wide_gate, sigmoid});
    const ValueIndex down = matmul(both, h, d);
    backward_reads.push_back({b.view(both)});
    x = pointwise({x, down}, act, true);
  }
  const ValueIndex last = norm(x);
  const ValueIndex logits = matmul(last, d, 128256 / 8);
  backward_reads.push_back({b.view(last)});
  b.program.results = {logits};
  ValueIndex gradient = b.input(act, false, false);
  b.program.values[gradient].tangent = true;
  backward_reads.push_back({logits});
  for (auto reads = backward_reads.rbegin(); reads != backward_reads.rend(); ++reads) {
    for (int steps = shape.long_trace ? 6 : 2; steps > 0; --steps) {
      gradient = b.backward({gradient}, act);
    }
    reads->push_back(gradient);
    gradient = b.backward(*reads, act);
  }
  b.program.gradients = {gradient};
  return b.program;
}

// At most `most_ops` forward ops with several results, views, demands, ops that run only once; then
// the backward.
inline JointProgram randomProgram(std::mt19937& random, int most_ops) {
  auto below = [&](int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random); };
  ProgramBuilder b;
  for (int i = 1 + below(2); i > 0; --i) b.parameter(below(5));
  b.data(below(5));
  b.program.values.back().overwritten = below(4) == 0;
  for (int i = 1 + below(most_ops); i > 0; --i) {
    auto any = [&] { return below(static_cast<int>(b.program.values.size())); };
    if (below(4) == 0) {
      const ValueIndex of = any();
      b.view(of);
      b.lastOp().once = b.program.values[b.program.base(of)].overwritten && below(2) == 0;
    } else {
      Reads reads{any()};
      for (int more = below(3); more > 0; --more) {
        const ValueIndex v = any();
        bool is_new = true;
        for (ValueIndex other : reads) is_new = is_new && other != v;
        if (is_new) reads.push_back(v);
      }
      std::vector<std::int64_t> bytes(1 + (below(4) == 0 ? 1 + below(2) : 0));
      for (std::int64_t& size : bytes) size = below(3) == 0 ? below(40) : below(8);
      b.ops(OpClass::kOther, reads, bytes, below(3) == 0 ? below(40) : below(6));
      b.lastOp().once = below(8) == 0;
    }
    if (below(8) == 0) b.lastOp().demand = Demand::kRecompute;
    if (below(8) == 0) b.lastOp().demand = Demand::kSave;
    if (below(5) == 0) b.program.results.push_back(b.lastOp().makes.back());
  }
  const int values = static_cast<int>(b.program.values.size());
  for (int i = 1 + below(4); i > 0; --i) b.backward({below(values)});
  if (below(3) == 0) b.program.gradients.push_back(below(values));
  return b.program;
}

}  // namespace autosp::checkpoint::samples
