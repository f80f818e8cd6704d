// Times of single operators on one rank: GEMM, attention, experts, element-wise passes, communication.
//
// All times are seconds of device time inside a running graph or stream (no host time). Sizes are of one rank. A fitted
// table supplies factors over the roofline; without one, fixed efficiencies stand in.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "roofline.h"
#include "table_choice.h"

namespace muster::cost {

// A time and what an ideal device would need for the arithmetic and for the bytes; the larger of the two says what
// binds.
struct OpTime {
  double s = 0;
  double compute_s = 0;
  double memory_s = 0;
};

// Factors along one axis; empty: no measurement.
struct Factors {
  std::span<const double> knots;
  std::vector<double> values;
  double at(double x) const;
};

// A GEMM or an expert layer of fixed shape, ready for any number of tokens.
struct CompiledGemm {
  GemmShape shape;
  bool quantised = false;
  WeightFormat format;
  Factors factors;
};
struct CompiledMoe {
  MoeShape shape;
  WeightFormat format;
  Factors factors;
};

class Operators {
 public:
  explicit Operators(const Deployment& deployment);

  // `quantised`: the weight is stored in the deployment's precision; otherwise in 16 bits (routers, LM head).
  CompiledGemm compile_gemm(const GemmShape& shape, bool quantised) const;
  CompiledMoe compile_moe(const MoeShape& shape) const;
  // Whether the shape lies inside the measured domain; outside, the factor of the nearest edge is held.
  bool measured(const GemmShape& shape, bool quantised) const;
  bool measured(const MoeShape& shape) const;
  bool measured_collectives() const;
  OpTime gemm(const CompiledGemm& gemm, double m) const;
  OpTime moe(const CompiledMoe& moe, double tokens) const;

  OpTime prefill_attention(const AttentionShape& shape, const PrefillWork& work) const;
  // `sequences` rows whose KV lengths sum to `kv_tokens`.
  OpTime decode_attention(const AttentionShape& shape, double sequences, double kv_tokens) const;
  // The whole attention block of MLA, projections included.
  OpTime mla_prefill(const MlaShape& shape, const PrefillWork& work) const;
  OpTime mla_decode(const MlaShape& shape, double sequences, double kv_tokens) const;

  // One memory-bound kernel over `bytes`.
  OpTime elementwise(double bytes) const;
  // Over tp; 0 for tp 1. `graph`: inside a captured graph, where the launch costs nothing.
  OpTime all_reduce(double bytes, bool graph) const;
  OpTime all_gather(double bytes_out) const;  // over tp, result size
  OpTime stage_send(double bytes) const;      // to the next pipeline stage

  double activation_bytes() const { return activation_bytes_; }  // of one element: 2, or 4 for fp32 and tf32
  double kv_bytes() const { return kv_bytes_; }
  std::vector<std::string> provenance() const;
  bool is_estimate() const { return estimate_; }
  double error_band() const { return error_band_; }

 private:
  struct Found {
    const Grid* grid = nullptr;
    const OperatorTable* table = nullptr;  // that it comes from
    bool exact = false;                    // the key that was asked for, from the table that was chosen
  };
  Found find(const std::string& op, const std::vector<std::string>& keys) const;
  // One line of provenance, formatted only when asked for.
  struct Adopted {
    const char* what = nullptr;
    Found found;        // without a grid: general efficiencies
    std::string asked;  // the key
  };
  // The grid to use; notes where it comes from, and widens the error band when it is borrowed or absent.
  const Grid* adopt(const std::string& op, const std::vector<std::string>& keys, const char* what);
  void choose_formats(const Deployment& deployment);
  void choose_grids(const Deployment& deployment);

  TableChoice choice_;
  DeviceRates rates_;
  WeightFormat gemm_format_, moe_format_, plain_format_;
  double activation_bytes_ = 2;
  double kv_bytes_ = 2;  // per KV element
  double ranks_ = 1;     // tp
  bool on_pcie_ = false;
  double stage_bytes_per_s_ = 0;  // between pipeline stages
  double stage_latency_s_ = 0;
  const Grid* gemm_grid_ = nullptr;        // in the deployment's precision
  const Grid* plain_gemm_grid_ = nullptr;  // in 16 bits
  const Grid* moe_grid_ = nullptr;
  bool moe_over_ranks_ = false;  // ep > 1
  double ep_ = 1;
  const Grid* prefill_grid_ = nullptr;
  const Grid* decode_grid_ = nullptr;
  const Grid* mla_prefill_grid_ = nullptr;
  const Grid* mla_decode_grid_ = nullptr;
  const Grid* all_reduce_grid_ = nullptr;
  const Grid* all_reduce_eager_grid_ = nullptr;
  const Grid* all_gather_grid_ = nullptr;
  std::vector<Adopted> adopted_;
  bool estimate_ = false;
  double error_band_ = 0.08;
};

}  // namespace muster::cost
