// The program: a list of ops in order, over values with global types. It mirrors the FX graph after
// capture (one Op per call, tuple results as several values) plus a closed set of ops born in the
// core, autosp.*. Ids are dense and stable: removing an op leaves its id unused, ids are never
// reused. Order of execution is the list order(); effects (autocast regions, in-place writes) keep
// their place in it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autosp/ir/attr.h"
#include "autosp/ir/form.h"
#include "autosp/ir/type.h"

namespace autosp::ir {

// What the caller gives a graph.
enum class InputKind { kUser, kParameter, kBuffer, kConstant, kSeed, kTangent };

struct Value {
  TensorType type;
  bool is_tensor = true;  // false: a token (result of an autocast or grad-mode marker)
  bool requires_grad = false;
  ValueId base;              // whose memory it shares; invalid: it has its own
  bool saved = false;        // set by choose-checkpoints: the forward hands it to the backward
  std::optional<Form> form;  // set by choose-placement
  OpId def;                  // invalid for inputs
  std::int32_t result = 0;   // which result of def
};

struct Input {
  ValueId value;
  InputKind kind = InputKind::kUser;
  std::string name;  // "input_ids", "model.embed_tokens.weight"
};

struct Output {
  std::optional<ValueId> value;  // none: the program returns None here
  std::string name;
  bool may_stay_cut = false;  // the caller takes a sharded tensor here (a DTensor)
  bool gradient = false;      // of a joint graph: made by the backward
  ValueId writes;  // the input whose contents it replaces after the forward; invalid: none
  std::optional<Form> form;  // set by choose-placement, read and cleared by insert-conversions
};

// Properties the importer reads off the op's schema and tags.
struct Traits {
  bool pointwise = false;  // torch.Tag.pointwise
  bool random = false;     // torch.Tag.nondeterministic_seeded
  bool mutates = false;    // the schema writes an argument (add_, copy_)
  bool effect = false;     // no tensor result: autocast and grad-mode markers
  bool keep = false;       // a user's checkpoint policy: its results are saved
  bool recompute = false;  // the backward runs it again: such a policy, then choose-checkpoints
  friend bool operator==(const Traits&, const Traits&) = default;
};

struct Op {
  std::string name;                                // "aten.linear.default", "autosp.convert"
  std::vector<std::pair<std::string, Attr>> args;  // by schema name, in schema order
  std::vector<ValueId> results;
  Traits traits;
  std::int64_t origin = -1;  // index of the node it came from, -1 when born in the core
  std::string location;      // the model's source line, "modeling_llama.py:88"
  // Set by choose-placement, read and cleared by insert-conversions: the form each operand must
  // have, and how the op is lowered where its strategy needs more than local shapes
  // ("attention-heads").
  std::vector<Form> needs;
  std::string lowering;
  bool removed = false;

  const Attr* find(std::string_view arg) const;
  Attr* find(std::string_view arg);
  const Attr& arg(std::string_view arg) const;  // checked: there is one
  void set(std::string_view arg, Attr value);   // replaces or appends
  // None counts as absent for these.
  bool has(std::string_view arg) const;
  std::int64_t intArg(std::string_view arg, std::int64_t absent) const;
  bool boolArg(std::string_view arg, bool absent) const;
  double floatArg(std::string_view arg, double absent) const;
  ValueId valueArg(std::string_view arg) const;  // invalid when absent
  // Tensor operands in order of appearance in args, lists flattened; the same value may appear
  // twice.
  std::vector<ValueId> operands() const;
  // Replaces every occurrence of one operand; returns how many there were.
  int replaceOperand(ValueId from, ValueId to);
  // Replaces the k-th operand of operands().
  void setOperand(std::size_t k, ValueId to);
};

// A dim argument, made non-negative for a tensor of this rank (rank 0 counts as 1).
std::int64_t normalDim(std::int64_t dim, std::size_t rank);

class Graph {
 public:
  std::string name = "forward";
  int ranks = 1;  // size of the sp axis

  ValueId addInput(std::string name, InputKind kind, TensorType type, bool requires_grad);
  // Appends an op; results are made from the given types.
  struct ResultType {
    TensorType type;
    bool requires_grad = false;
    bool is_tensor = true;
    ValueId base = {};
  };
  OpId addOp(Op op, const std::vector<ResultType>& results);
  // The same, placed before or after another op in the order.
  OpId insertBefore(OpId place, Op op, const std::vector<ResultType>& results);
  OpId insertAfter(OpId place, Op op, const std::vector<ResultType>& results);
  // Placed before every op of the order.
  OpId insertFirst(Op op, const std::vector<ResultType>& results);
  // Makes an op that is not in the order yet, and puts a whole new order in place: for passes that
  // insert many ops at once.
  OpId addDetached(Op op, const std::vector<ResultType>& results) {
    return emplace(std::move(op), results);
  }
  void setOrder(std::vector<OpId> order) { order_ = std::move(order); }
  void addOutput(std::optional<ValueId> value, std::string name, bool may_stay_cut = false);

  const Value& value(ValueId id) const { return values_[id.at()]; }
  Value& value(ValueId id) { return values_[id.at()]; }
  const Op& op(OpId id) const { return ops_[id.at()]; }
  Op& op(OpId id) { return ops_[id.at()]; }
  const TensorType& type(ValueId id) const { return values_[id.at()].type; }
  std::size_t valueCount() const { return values_.size(); }
  std::size_t opCount() const { return ops_.size(); }
  // Live ops in order of execution.
  const std::vector<OpId>& order() const { return order_; }
  const std::vector<Input>& inputs() const { return inputs_; }
  std::vector<Input>& inputs() { return inputs_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  std::vector<Output>& outputs() { return outputs_; }

  // Ops that read each value, in order, once for each op; indexed by value. Built afresh by each
  // call.
  std::vector<std::vector<OpId>> users() const;
  // Replaces the value in every op and output.
  void replaceAllUses(ValueId from, ValueId to);
  // Same, in the ops that stand after `place` in the order, and in outputs.
  void replaceUsesAfter(OpId place, ValueId from, ValueId to);
  // Removes an op whose results nothing reads (checked by the verifier).
  void removeOp(OpId id);
  // Removes ops that no output and no effect needs; returns how many.
  int removeDeadOps();
  // Renames every value: value i becomes to[i], in ops, inputs and outputs alike; no two are equal.
  // Ids that `to` skips belong to values that nothing defines or reads. The parser keeps the ids of
  // its text with it.
  void renumberValues(const std::vector<ValueId>& to);
  // "aten.linear.default on %5"
  std::string describe(OpId id) const;

 private:
  OpId emplace(Op op, const std::vector<ResultType>& results);

  std::vector<Value> values_;
  std::vector<Op> ops_;
  std::vector<OpId> order_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
};

}  // namespace autosp::ir
