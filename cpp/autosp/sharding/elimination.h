// Exact minimum of a sum of unary and pairwise costs over variables with small domains.
//
//   objective    minimise  sum over v of unary[v][x_v]  +  sum over tables t of t.cost[x_a][x_b]
//   constraints  a forbidden cost forbids the state, or the pair of states, that bears it
//
// Solved by variable elimination (bucket elimination, Dechter 1999): linear in the variables,
// exponential only in the width of the elimination order. Variables are taken by least fill-in
// (elimination_order.h), and a bucket whose input tables have been met before is not computed again
// (bucket_tree.h): repeated layers cost what about three of them cost.
//
// The plan does not depend on the order of elimination: of several optima the one whose state
// vector comes first lexicographically, by variable id, is returned (optimum_set.h). Put a tie
// index into Cost::tie to say which optimum is wanted; this last rule then seldom has anything to
// decide.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <vector>

namespace autosp::sharding {

// A cost, ordered lexicographically: first the bytes left whole, then the time, then an index that
// the caller chooses to order plans of equal price. Components may be negative. Sums saturate at
// +-kLargest per component; a sum with forbidden() is forbidden().
struct Cost {
  static constexpr std::int64_t kLargest = (std::int64_t{1} << 62) - 1;

  std::int64_t whole_bytes = 0;
  std::int64_t time = 0;  // picoseconds
  std::int64_t tie = 0;

  static constexpr Cost forbidden() { return {kLargest + 1, 0, 0}; }
  constexpr bool isForbidden() const { return whole_bytes > kLargest; }

  friend constexpr Cost operator+(const Cost& left, const Cost& right) {
    if (left.isForbidden() || right.isForbidden()) return forbidden();
    return {sum(left.whole_bytes, right.whole_bytes), sum(left.time, right.time),
            sum(left.tie, right.tie)};
  }
  // Difference by component, for normalising: right is not forbidden, forbidden() stays
  // forbidden().
  friend constexpr Cost operator-(const Cost& left, const Cost& right) {
    if (left.isForbidden()) return forbidden();
    return {sum(left.whole_bytes, negated(right.whole_bytes)), sum(left.time, negated(right.time)),
            sum(left.tie, negated(right.tie))};
  }
  Cost& operator+=(const Cost& other) { return *this = *this + other; }
  friend constexpr auto operator<=>(const Cost&, const Cost&) = default;

 private:
  static constexpr std::int64_t negated(std::int64_t value) {
    return -std::max(value, -kLargest - 1);
  }
  static constexpr std::int64_t sum(std::int64_t left, std::int64_t right) {
    if (right > 0) return left > kLargest - right ? kLargest : left + right;
    return left < -kLargest - right ? -kLargest : left + right;
  }
};

// Cost of each pair of states of two different variables.
struct PairTable {
  int a = 0;
  int b = 0;
  std::vector<Cost> cost;  // row-major [states of a][states of b]
};

struct PairwiseProblem {
  std::vector<std::vector<Cost>> unary;  // per variable, the cost of each of its states
  std::vector<PairTable> pairs;          // several tables on one pair add up
};

struct Solution {
  Cost cost;                       // forbidden() when no assignment is allowed
  std::vector<int> state;          // per variable; empty when cost is forbidden
  bool unique = false;             // exactly one assignment has this cost
  int width = 0;                   // most variables that one message depends on
  std::int64_t largest_table = 0;  // entries of the largest bucket, its own variable included
  std::int64_t memo_hits = 0;      // buckets taken from the memo
};

enum class OrderRule { kMinFillHubLast, kMinDegree };

// The assignment of least cost. Exact while the sum over all tables of the largest magnitude stays
// below Cost::kLargest / 2 in each component; past it sums saturate and the plan, still allowed and
// priced by evaluate(), may not be the least. Throws InternalError on a malformed problem (a table
// of the wrong size, on an unknown variable, or on one variable twice) and when a bucket would
// exceed 2^28 entries.
Solution minimize(const PairwiseProblem& problem, OrderRule rule = OrderRule::kMinFillHubLast);

// Price of an assignment, summed directly from the problem; minimize() holds its minimum against
// it.
Cost evaluate(const PairwiseProblem& problem, const std::vector<int>& state);

}  // namespace autosp::sharding
