// Variable elimination of a reduced problem.
//
// Variables are renamed by rank: the order eliminates rank n-1 first and rank 0 last. The bucket of
// v sums every table whose highest rank is v and minimises over v:
//
//   message(scope) = min over x_v of  unary[v][x_v] + sum of the bucket's tables at (scope, x_v)
//
// The message then is a table of the highest rank in its scope (its parent bucket). Tables are laid
// out with ranks ascending, so the variable being eliminated always varies fastest.
//
// Each table is normalised (its minimum subtracted) and interned by content: equal content, equal
// id, no matter whose variables. A bucket whose tables, their places in the scope and the domains
// in it have been met before reuses that message and that choice; only the scope is its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "autosp/sharding/elimination.h"
#include "autosp/sharding/elimination_reduction.h"

namespace autosp::sharding::elimination {

// Cost tables without duplicates.
class TablePool {
 public:
  // Id of the table with exactly this content.
  int intern(const std::vector<Cost>& table);
  const std::vector<Cost>& operator[](int id) const { return tables_[id]; }

 private:
  std::vector<std::vector<Cost>> tables_;
  std::unordered_multimap<std::uint64_t, int> by_hash_;  // looked up only, never listed
};

// A table in a bucket: its scope is some ranks of the bucket's scope, then the bucket's own
// variable.
struct BucketTable {
  int id = 0;
  std::vector<int> places;           // positions in the bucket's scope, ascending
  std::vector<std::size_t> strides;  // entries between neighbouring states, by place
};

// What eliminating a bucket gives: per assignment of its scope the least cost and who reaches it.
struct Elimination {
  int message = 0;  // table id, normalised
  Cost minimum;     // what was subtracted from it; forbidden: no assignment is allowed
  std::vector<std::uint16_t> best;  // the lowest state of least cost
  std::vector<char> tied;           // another state costs the same
};

struct Bucket {
  std::vector<int> scope;  // ranks lower than its own, ascending; the last is its parent
  int unary = 0;           // table id
  std::vector<BucketTable> tables;
  int elimination = 0;  // index into BucketTree's list, shared by equal buckets
};

class BucketTree {
 public:
  // order: free variables, first eliminated first.
  BucketTree(const ReducedProblem& problem, const std::vector<int>& order);

  // Least cost, or forbidden.
  const Cost& cost() const { return cost_; }
  // An optimal state of each rank, and in `unique` whether it is the only optimum. Needs a finite
  // cost.
  std::vector<int> decode(bool& unique) const;
  // All states of rank v that are optimal when its scope is at this position (row-major).
  std::vector<int> optimalStates(int v, std::size_t position) const;

  int size() const { return static_cast<int>(buckets_.size()); }
  const Bucket& bucket(int v) const { return buckets_[v]; }
  int domain(int v) const { return domain_[v]; }

  int width() const { return width_; }
  std::int64_t largestTable() const { return largest_table_; }
  std::int64_t memoHits() const { return memo_hits_; }

 private:
  struct Incoming {
    int id = 0;
    std::vector<int> scope;  // ranks, ascending, without the bucket's own
  };
  struct KeyHash {
    std::size_t operator()(const std::vector<int>& key) const;
  };

  int internNormalised(std::vector<Cost>& table, Cost& minimum);
  void arrange(int v, const std::vector<Incoming>& incoming);
  std::vector<int> memoKey(const Bucket& bucket, int v) const;
  Elimination eliminate(const Bucket& bucket, int v);

  TablePool pool_;
  std::vector<int> domain_;
  std::vector<Bucket> buckets_;
  std::vector<Elimination> eliminations_;
  std::unordered_map<std::vector<int>, int, KeyHash> memo_;
  Cost cost_;
  int width_ = 0;
  std::int64_t largest_table_ = 0;
  std::int64_t memo_hits_ = 0;
};

}  // namespace autosp::sharding::elimination
