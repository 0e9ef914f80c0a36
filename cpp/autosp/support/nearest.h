// The likeliest meaning of a misspelt name, for messages: "did you mean 'objective'?".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace autosp {

// The candidate with the fewest edits (insert, delete, replace, swap of neighbours) to the name,
// the first of equals; empty when none is within a third of the name's length.
std::string nearestName(std::string_view name, const std::vector<std::string>& candidates);

// " (did you mean 'objective'?)", or nothing.
std::string didYouMean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace autosp
