// Bucket elimination with interned tables and a memo of buckets.
#include "autosp/sharding/bucket_tree.h"

#include <algorithm>
#include <compare>
#include <string>
#include <tuple>
#include <utility>

#include "autosp/support/check.h"

namespace autosp::sharding::elimination {
namespace {

constexpr std::int64_t kMostEntries = std::int64_t{1} << 28;

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

// Walks the positions of a bucket's scope in row-major order and keeps, per depth k, the sum of the
// tables that depend on no more than the first k variables of the scope: one row of costs over the
// bucket's own states. A step then adds up only what its innermost changed variable touches.
class RowWalk {
 public:
  RowWalk(const TablePool& pool, const Bucket& bucket, const std::vector<int>& domain, int v)
      : pool_(pool),
        states_(domain[v]),
        at_depth_(bucket.scope.size() + 1),
        digit_(bucket.scope.size(), 0),
        rows_(bucket.scope.size() + 1) {
    for (int rank : bucket.scope) limit_.push_back(domain[rank]);
    for (const BucketTable& table : bucket.tables) {
      at_depth_[table.places.empty() ? 0 : table.places.back() + 1].push_back(&table);
    }
    for (auto& row : rows_) row.resize(states_);
    std::copy(pool[bucket.unary].begin(), pool[bucket.unary].end(), rows_[0].begin());
    for (const BucketTable* table : at_depth_[0]) addTo(rows_[0], rows_[0], *table);
    sumFrom(1);
  }

  const std::vector<Cost>& row() const { return rows_.back(); }

  void next() {
    int depth = static_cast<int>(digit_.size());
    while (depth > 0 && ++digit_[depth - 1] == limit_[depth - 1]) digit_[--depth] = 0;
    if (depth > 0) sumFrom(depth);
  }

 private:
  void addTo(std::vector<Cost>& out, const std::vector<Cost>& row, const BucketTable& table) const {
    std::size_t offset = 0;
    for (std::size_t i = 0; i < table.places.size(); ++i) {
      offset += digit_[table.places[i]] * table.strides[i];
    }
    const Cost* costs = pool_[table.id].data() + offset;
    for (int s = 0; s < states_; ++s) out[s] = row[s] + costs[s];
  }

  void sumFrom(int depth) {
    for (std::size_t k = depth; k < rows_.size(); ++k) {
      if (at_depth_[k].empty()) rows_[k] = rows_[k - 1];
      const std::vector<Cost>* row = &rows_[k - 1];
      for (const BucketTable* table : at_depth_[k]) {
        addTo(rows_[k], *row, *table);
        row = &rows_[k];
      }
    }
  }

