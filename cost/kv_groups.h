// How an engine lays the KV cache of a stage's layers out in blocks.
#pragma once

#include "muster/cost/memory.h"

namespace muster::cost {

// A token slot of the pool is one token in every layer of one group. A full-attention group needs a slot for each token
// of the context; a windowed group only for those inside the window.
struct KvGroups {
  int layers_per_group = 0;  // layers that share a block; counts padding layers (vLLM)
  int full_groups = 0;
  int window_groups = 0;
  int window = 0;                              // tokens
  int linear_layers = 0;                       // of the stage: a constant state per sequence instead of KV
  std::int64_t bytes_per_token_and_layer = 0;  // per GPU

  int groups() const { return full_groups + window_groups; }
  // Per GPU, of one token at full attention.
  std::int64_t bytes_per_token() const { return bytes_per_token_and_layer * layers_per_group * groups(); }
};

// Of layers [first, first + count).
KvGroups kv_groups(const Deployment& deployment, int first, int count);

}  // namespace muster::cost
