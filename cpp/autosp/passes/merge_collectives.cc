// merge-collectives: fewer, larger collectives. Two rules, each over conversions that stand ready
// together:
//   exchanges    all-to-alls before one op, of values with one dtype whose source cuts deal the
//   same rows:
//                attention's q, k and v travel together
//   weights      whole -> partial-gradient conversions of parameters: a bucket's backward is one
//   all-reduce,
//                closed when it holds kBucketBytes
#include <algorithm>
#include <map>

#include "autosp/passes/passes.h"
#include "autosp/support/check.h"

namespace autosp::passes {
namespace {

using ir::Form;
using ir::FormKind;
using ir::Graph;
using ir::Op;
using ir::OpId;
using ir::ValueId;

// Large enough for the link to run near its full rate, small enough that the first bucket of the
// backward is on its way before the last is computed, and that the buffers of one (what is sent and
// what arrives, beside the gradients) weigh little. DistributedDataParallel's default is 25 MiB.
constexpr std::int64_t kBucketBytes = std::int64_t{8} << 20;

class Merger {
 public:
  explicit Merger(Graph& graph) : graph_(graph) {
    for (const ir::Input& input : graph.inputs()) {
      if (input.kind == ir::InputKind::kParameter) {
        parameters_[input.value] = true;
      }
    }
  }

  void run() {
    for (OpId id : graph_.order()) {
      if (isWeightEntry(id)) {
        addToBucket(id);
        continue;
      }
      if (isExchange(id)) {
        if (!run_.empty() && !joins(run_.front(), id)) {
          closeRun();
        }
        run_.push_back(id);
        continue;
      }
      closeRun();
      order_.push_back(id);
    }
    closeRun();
    closeBucket();
    graph_.setOrder(std::move(order_));
  }

 private:
  bool isConvert(OpId id) const {
    const Op& op = graph_.op(id);
    return op.name == "autosp.convert" && op.results.size() == 1;
  }
  const Form& from(OpId id) const { return *graph_.value(graph_.op(id).operands()[0]).form; }
  const Form& to(OpId id) const { return *graph_.value(graph_.op(id).results[0]).form; }

  bool isExchange(OpId id) const { return isConvert(id) && from(id).isCut() && to(id).isCut(); }

  bool isWeightEntry(OpId id) const {
    return isConvert(id) && from(id).kind == FormKind::kWhole &&
           to(id).kind == FormKind::kWholePartialGrad &&
           parameters_.count(graph_.op(id).operands()[0]) != 0;
  }

  bool joins(OpId first, OpId next) const {
    const ValueId a = graph_.op(first).operands()[0];
    const ValueId b = graph_.op(next).operands()[0];
    if (std::find(run_.begin(), run_.end(), graph_.value(b).def) != run_.end()) {
      return false;  // made from another copy of this run
    }
    const ir::TensorType& ta = graph_.type(a);
    const ir::TensorType& tb = graph_.type(b);
    const ir::Cut& ca = from(first).cut;
    const ir::Cut& cb = from(next).cut;
    if (ta.dtype != tb.dtype || ca.outer != 1 || cb.outer != 1 || ca.inner != cb.inner ||
        to(first).cut.outer != 1 || to(next).cut.outer != 1) {
      return false;
    }
    // A boundary move within one dim travels alone.
    if (ca.dim == to(first).cut.dim || cb.dim == to(next).cut.dim) {
      return false;
    }
    const auto da = static_cast<std::size_t>(ca.dim);
    const auto db = static_cast<std::size_t>(cb.dim);
    if (ca.ranges(ta.dim(da), graph_.ranks) != cb.ranges(tb.dim(db), graph_.ranks)) {
      return false;
    }
    // One gradient comes back with the other: all or none.
    return graph_.value(a).requires_grad == graph_.value(b).requires_grad;
  }

  OpId merged(const std::vector<OpId>& parts) {
    if (parts.size() == 1) {
      return parts[0];
    }
    ir::AttrList inputs;
    for (OpId part : parts) {
      inputs.emplace_back(graph_.op(part).operands()[0]);
    }
    Op op;
    op.name = "autosp.convert";
    op.args = {{"inputs", std::move(inputs)}};
    op.location = graph_.op(parts[0]).location;
    std::vector<Graph::ResultType> types;
    for (OpId part : parts) {
      const ir::Value& value = graph_.value(graph_.op(part).results[0]);
      types.push_back({value.type, value.requires_grad, true});
    }
    const OpId id = graph_.addDetached(std::move(op), types);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const ValueId old = graph_.op(parts[i]).results[0];
      const ValueId now = graph_.op(id).results[i];
      graph_.value(now).form = graph_.value(old).form;
      replaced_.emplace_back(old, now);
      graph_.op(parts[i]).removed = true;
    }
    return id;
  }

  void closeRun() {
    if (!run_.empty()) {
      order_.push_back(merged(run_));
      run_.clear();
    }
  }

  // A bucket's op stands where its first weight enters: all its weights are inputs, ready from the
  // start.
  void addToBucket(OpId id) {
    const ir::TensorType& type = graph_.type(graph_.op(id).operands()[0]);
    if (!bucket_.empty() &&
        (bucket_bytes_ + type.bytes() > kBucketBytes ||
         graph_.type(graph_.op(bucket_[0]).operands()[0]).dtype != type.dtype)) {
      closeBucket();
    }
    if (bucket_.empty()) {
      closeRun();
      bucket_place_ = order_.size();
      order_.push_back(id);
    }
    bucket_.push_back(id);
    bucket_bytes_ += type.bytes();
  }

  void closeBucket() {
    if (!bucket_.empty()) {
      order_[bucket_place_] = merged(bucket_);
      bucket_.clear();
      bucket_bytes_ = 0;
    }
  }

 public:
  void rename() {
    std::map<ValueId, ValueId> to;
    for (const auto& [old, now] : replaced_) {
      to[old] = now;
    }
    if (to.empty()) {
      return;
    }
    for (OpId id : graph_.order()) {
      Op& op = graph_.op(id);
      const std::vector<ValueId> operands = op.operands();
      for (std::size_t i = 0; i < operands.size(); ++i) {
        if (auto found = to.find(operands[i]); found != to.end()) {
          op.setOperand(i, found->second);
        }
      }
    }
    for (ir::Output& output : graph_.outputs()) {
      if (output.value) {
        if (auto found = to.find(*output.value); found != to.end()) {
          output.value = found->second;
        }
      }
    }
  }

 private:
  Graph& graph_;
  std::map<ValueId, bool> parameters_;
  std::vector<OpId> order_;
  std::vector<OpId> run_;     // exchanges that stand together
  std::vector<OpId> bucket_;  // weight entries of the open bucket
  std::int64_t bucket_bytes_ = 0;
  std::size_t bucket_place_ = 0;
  std::vector<std::pair<ValueId, ValueId>> replaced_;
};

}  // namespace

Status mergeCollectives(Graph& graph, PassContext& /*context*/) {
  Merger merger(graph);
  merger.run();
  merger.rename();
  return Status::ok();
}

}  // namespace autosp::passes
