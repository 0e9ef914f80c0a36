// Arguments of ops. The importer names every argument by the op's schema and fills in defaults, so a pass
// asks for op.arg("dim") and never for a position. Negative dims are made positive at import where the
// rules need it (see normalDim). What the core does not understand (a dtype, a device, a memory format)
// is an Opaque: a text that comes back untouched at export.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "autosp/support/ids.h"

namespace autosp::ir {

struct ValueTag;
struct OpTag;
using ValueId = Id<ValueTag>;
using OpId = Id<OpTag>;

// An argument nobody in the core reads, e.g. torch.float32.
struct Opaque {
  std::string text;
  friend bool operator==(const Opaque&, const Opaque&) = default;
};

class Attr;
using AttrList = std::vector<Attr>;

class Attr {
 public:
  using Storage = std::variant<std::monostate, bool, std::int64_t, double, std::string, ValueId,
                               Opaque, AttrList>;
  Attr() = default;  // none
  Attr(bool v) : v_(v) {}                    // NOLINT: literals are attributes
  Attr(std::int64_t v) : v_(v) {}            // NOLINT
  Attr(int v) : v_(std::int64_t{v}) {}       // NOLINT
  Attr(double v) : v_(v) {}                  // NOLINT
  Attr(std::string v) : v_(std::move(v)) {}  // NOLINT
  Attr(const char* v) : v_(std::string(v)) {}  // NOLINT
  Attr(ValueId v) : v_(v) {}                 // NOLINT
  Attr(Opaque v) : v_(std::move(v)) {}       // NOLINT
  Attr(AttrList v) : v_(std::move(v)) {}     // NOLINT
  static Attr ints(const std::vector<std::int64_t>& values);

  bool isNone() const { return std::holds_alternative<std::monostate>(v_); }
  bool isBool() const { return std::holds_alternative<bool>(v_); }
  bool isInt() const { return std::holds_alternative<std::int64_t>(v_); }
  bool isFloat() const { return std::holds_alternative<double>(v_); }
  bool isString() const { return std::holds_alternative<std::string>(v_); }
  bool isValue() const { return std::holds_alternative<ValueId>(v_); }
  bool isOpaque() const { return std::holds_alternative<Opaque>(v_); }
  bool isList() const { return std::holds_alternative<AttrList>(v_); }

  // Checked accessors: asking for another kind is an internal error.
  bool asBool() const;
  std::int64_t asInt() const;    // a bool counts as 0 or 1
  double asFloat() const;        // an int counts as a float
  const std::string& asString() const;
  ValueId asValue() const;
  const Opaque& asOpaque() const;
  const AttrList& asList() const;
  AttrList& asList();
  std::vector<std::int64_t> asInts() const;  // a list of ints
  bool isInts() const;                       // a list, all of whose items are ints

  const Storage& storage() const { return v_; }
  friend bool operator==(const Attr&, const Attr&) = default;

 private:
  Storage v_;
};

}  // namespace autosp::ir
