// Rules of convolutions, pooling and interpolation: the batch passes, and channels where each is
// computed by itself; neighbours are read along the spatial dims, which stay whole. Torch refuses
// these ops, or gives another shape, when a rank holds no channel (an empty batch is fine), so
// channels pass only where there is at least one for each rank.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autosp/sharding/rule_table.h"
#include "autosp/sharding/rules/rule_builder.h"

namespace autosp::sharding {
namespace {

using ir::Graph;
using ir::Op;
using ir::TensorType;
using Rule = std::optional<OpRule>;

// input: [n, c, ...] or [c, ...]; weight: [o, c / groups, ...], with the first two swapped when
// transposed.
Rule convolve(const Graph& graph, const Op& op, bool transposed) {
  RuleBuilder build(graph, op);
  const TensorType* input = build.type("input");
  const TensorType* weight = build.type("weight");
  const TensorType* out_type = build.resultType(0);
  if (input == nullptr || weight == nullptr || out_type == nullptr || weight->rank() < 3 ||
      out_type->rank() != input->rank()) {
    return std::nullopt;
  }
  const std::size_t spatial = weight->rank() - 2;
  if (input->rank() != spatial + 1 && input->rank() != spatial + 2) {
    return std::nullopt;
  }
  const std::size_t channel_dim = input->rank() - spatial - 1;
  const std::int64_t in_channels = input->dim(channel_dim);
  const std::int64_t out_channels = out_type->dim(channel_dim);
  const std::int64_t groups = op.intArg("groups", 1);

  DimFactors in;
  DimFactors out;
  if (channel_dim == 1) {
    in = {build.factor("n", input->dim(0))};
    out = in;
  }
  DimFactors kernel;
  int o = kNoFactor;
  if (groups == 1) {
    const int c = build.occupiedFactor("c", in_channels,
                                       op.has("bias") ? FactorKind::kWhole : FactorKind::kSum);
    o = build.occupiedFactor("o", out_channels);
    in.push_back(c);
    kernel = transposed ? DimFactors{c, o} : DimFactors{o, c};
  } else if (groups == in_channels && groups == out_channels) {
    // Each channel by itself; a rank runs as many groups as it holds channels.
    o = build.occupiedFactor("c", in_channels);
    in.push_back(o);
    kernel = {o, kNoFactor};
  } else {
    o = build.factor("o", out_channels, FactorKind::kWhole);
    const int c = build.factor("c", in_channels, FactorKind::kWhole);
    in.push_back(c);
    kernel = transposed ? DimFactors{c, kNoFactor} : DimFactors{o, kNoFactor};
  }
  out.push_back(o);
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::string place = std::to_string(i);
    in.push_back(build.factor("x" + place, input->dim(channel_dim + 1 + i), FactorKind::kWhole));
    kernel.push_back(build.factor("k" + place, weight->dim(2 + i), FactorKind::kWhole));
    out.push_back(kNoFactor);
  }
  build.operand("input", in);
  build.operand("weight", kernel);
  build.operand("bias", {o});
  build.results(out);
  return std::move(build).build();
}

Rule convolution(const Graph& graph, const Op& op) {
  return convolve(graph, op, op.boolArg("transposed", false));
}
Rule forwardConvolution(const Graph& graph, const Op& op) {
  return convolve(graph, op, false);
}
Rule transposedConvolution(const Graph& graph, const Op& op) {
  return convolve(graph, op, true);
}

// Each plane by itself: [n, c, ...] or [c, ...] with kSpatial dims of other size in the results.
template <std::size_t kSpatial>
Rule plane(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const std::string_view arg = build.type("self") != nullptr ? "self" : "input";
  const TensorType* input = build.type(arg);
  if (input == nullptr || (input->rank() != kSpatial + 1 && input->rank() != kSpatial + 2)) {
    return std::nullopt;
  }
  const std::size_t channel_dim = input->rank() - kSpatial - 1;
  DimFactors in;
  DimFactors out;
  for (std::size_t i = 0; i < input->rank(); ++i) {
    const std::int64_t size = input->dim(i);
    if (i < channel_dim) {
      in.push_back(build.factor("n", size));
    } else if (i == channel_dim) {
      in.push_back(build.occupiedFactor("c", size));
    } else {
      in.push_back(
          build.factor("x" + std::to_string(i - channel_dim - 1), size, FactorKind::kWhole));
    }
    out.push_back(i <= channel_dim ? in.back() : kNoFactor);
  }
  build.operand(arg, in);
  build.results(out);
  return std::move(build).build();
}

constexpr std::string_view kConvolutionText =
    "(n c ..., o c ..., o?) -> n o ...   sum c (whole with a bias), whole ...";
constexpr std::string_view kTransposedText =
    "(n c ..., c o ..., o?) -> n o ...   sum c (whole with a bias), whole ...";
constexpr std::string_view kPlaneText = "(n c ...) -> n c ...   whole ...";

}  // namespace

