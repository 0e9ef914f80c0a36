#include "autosp/ir/type.h"

#include <algorithm>
#include <array>
#include <utility>

#include "autosp/support/check.h"

namespace autosp::ir {
namespace {

struct DTypeRow {
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array<DTypeRow, 13> kRows = {{{"b8", 1},
                                             {"u8", 1},
                                             {"i8", 1},
                                             {"i16", 2},
                                             {"i32", 4},
                                             {"i64", 8},
                                             {"f16", 2},
                                             {"bf16", 2},
                                             {"f32", 4},
                                             {"f64", 8},
                                             {"c64", 8},
                                             {"c128", 16},
                                             {"other", 1}}};

}  // namespace

std::string_view dtypeName(DType dtype) { return kRows[static_cast<std::size_t>(dtype)].name; }

DType dtypeFromName(std::string_view name) {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) {
      return static_cast<DType>(i);
    }
  }
  return DType::kOther;
}

std::int64_t dtypeBytes(DType dtype) { return kRows[static_cast<std::size_t>(dtype)].bytes; }

bool isFloating(DType dtype) {
  return dtype >= DType::kF16 && dtype <= DType::kC128;
}

Dim::Dim(std::int64_t coef, std::vector<std::string> symbols)
    : coef_(coef), symbols_(std::move(symbols)) {
  std::sort(symbols_.begin(), symbols_.end());
}

std::int64_t Dim::value() const {
  AUTOSP_CHECK(isStatic(), "a static dim is needed, found " + text());
  return coef_;
}

std::string Dim::text() const {
  if (isStatic()) {
    return std::to_string(coef_);
  }
  std::string out = coef_ == 1 ? "" : std::to_string(coef_);
  for (const std::string& symbol : symbols_) {
    out += (out.empty() ? "" : "*") + symbol;
  }
  return out;
}

std::vector<std::int64_t> TensorType::sizes() const {
  std::vector<std::int64_t> out;
  out.reserve(shape.size());
  for (const Dim& dim : shape) {
    out.push_back(dim.value());
  }
  return out;
}

std::int64_t TensorType::elements() const {
  std::int64_t n = 1;
  for (const Dim& dim : shape) {
    n *= dim.value();
  }
  return n;
}

std::string TensorType::text() const {
  std::string out(dtypeName(dtype));
  out += '[';
  for (std::size_t i = 0; i < shape.size(); ++i) {
    out += (i ? "," : "") + shape[i].text();
  }
  return out + ']';
}

}  // namespace autosp::ir
