// Times of single operators on one rank: GEMM, attention, experts, element-wise passes, communication.
//
// All times are seconds of device time inside a running graph or stream (no host time). Sizes are of one rank.
#pragma once

#include <string>

#include "muster/cost/memory.h"

namespace muster::cost {

// A time and what an ideal device would need for the arithmetic and for the bytes; the larger of the two says what binds.
struct OpTime {
  double s = 0;
  double compute_s = 0;
  double memory_s = 0;
};

struct GemmShape {   // C[m, n] = A[m, k] B[k, n]; m is given at evaluation
  double n = 0;
  double k = 0;
};

struct AttentionShape {   // one layer, one rank
  double heads = 0;
  double kv_heads = 0;
  double head_dim = 0;
  double window = 0;      // tokens; 0: full attention
};

struct MlaShape {         // one layer, one rank
  double heads = 0;
  double kv_lora_rank = 0;
  double rope_dim = 0;
  double nope_dim = 0;
  double v_dim = 0;
};

struct MoeShape {         // one layer; the whole layer's experts
  double hidden = 0;
  double columns = 0;     // of one expert on one rank: expert width / (tp / ep)
  double experts = 0;
  double experts_here = 0;  // on one rank: experts / ep
  double top_k = 0;
  double matrices = 3;    // gate, up, down
};

class Operators {
 public:
  explicit Operators(const Deployment& deployment);

  // `quantised`: the weight is stored in the deployment's precision; otherwise in 16 bits (routers, LM head).
  OpTime gemm(const GemmShape& shape, double m, bool quantised = true) const;
  // `tokens` new tokens of one sequence after `prefix` cached ones.
  OpTime prefill_attention(const AttentionShape& shape, double tokens, double prefix) const;
  // `sequences` rows whose KV lengths sum to `kv_tokens`.
  OpTime decode_attention(const AttentionShape& shape, double sequences, double kv_tokens) const;
  OpTime mla_prefill(const MlaShape& shape, double tokens, double prefix) const;   // without projections
  OpTime mla_decode(const MlaShape& shape, double sequences, double kv_tokens) const;  // with the absorbed products
  OpTime moe(const MoeShape& shape, double tokens) const;
  // One memory-bound kernel over `bytes`.
  OpTime elementwise(double bytes) const;
  OpTime all_reduce(double bytes) const;   // over tp; 0 for tp 1
  OpTime all_gather(double bytes_out) const;  // over tp, result size
  OpTime stage_send(double bytes) const;   // to the next pipeline stage

  double activation_bytes() const { return activation_bytes_; }  // of one element: 2, or 4 for fp32 and tf32
  const std::vector<std::string>& provenance() const { return provenance_; }
  bool is_estimate() const { return estimate_; }
  double error_band() const { return error_band_; }

 private:
  double weight_flops_ = 0;      // FLOP/s in the format of the weights
  double half_flops_ = 0;        // ... in 16 bits, for attention and unquantised weights
  double memory_bytes_per_s_ = 0;
  double weight_bytes_ = 2;      // per element, with scales
  double input_bytes_ = 2;       // of a GEMM's activations
  double activation_bytes_ = 2;
  double kv_bytes_ = 2;          // per KV element
  int tp_ = 1;
  double link_bytes_per_s_ = 0;  // between the ranks of a tensor-parallel group, one direction
  double link_latency_s_ = 0;
  double stage_bytes_per_s_ = 0; // between pipeline stages
  double stage_latency_s_ = 0;
  std::vector<std::string> provenance_;
  bool estimate_ = true;
  double error_band_ = 0.35;
};

}  // namespace muster::cost