const std::vector<RuleRow>& convolutionRules() {
  static const std::vector<RuleRow> rows = {
      {"aten.conv1d.default", kConvolutionText, forwardConvolution},
      {"aten.conv1d.padding", kConvolutionText, forwardConvolution},
      {"aten.conv2d.default", kConvolutionText, forwardConvolution},
      {"aten.conv2d.padding", kConvolutionText, forwardConvolution},
      {"aten.conv3d.default", kConvolutionText, forwardConvolution},
      {"aten.conv3d.padding", kConvolutionText, forwardConvolution},
      {"aten.convolution.default", kConvolutionText, convolution},
      {"aten.conv_transpose1d.default", kTransposedText, transposedConvolution},
      {"aten.conv_transpose2d.input", kTransposedText, transposedConvolution},
      {"aten.conv_transpose3d.input", kTransposedText, transposedConvolution},
      {"aten.avg_pool1d.default", kPlaneText, plane<1>},
      {"aten.avg_pool2d.default", kPlaneText, plane<2>},
      {"aten.avg_pool3d.default", kPlaneText, plane<3>},
      {"aten.max_pool1d.default", kPlaneText, plane<1>},
      {"aten.max_pool2d.default", kPlaneText, plane<2>},
      {"aten.max_pool3d.default", kPlaneText, plane<3>},
      {"aten.max_pool1d_with_indices.default", kPlaneText, plane<1>},
      {"aten.max_pool2d_with_indices.default", kPlaneText, plane<2>},
      {"aten.max_pool3d_with_indices.default", kPlaneText, plane<3>},
      {"aten.adaptive_avg_pool1d.default", kPlaneText, plane<1>},
      {"aten.adaptive_avg_pool2d.default", kPlaneText, plane<2>},
      {"aten.adaptive_avg_pool3d.default", kPlaneText, plane<3>},
      {"aten._adaptive_avg_pool2d.default", kPlaneText, plane<2>},
      {"aten.adaptive_max_pool1d.default", kPlaneText, plane<1>},
      {"aten.adaptive_max_pool2d.default", kPlaneText, plane<2>},
      {"aten.upsample_nearest1d.default", kPlaneText, plane<1>},
      {"aten.upsample_nearest1d.vec", kPlaneText, plane<1>},
      {"aten.upsample_nearest2d.default", kPlaneText, plane<2>},
      {"aten.upsample_nearest2d.vec", kPlaneText, plane<2>},
      {"aten.upsample_linear1d.default", kPlaneText, plane<1>},
      {"aten.upsample_linear1d.vec", kPlaneText, plane<1>},
      {"aten.upsample_bilinear2d.default", kPlaneText, plane<2>},
      {"aten.upsample_bilinear2d.vec", kPlaneText, plane<2>},
      {"aten.upsample_bicubic2d.default", kPlaneText, plane<2>},
      {"aten.upsample_bicubic2d.vec", kPlaneText, plane<2>},
  };
  return rows;
}

}  // namespace autosp::sharding
