#include "autosp/passes/localize.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <utility>

#include "autosp/support/check.h"

namespace autosp::passes {
namespace {

using ir::Attr;
using ir::AttrList;
using ir::Cut;
using ir::Form;
using ir::FormKind;
using ir::Graph;
using ir::Op;
using ir::OpId;
using ir::Range;
using ir::ValueId;

// Ops whose shape argument is the shape of their result, by the argument's name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kShapeArguments = {{
    {"aten.reshape.default", "shape"},
    {"aten.expand.default", "size"},
    {"aten.broadcast_to.default", "size"},
    {"aten.zeros.default", "size"},
    {"aten.ones.default", "size"},
    {"aten.full.default", "size"},
    {"aten.empty.memory_format", "size"},
    {"aten.new_zeros.default", "size"},
    {"aten.new_ones.default", "size"},
    {"aten.new_full.default", "size"},
    {"aten.new_empty.default", "size"},
    {"aten.view_copy.default", "size"},
}};

class Localizer {
 public:
  Localizer(const Graph& graph, int rank) : global_(graph), local_(graph), rank_(rank) {}

  Result<Graph> run() {
    for (std::size_t v = 0; v < global_.valueCount(); ++v) {
      const ir::Value& value = global_.value(ValueId(v));
      if (value.is_tensor && value.form && value.form->isCut()) {
        const Cut& cut = value.form->cut;
        const auto dim = static_cast<std::size_t>(cut.dim);
        local_.value(ValueId(v)).type.shape[dim] =
            ir::Dim(cut.localSize(value.type.dim(dim), rank_, global_.ranks));
      }
      local_.value(ValueId(v)).form.reset();
    }
    for (OpId id : global_.order()) {
      if (Status status = localizeOp(id); !status.isOk()) {
        return status;
      }
    }
    return std::move(local_);
  }

 private:
  const Form& form(ValueId value) const { return *global_.value(value).form; }
  bool isCut(ValueId value) const {
    return global_.value(value).is_tensor && global_.value(value).form && form(value).isCut();
  }
  Attr cutOf(ValueId value) const {
    const Cut& cut = form(value).cut;
    return cutAttr(cut, global_.type(value).dim(static_cast<std::size_t>(cut.dim)), global_.ranks);
  }
  Range rangeOf(ValueId value) const {
    const Cut& cut = form(value).cut;
    return cut.range(global_.type(value).dim(static_cast<std::size_t>(cut.dim)), rank_,
                     global_.ranks);
  }

  Status localizeOp(OpId id) {
    const Op& op = global_.op(id);
    if (op.name == "autosp.convert") {
      localizeConvert(id);
      return Status::ok();
    }
    if (op.name == "autosp.attention") {
      localizeAttention(id);
      return Status::ok();
    }
    if (op.name == "autosp.cross_entropy") {
      const ValueId input = op.valueArg("self");
      const ir::TensorType& type = global_.type(input);
      const bool classes_only = type.rank() == 1;
      const std::int64_t classes = classes_only ? type.dim(0) : type.dim(1);
      local_.op(id).set("rows", Attr(type.elements() / classes));
      return Status::ok();
    }
    if (op.name == "autosp.dropout") {
      const ValueId input = op.operands()[0];
      local_.op(id).set("cut", isCut(input) ? cutOf(input) : Attr());
      local_.op(id).set("shape", Attr::ints(global_.type(input).sizes()));
      return Status::ok();
    }
    const std::vector<ValueId> operands = op.operands();
    const bool any_cut = std::any_of(operands.begin(), operands.end(),
                                     [&](ValueId v) { return isCut(v); }) ||
                         std::any_of(op.results.begin(), op.results.end(),
                                     [&](ValueId v) { return isCut(v); });
    if (any_cut) {
      localizeArguments(id);
    }
    if (global_.ranks > 1) {
      relaxView(id);
      giveLayout(id);
    }
    return Status::ok();
  }

