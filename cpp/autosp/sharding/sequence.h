// Which dims are the sequence. Attention defines it: the query and key dims of every attention (the op, or
// one written out as product, softmax, product: matmul, bmm or einsum) are carried backwards and forwards through the rules; the
// inputs they reach are the ones that hold the sequence. Attention that relates two different sequences, or
// none, is an error that lists the candidates and the sequence_dims to write.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "autosp/ir/graph.h"
#include "autosp/sharding/propagation.h"
#include "autosp/support/status.h"

namespace autosp::sharding {

// One attention of the program, and the values on which its dims are read off.
struct AttentionSite {
  ir::OpId op;             // the attention op, or the softmax of a written-out one
  bool written_out = false;
  // Written out: the result of the first product. Its last dim is the keys. A dim that only the queries have
  // is the query dim, or the heads that share a key head; one that both factors have is the batch or the
  // heads.
  ir::ValueId product;
  std::vector<int> query_dims;
  std::vector<int> head_dims;
};

std::vector<AttentionSite> findAttention(const ir::Graph& graph, const RuleCache& rules);

struct SequenceFacts {
  // By value: the cuts along the sequence, every boundary met.
  std::vector<std::vector<ir::Cut>> cuts;
  // User inputs that hold the sequence: name and dim.
  std::vector<std::pair<std::string, int>> inputs;
  bool carries(ir::ValueId value) const { return !cuts[value.at()].empty(); }
};

// sequence_dims: empty for "auto", else input name -> dim.
Result<SequenceFacts> inferSequence(const ir::Graph& graph, const RuleCache& rules,
                                    const std::map<std::string, std::int64_t>& sequence_dims);

}  // namespace autosp::sharding
