#include "autosp/ir/attr.h"

#include <algorithm>

#include "autosp/support/check.h"

namespace autosp::ir {

Attr Attr::ints(const std::vector<std::int64_t>& values) {
  AttrList list;
  list.reserve(values.size());
  for (std::int64_t v : values) {
    list.emplace_back(v);
  }
  return Attr(std::move(list));
}

bool Attr::asBool() const {
  AUTOSP_CHECK(isBool() || isInt(), "attribute is not a bool");
  return isBool() ? std::get<bool>(v_) : std::get<std::int64_t>(v_) != 0;
}

std::int64_t Attr::asInt() const {
  AUTOSP_CHECK(isInt() || isBool(), "attribute is not an int");
  return isInt() ? std::get<std::int64_t>(v_) : std::int64_t{std::get<bool>(v_)};
}

double Attr::asFloat() const {
  AUTOSP_CHECK(isFloat() || isInt() || isBool(), "attribute is not a number");
  return isFloat() ? std::get<double>(v_) : static_cast<double>(asInt());
}

const std::string& Attr::asString() const {
  AUTOSP_CHECK(isString(), "attribute is not a string");
  return std::get<std::string>(v_);
}

ValueId Attr::asValue() const {
  AUTOSP_CHECK(isValue(), "attribute is not a value");
  return std::get<ValueId>(v_);
}

const Opaque& Attr::asOpaque() const {
  AUTOSP_CHECK(isOpaque(), "attribute is not opaque");
  return std::get<Opaque>(v_);
}

const AttrList& Attr::asList() const {
  AUTOSP_CHECK(isList(), "attribute is not a list");
  return std::get<AttrList>(v_);
}

AttrList& Attr::asList() {
  AUTOSP_CHECK(isList(), "attribute is not a list");
  return std::get<AttrList>(v_);
}

bool Attr::isInts() const {
  return isList() && std::all_of(asList().begin(), asList().end(),
                                 [](const Attr& a) { return a.isInt() || a.isBool(); });
}

std::vector<std::int64_t> Attr::asInts() const {
  std::vector<std::int64_t> out;
  for (const Attr& item : asList()) {
    out.push_back(item.asInt());
  }
  return out;
}

}  // namespace autosp::ir