  void localizeArguments(OpId id) {
    const Op& op = global_.op(id);
    Op& out = local_.op(id);
    for (const auto& [name, argument] : kShapeArguments) {
      if (op.name == name) {
        out.set(argument, Attr::ints(local_.type(op.results[0]).sizes()));
      }
    }
    if (op.name == "aten.unflatten.int") {
      localizeUnflatten(id);
    } else if (op.name == "aten.slice.Tensor") {
      localizeSlice(id);
    } else if (op.name == "aten.narrow.default") {
      localizeNarrow(id);
    } else if (op.name == "aten.pad.default" || op.name == "aten.constant_pad_nd.default") {
      localizePad(id);
    } else if (op.name.starts_with("aten.arange.")) {
      localizeArange(id);
    } else if (op.name == "aten.repeat_interleave.self_int") {
      out.set("output_size", Attr());
    } else if (op.name.starts_with("aten.squeeze.")) {
      localizeSqueeze(id);
    } else if (op.find("groups") != nullptr) {
      localizeGroups(id);
    }
  }

  // A value that was gathered or exchanged is strided otherwise than it was as a whole, also where nothing is
  // cut here: a view of it may need a copy.
  void relaxView(OpId id) {
    const Op& op = global_.op(id);
    if (op.name != "aten.view.default" && op.name != "aten._unsafe_view.default" &&
        op.name != "aten._reshape_alias.default" && op.name != "aten.view_as.default") {
      return;
    }
    Op& out = local_.op(id);
    out.name = "aten.reshape.default";
    out.args = {{"self", op.arg("self")},
                {"shape", Attr::ints(local_.type(op.results[0]).sizes())}};
  }

  // Torch refuses other layouts of these ops' first operand, forward or backward. No copy where it has this one.
  void giveLayout(OpId id) {
    static constexpr std::array<std::string_view, 4> kContiguous = {
        "aten.view_as_complex.default", "aten.nll_loss2d.default", "aten.nll_loss_nd.default",
        "aten.take_along_dim.default"};
    const Op& op = global_.op(id);
    if (std::find(kContiguous.begin(), kContiguous.end(), op.name) == kContiguous.end()) {
      return;
    }
    const ValueId operand = op.operands()[0];
    Op contiguous;
    contiguous.name = "aten.contiguous.default";
    contiguous.args = {{"self", Attr(operand)}};
    contiguous.location = op.location;
    const ir::Value& value = local_.value(operand);
    const OpId made =
        local_.addDetached(std::move(contiguous), {{value.type, value.requires_grad, true}});
    local_.op(id).setOperand(0, local_.op(made).results[0]);
    std::vector<OpId> order = local_.order();
    order.insert(std::find(order.begin(), order.end(), id), made);
    local_.setOrder(std::move(order));
  }

  // A dim goes where it has one element globally, not where a rank happens to hold one.
  void localizeSqueeze(OpId id) {
    const Op& op = global_.op(id);
    const ir::TensorType& type = global_.type(op.operands()[0]);
    std::vector<std::int64_t> asked;
    if (const Attr* dim = op.find("dim")) {
      asked = dim->isInt() ? std::vector<std::int64_t>{dim->asInt()} : dim->asInts();
    }
    const bool all = op.find("dim") == nullptr;
    std::vector<std::int64_t> dims;
    for (std::size_t d = 0; d < type.rank(); ++d) {
      const bool named = all || std::any_of(asked.begin(), asked.end(), [&](std::int64_t dim) {
                           return ir::normalDim(dim, type.rank()) == static_cast<std::int64_t>(d);
                         });
      if (named && type.dim(d) == 1) {
        dims.push_back(static_cast<std::int64_t>(d));
      }
    }
    Op& out = local_.op(id);
    out.name = "aten.squeeze.dims";
    out.args = {{"self", op.arg("self")}, {"dim", Attr::ints(dims)}};
  }

  // A convolution of each channel by itself, cut by channels: as many groups as channels are here.
  void localizeGroups(OpId id) {
    const Op& op = global_.op(id);
    const std::int64_t groups = op.intArg("groups", 1);
    const ValueId input = op.operands()[0];
    const std::size_t spatial = global_.type(op.valueArg("weight")).rank() - 2;
    const std::size_t channels = global_.type(input).rank() - spatial - 1;
    if (groups > 1 && isCut(input) && static_cast<std::size_t>(form(input).cut.dim) == channels) {
      local_.op(id).set("groups", Attr(local_.type(input).dim(channels)));
    }
  }

