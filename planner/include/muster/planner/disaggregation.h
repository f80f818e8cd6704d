// Prefill and decode on replicas of their own, against both on the same: what it would bring at the same TPOT.
#pragma once

#include <optional>

#include "muster/planner/planner.h"

namespace muster::planner {

struct Disaggregated {
  int prefill_replicas = 0, decode_replicas = 0;  // of the best small ratio
  double prefill_rps = 0, decode_rps = 0;         // requests per second that one replica of each can do
  double decode_batch = 0;                        // sequences
  double tpot_ms = 0;                             // at most that of the mixed replica
  double requests_s_per_gpu = 0;
  double mixed_requests_s_per_gpu = 0;  // both on the same replica
  double kv_transfer_ms = 0;            // of one prompt's cache, over an idle link of kLinkBytesPerSecond
  double gain() const { return requests_s_per_gpu / mixed_requests_s_per_gpu - 1; }
};

// One 400 Gb/s network adapter, of which the common 8-GPU servers have one per GPU (NVIDIA DGX H100 user guide).
inline constexpr double kLinkBytesPerSecond = 50e9;
inline constexpr int kReplicasOfOneRoleMax = 8;

// For the candidate's own layout in both roles, in closed form: a prefill replica computes one full step of prompts
// after the other; a decode replica runs the largest batch whose step, without prompts in it, is no longer than the
// mixed replica's TPOT. Queueing, bursts and the links' contention are not in it: `muster simulate` has them. nullopt:
// the candidate does not fit, or has pipeline stages, for which this closed form says nothing.
std::optional<Disaggregated> disaggregate(const Question& question, const Candidate& candidate);

}  // namespace muster::planner