  const TablePool& pool_;
  const int states_;
  std::vector<std::vector<const BucketTable*>> at_depth_;
  std::vector<int> digit_;  // the position, per variable of the scope
  std::vector<int> limit_;
  std::vector<std::vector<Cost>> rows_;
};

}  // namespace

int TablePool::intern(const std::vector<Cost>& table) {
  std::uint64_t hash = table.size();
  for (const Cost& cost : table) {
    hash = mix(mix(mix(hash, static_cast<std::uint64_t>(cost.whole_bytes)),
                   static_cast<std::uint64_t>(cost.time)),
               static_cast<std::uint64_t>(cost.tie));
  }
  auto [first, last] = by_hash_.equal_range(hash);
  for (; first != last; ++first) {
    if (tables_[first->second] == table) return first->second;
  }
  const int id = static_cast<int>(tables_.size());
  tables_.push_back(table);
  by_hash_.emplace(hash, id);
  return id;
}

std::size_t BucketTree::KeyHash::operator()(const std::vector<int>& key) const {
  std::uint64_t hash = key.size();
  for (int value : key) hash = mix(hash, static_cast<std::uint64_t>(value));
  return static_cast<std::size_t>(hash);
}

BucketTree::BucketTree(const ReducedProblem& problem, const std::vector<int>& order)
    : buckets_(order.size()) {
  const int n = static_cast<int>(order.size());
  std::vector<int> rank(n);
  for (int i = 0; i < n; ++i) rank[order[i]] = n - 1 - i;
  domain_.resize(n);
  std::vector<std::vector<Incoming>> incoming(n);
  std::vector<Cost> table;
  Cost minimum;
  cost_ = problem.constant;
  for (int f = 0; f < n; ++f) {
    table = problem.unary[f];
    domain_[rank[f]] = static_cast<int>(table.size());
    buckets_[rank[f]].unary = internNormalised(table, minimum);
    cost_ += minimum;
  }
  for (const ReducedProblem::Edge& edge : problem.edges) {
    const int lower = rank[edge.a] < rank[edge.b] ? edge.a : edge.b;
    const int higher = lower == edge.a ? edge.b : edge.a;
    problem.fillTable(edge, lower, table);
    incoming[rank[higher]].push_back({internNormalised(table, minimum), {rank[lower]}});
    cost_ += minimum;
  }
  for (int v = n - 1; v >= 0; --v) {
    Bucket& bucket = buckets_[v];
    arrange(v, incoming[v]);
    incoming[v] = {};
    auto [entry, is_new] =
        memo_.try_emplace(memoKey(bucket, v), static_cast<int>(eliminations_.size()));
    if (is_new) {
      eliminations_.push_back(eliminate(bucket, v));
    } else {
      ++memo_hits_;
    }
    bucket.elimination = entry->second;
    const Elimination& result = eliminations_[bucket.elimination];
    cost_ += result.minimum;
    if (cost_.isForbidden()) return;
    if (bucket.scope.empty()) continue;
    const std::vector<int> rest(bucket.scope.begin(), bucket.scope.end() - 1);
    incoming[bucket.scope.back()].push_back({result.message, rest});
  }
}

// Subtracts the minimum of a table, told in `minimum`; a table that forbids everything stays as it
// is.
int BucketTree::internNormalised(std::vector<Cost>& table, Cost& minimum) {
  minimum = *std::min_element(table.begin(), table.end());
  if (!minimum.isForbidden()) {
    for (Cost& cost : table) cost = cost - minimum;
  }
  return pool_.intern(table);
}

// Sets scope and tables of bucket v. The order of its tables follows their content and place, so
// that equal buckets have equal keys.
void BucketTree::arrange(int v, const std::vector<Incoming>& incoming) {
  Bucket& bucket = buckets_[v];
  for (const Incoming& table : incoming) {
    bucket.scope.insert(bucket.scope.end(), table.scope.begin(), table.scope.end());
  }
  std::sort(bucket.scope.begin(), bucket.scope.end());
  bucket.scope.erase(std::unique(bucket.scope.begin(), bucket.scope.end()), bucket.scope.end());
  width_ = std::max(width_, static_cast<int>(bucket.scope.size()));
  for (const Incoming& table : incoming) {
    BucketTable placed{table.id, {}, std::vector<std::size_t>(table.scope.size())};
    std::size_t stride = domain_[v];
    for (std::size_t i = table.scope.size(); i-- > 0;) {
      placed.strides[i] = stride;
      stride *= domain_[table.scope[i]];
    }
    for (int rank : table.scope) {
      auto at = std::lower_bound(bucket.scope.begin(), bucket.scope.end(), rank);
      placed.places.push_back(static_cast<int>(at - bucket.scope.begin()));
    }
    bucket.tables.push_back(std::move(placed));
  }
  std::sort(bucket.tables.begin(), bucket.tables.end(),
            [](const BucketTable& left, const BucketTable& right) {
              return std::tie(left.places, left.id) < std::tie(right.places, right.id);
            });
  std::int64_t entries = domain_[v];
  for (int rank : bucket.scope) {
    AUTOSP_CHECK(entries <= kMostEntries / domain_[rank],
                 "eliminating one variable among " + std::to_string(bucket.scope.size()) +
                     " others needs a table of over 2^28 entries");
    entries *= domain_[rank];
  }
  largest_table_ = std::max(largest_table_, entries);
}

// All that the elimination of a bucket depends on: its domains, and each table with its places.
std::vector<int> BucketTree::memoKey(const Bucket& bucket, int v) const {
  std::vector<int> key{domain_[v], bucket.unary, static_cast<int>(bucket.scope.size())};
  for (int rank : bucket.scope) key.push_back(domain_[rank]);
  for (const BucketTable& table : bucket.tables) {
    key.push_back(table.id);
    key.push_back(static_cast<int>(table.places.size()));
    key.insert(key.end(), table.places.begin(), table.places.end());
  }
  return key;
}

Elimination BucketTree::eliminate(const Bucket& bucket, int v) {
  std::size_t positions = 1;
  for (int rank : bucket.scope) positions *= domain_[rank];
  Elimination result;
  result.best.resize(positions);
  result.tied.resize(positions);
  std::vector<Cost> message(positions);
  RowWalk walk(pool_, bucket, domain_, v);
  for (std::size_t p = 0; p < positions; ++p, walk.next()) {
    const std::vector<Cost>& row = walk.row();
    std::size_t best = 0;
    bool tied = false;
    for (std::size_t s = 1; s < row.size(); ++s) {
      const auto order = row[s] <=> row[best];
      if (std::is_eq(order)) tied = true;
      if (std::is_gteq(order)) continue;
      best = s;
      tied = false;
    }
    message[p] = row[best];
    result.best[p] = static_cast<std::uint16_t>(best);
    result.tied[p] = tied ? 1 : 0;
  }
  result.message = internNormalised(message, result.minimum);
  return result;
}

std::vector<int> BucketTree::decode(bool& unique) const {
  std::vector<int> state(buckets_.size());
  unique = true;
  for (int v = 0; v < size(); ++v) {
    std::size_t position = 0;
    for (int rank : buckets_[v].scope) position = position * domain_[rank] + state[rank];
    const Elimination& result = eliminations_[buckets_[v].elimination];
    state[v] = result.best[position];
    // Another optimum must differ first, in rank order, at a variable whose choice here was a tie.
    if (result.tied[position]) unique = false;
  }
  return state;
}

std::vector<int> BucketTree::optimalStates(int v, std::size_t position) const {
  const Bucket& bucket = buckets_[v];
  std::vector<int> digit(bucket.scope.size());
  for (std::size_t i = digit.size(); i-- > 0;) {
    digit[i] = static_cast<int>(position % domain_[bucket.scope[i]]);
    position /= domain_[bucket.scope[i]];
  }
  std::vector<Cost> row = pool_[bucket.unary];
  for (const BucketTable& table : bucket.tables) {
    std::size_t offset = 0;
    for (std::size_t i = 0; i < table.places.size(); ++i) {
      offset += digit[table.places[i]] * table.strides[i];
    }
    for (int s = 0; s < domain_[v]; ++s) row[s] += pool_[table.id][offset + s];
  }
  const Cost least = *std::min_element(row.begin(), row.end());
  std::vector<int> states;
  for (int s = 0; s < domain_[v]; ++s) {
    if (row[s] == least) states.push_back(s);
  }
  return states;
}

}  // namespace autosp::sharding::elimination