  void localizeUnflatten(OpId id) {
    const Op& op = global_.op(id);
    const std::size_t from = static_cast<std::size_t>(
        ir::normalDim(op.arg("dim").asInt(), global_.type(op.operands()[0]).rank()));
    std::vector<std::int64_t> sizes;
    const std::size_t count = op.arg("sizes").asList().size();
    for (std::size_t i = 0; i < count; ++i) {
      sizes.push_back(local_.type(op.results[0]).dim(from + i));
    }
    local_.op(id).set("sizes", Attr::ints(sizes));
  }

  // Elements of a windowed dim that this rank holds, in the coordinates of the operand's dim: `offset` is
  // where the result's index 0 stands in the operand. Returns the window inside the local operand, which may
  // begin before it or end after it when the window pads.
  std::optional<Range> localWindow(OpId id, std::size_t dim, std::int64_t offset) const {
    const Op& op = global_.op(id);
    const ValueId operand = op.operands()[0];
    const ValueId result = op.results[0];
    if (!isCut(result) || static_cast<std::size_t>(form(result).cut.dim) != dim || !isCut(operand)) {
      return std::nullopt;
    }
    const Range held = rangeOf(operand);
    const Range wanted = rangeOf(result);
    if (wanted.size() == 0) {
      return Range{0, 0};  // where a rank without elements stands says nothing
    }
    return Range{wanted.lo + offset - held.lo, wanted.hi + offset - held.lo};
  }

  std::pair<std::int64_t, std::int64_t> sliceBounds(const Op& op, std::int64_t size) const {
    auto clamp = [&](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
    };
    const std::int64_t start = clamp(op.intArg("start", 0));
    return {start, std::max(start, clamp(op.intArg("end", size)))};
  }

  void localizeSlice(OpId id) {
    const Op& op = global_.op(id);
    const ir::TensorType& type = global_.type(op.operands()[0]);
    const auto dim =
        static_cast<std::size_t>(ir::normalDim(op.intArg("dim", 0), type.rank()));
    const auto [start, end] = sliceBounds(op, type.dim(dim));
    if (const auto window = localWindow(id, dim, start)) {
      local_.op(id).set("start", Attr(window->lo));
      local_.op(id).set("end", Attr(window->hi));
    } else if (start == 0 && end == type.dim(dim)) {
      local_.op(id).set("start", Attr(0));
      local_.op(id).set("end", Attr(local_.type(op.operands()[0]).dim(dim)));
    }
  }

  void localizeNarrow(OpId id) {
    const Op& op = global_.op(id);
    const ir::TensorType& type = global_.type(op.operands()[0]);
    const auto dim = static_cast<std::size_t>(ir::normalDim(op.arg("dim").asInt(), type.rank()));
    const std::int64_t start = op.arg("start").asInt();
    const std::int64_t begin = start < 0 ? start + type.dim(dim) : start;
    if (const auto window = localWindow(id, dim, begin)) {
      local_.op(id).set("start", Attr(window->lo));
      local_.op(id).set("length", Attr(window->size()));
    }
  }

  void localizePad(OpId id) {
    const Op& op = global_.op(id);
    const ir::TensorType& type = global_.type(op.operands()[0]);
    std::vector<std::int64_t> pad = op.arg("pad").asInts();
    for (std::size_t pair = 0; pair < pad.size() / 2; ++pair) {
      const std::size_t dim = type.rank() - 1 - pair;
      const auto window = localWindow(id, dim, -pad[2 * pair]);
      if (!window) {
        continue;
      }
      // What is kept of the local operand, and the elements of padding on either side of it.
      const std::int64_t held = local_.type(op.operands()[0]).dim(dim);
      const Range kept{std::clamp<std::int64_t>(window->lo, 0, held),
                       std::clamp<std::int64_t>(window->hi, 0, held)};
      const std::int64_t left = std::clamp<std::int64_t>(-window->lo, 0, window->size());
      const std::int64_t right = window->size() - kept.size() - left;
      pad[2 * pair] = left - kept.lo;
      pad[2 * pair + 1] = right - (held - kept.hi);
    }
    local_.op(id).set("pad", Attr::ints(pad));
  }

