// Which dims are the sequence. Attention defines it: the query and key dims of every attention (the op, or
// one written out as matmul, softmax, matmul) are carried backwards and forwards through the rules; the
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
  ir::ValueId scores;      // written out: the softmax's operand, [..., query, key]
  ir::ValueId product;     // written out: the result of the first matmul
};

std::vector<AttentionSite> findAttention(const ir::Graph& graph);

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
