// Types of values: element type and global shape. A dim is an integer or a symbolic monomial
// coef * s0 * s1 ...; passes of today need static dims and say so where they meet a symbolic one.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace autosp::ir {

// Element types, named in text as b8, u8, i8, i16, i32, i64, f16, bf16, f32, f64, c64, c128;
// kOther stands for a type the core does nothing with.
enum class DType { kBool, kU8, kI8, kI16, kI32, kI64, kF16, kBF16, kF32, kF64, kC64, kC128, kOther };

std::string_view dtypeName(DType dtype);
// kOther for a name that is not one.
DType dtypeFromName(std::string_view name);
// Bytes of one element; 1 for kOther.
std::int64_t dtypeBytes(DType dtype);
bool isFloating(DType dtype);  // real or complex floating point

// A dim of a global shape: coef times the product of symbols (sorted by name).
class Dim {
 public:
  Dim(std::int64_t value) : coef_(value) {}  // NOLINT: integers are dims
  Dim(std::int64_t coef, std::vector<std::string> symbols);

  bool isStatic() const { return symbols_.empty(); }
  std::int64_t value() const;  // checked: the dim is static
  std::int64_t coef() const { return coef_; }
  const std::vector<std::string>& symbols() const { return symbols_; }
  std::string text() const;  // "32", "s0", "2*s0*s1"
  friend bool operator==(const Dim&, const Dim&) = default;

 private:
  std::int64_t coef_ = 0;
  std::vector<std::string> symbols_;
};

struct TensorType {
  DType dtype = DType::kOther;
  std::vector<Dim> shape;

  std::size_t rank() const { return shape.size(); }
  std::int64_t dim(std::size_t i) const { return shape[i].value(); }
  std::vector<std::int64_t> sizes() const;  // checked: all static
  std::int64_t elements() const;
  std::int64_t bytes() const { return elements() * dtypeBytes(dtype); }
  std::string text() const;  // "f32[2,s0,64]"
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

}  // namespace autosp::ir