  void localizeArange(OpId id) {
    const Op& op = global_.op(id);
    const Range range = rangeOf(op.results[0]);
    const std::int64_t start = op.intArg("start", 0);
    const std::int64_t step = op.intArg("step", 1);
    Op& out = local_.op(id);
    std::vector<std::pair<std::string, Attr>> args = {
        {"start", Attr(start + range.lo * step)},
        {"end", Attr(start + range.hi * step)},
        {"step", Attr(step)}};
    for (const auto& [name, value] : op.args) {
      if (name != "start" && name != "end" && name != "step") {
        args.emplace_back(name, value);
      }
    }
    out.name = "aten.arange.start_step";
    out.args = std::move(args);
  }

  void localizeConvert(OpId id) {
    const Op& op = global_.op(id);
    const std::vector<ValueId> inputs = op.operands();
    const Form& from = form(inputs[0]);
    const Form& to = form(op.results[0]);
    Op& out = local_.op(id);
    out.set("kind", Attr(std::string(conversionKind(from, to))));
    AttrList sources;
    AttrList targets;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (form(inputs[i]).isCut()) {
        sources.push_back(cutOf(inputs[i]));
      }
      if (form(op.results[i]).isCut()) {
        targets.push_back(cutOf(op.results[i]));
      }
    }
    out.set("source", Attr(std::move(sources)));
    out.set("target", Attr(std::move(targets)));
  }

  static std::string_view conversionKind(const Form& from, const Form& to) {
    switch (from.kind) {
      case FormKind::kWhole:
        return to.isCut() ? "shard" : "enter_partial";
      case FormKind::kWholePartialGrad:
        return to.isCut() ? "shard_partial" : "keep_on_first";
      case FormKind::kPartial:
        return to.isCut()                        ? "reduce_scatter"
               : to.kind == FormKind::kWhole ? "all_reduce"
                                                 : "all_reduce_partial";
      case FormKind::kCut:
        break;
    }
    return to.isCut() ? "exchange" : to.kind == FormKind::kWhole ? "gather" : "gather_partial";
  }

  void localizeAttention(OpId id) {
    const Op& op = global_.op(id);
    const ValueId query = op.valueArg("query");
    const ValueId key = op.valueArg("key");
    Op& out = local_.op(id);
    Attr kv_index;
    Attr q_offset;
    const auto query_dim = static_cast<std::size_t>(form(query).cut.dim);
    const bool heads = query_dim == 1 && global_.type(query).rank() == 4;
    if (heads) {
      // Which local key head each local query head reads.
      const std::int64_t group = global_.type(query).dim(1) / global_.type(key).dim(1);
      const Range mine = rangeOf(query);
      const std::int64_t first_key = isCut(key) ? rangeOf(key).lo : 0;
      std::vector<std::int64_t> index;
      for (std::int64_t h = mine.lo; h < mine.hi; ++h) {
        index.push_back(h / group - first_key);
      }
      if (group > 1) {
        kv_index = Attr::ints(index);
      }
    } else if (op.boolArg("is_causal", false)) {
      q_offset = Attr(rangeOf(query).lo);
    }
    out.set("kv_index", std::move(kv_index));
    out.set("q_offset", std::move(q_offset));
  }

  const Graph& global_;
  Graph local_;
  int rank_;
};

}  // namespace

Attr cutAttr(const Cut& cut, std::int64_t dim_size, int ranks) {
  AttrList ranges;
  for (const Range& range : cut.ranges(dim_size, ranks)) {
    ranges.push_back(Attr::ints({range.lo, range.hi}));
  }
  return Attr(AttrList{Attr(std::int64_t{cut.dim}), Attr(cut.outer), Attr(cut.inner),
                       Attr(std::move(ranges))});
}

Result<Graph> localize(const Graph& graph, int rank) {
  AUTOSP_CHECK(rank >= 0 && rank < graph.ranks, "no such rank");
  return Localizer(graph, rank).run();
}

}  // namespace autosp::passes
