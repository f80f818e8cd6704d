// One maker per scheduler, for make_scheduler().
#pragma once

#include <memory>

#include "muster/sched/scheduler.h"

namespace muster::sched {

std::unique_ptr<Scheduler> make_vllm(const SchedulerLimits& limits);
std::unique_ptr<Scheduler> make_sglang(const SchedulerLimits& limits);
std::unique_ptr<Scheduler> make_tensorrt_llm(const SchedulerLimits& limits);
std::unique_ptr<Scheduler> make_tensorrt_llm_max_utilization(const SchedulerLimits& limits);
std::unique_ptr<Scheduler> make_llama_cpp(const SchedulerLimits& limits);
std::unique_ptr<Scheduler> make_static_batching(const SchedulerLimits& limits);
std::unique_ptr<Scheduler> make_muster(const SchedulerLimits& limits);

}  // namespace muster::sched
