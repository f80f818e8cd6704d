// Every weight tensor of a model: its shape, its layer, and how tensor and expert parallelism cut it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "muster/core/units.h"
#include "muster/model/spec.h"

namespace muster::model {

// How a tensor is divided over the ranks of a tensor-parallel group (Megatron: column, then row).
enum class Shard {
  kReplicated,    // norms, routers, MLA down-projections: whole on every rank
  kHeads,         // by attention head
  kKvHeads,       // by KV head; ranks beyond the number of KV heads hold a copy
  kIntermediate,  // by MLP column
  kVocabulary,    // by vocabulary row, padded
  kExperts,       // whole experts over expert-parallel ranks, or by column under pure TP
};

struct Tensor {
  std::string_view name;         // "q_proj", "q_proj.bias", "down_proj", ...; static storage
  std::string_view fused;        // the tensor in which engines keep it: "qkv_proj", "gate_up_proj"; else its name
  Shard shard = Shard::kReplicated;
  std::int64_t elements = 0;     // whole; a bias is a tensor of its own; kExperts: all experts together
  std::int64_t units = 1;        // the heads, columns or rows into which it can be cut; kExperts: columns of one expert
  bool quantised = false;        // true: a linear weight that quantised checkpoints store in low precision
};

// The tensors of decoder layer `layer`, in order. Requires 0 <= layer < spec.layers.
std::vector<Tensor> layer_tensors(const ModelSpec& spec, int layer);
std::vector<Tensor> embedding_tensors(const ModelSpec& spec);  // token and position embedding, embedding norm
std::vector<Tensor> head_tensors(const ModelSpec& spec);       // empty when tied to the embedding
std::int64_t embedding_elements(const ModelSpec& spec);  // vocabulary x hidden, unpadded, with learned positions
std::int64_t final_norm_elements(const ModelSpec& spec);
std::int64_t head_elements(const ModelSpec& spec);       // 0 when tied to the embedding

std::int64_t parameter_count(const ModelSpec& spec);         // all weights once
std::int64_t active_parameter_count(const ModelSpec& spec);  // used by one token (top-k experts), with both embeddings

// One rank of a parallel layout of one stage.
struct ShardedWeights {
  const ModelSpec* spec = nullptr;
  Dtype dtype = Dtype::kBf16;
  int tp = 1;                 // ranks over which heads, MLP columns and vocabulary are divided
  int ep = 1;                 // ranks over which whole experts are divided; 1: experts are cut by column over tp
  int first_layer = 0;        // of this stage
  int layer_count = 0;
  bool has_embedding = false; // first stage
  bool has_head = false;      // last stage: final norm and head (tied, and on another stage than the embedding: a copy)
  // true: what an engine on PyTorch reports after loading. That adds to the tensors the rotary sin/cos tables, the
  // absorbed copy of kv_b_proj of MLA models, the columns by which MXFP4 experts are padded, and the rounding of the
  // caching allocator. false: the tensors alone.
  bool as_loaded = true;
};
// The vocabulary is padded to a multiple of 64 and then divided (vLLM; Megatron likewise). Where tp or ep does not
// divide the heads, columns or experts evenly, the answer is that of the rank with most. other_parameters are whole on
// each rank of the stage with the embedding.
Bytes weight_bytes_per_rank(const ShardedWeights& question);

// KV-cache bytes of one token in one layer on one rank (KV heads replicated when tp > kv_heads). 0 for linear layers.
// With a sparse indexer also its key, in fp8 with one fp32 scale (vLLM, SGLang).
// A local layer counts like any other: what a window saves depends on the engine and is decided in `cost`.
Bytes kv_bytes_per_token_and_layer(const ModelSpec& spec, int layer, Dtype kv, int tp);
// The whole model on one rank with tp = 1 and every layer at full attention.
Bytes kv_bytes_per_token(const ModelSpec& spec, Dtype kv);

}  // namespace muster::model
