// Typed dense indices: an OpId is never mistaken for a ValueId.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace autosp {

template <typename Tag>
struct Id {
  std::int32_t index = -1;

  constexpr Id() = default;
  constexpr explicit Id(std::size_t i) : index(static_cast<std::int32_t>(i)) {}
  constexpr bool valid() const { return index >= 0; }
  constexpr std::size_t at() const { return static_cast<std::size_t>(index); }
  friend constexpr auto operator<=>(const Id&, const Id&) = default;
};

}  // namespace autosp

template <typename Tag>
struct std::hash<autosp::Id<Tag>> {
  std::size_t operator()(const autosp::Id<Tag>& id) const noexcept {
    return std::hash<std::int32_t>{}(id.index);
  }
};
