#include "engines.h"
#include "muster/core/check.h"

namespace muster::sched {
namespace {

struct Entry {
  SchedulerKind kind;
  std::string_view name;
  std::unique_ptr<Scheduler> (*make)(const SchedulerLimits&);
};

constexpr Entry kEntries[] = {
    {SchedulerKind::kVllm, "vllm", make_vllm},
    {SchedulerKind::kSglang, "sglang", make_sglang},
    {SchedulerKind::kTensorrtLlm, "tensorrt-llm", make_tensorrt_llm},
    {SchedulerKind::kTensorrtLlmMaxUtilization, "tensorrt-llm-max-utilization", make_tensorrt_llm_max_utilization},
    {SchedulerKind::kLlamaCpp, "llama.cpp", make_llama_cpp},
    {SchedulerKind::kStatic, "static", make_static_batching},
    {SchedulerKind::kMuster, "muster", make_muster},
};

const Entry& entry(SchedulerKind kind) {
  for (const Entry& e : kEntries) {
    if (e.kind == kind) return e;
  }
  MUSTER_CHECK(false, "no scheduler of kind {}", static_cast<int>(kind));
}

}  // namespace

std::string_view name(SchedulerKind kind) {
  return entry(kind).name;
}

std::optional<SchedulerKind> parse_scheduler(std::string_view text) {
  for (const Entry& e : kEntries) {
    if (e.name == text) return e.kind;
  }
  return std::nullopt;
}

std::unique_ptr<Scheduler> make_scheduler(SchedulerKind kind, const SchedulerLimits& limits) {
  return entry(kind).make(limits);
}

}  // namespace muster::sched
