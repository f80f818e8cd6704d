#include "muster/report/measures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "muster/report/format.h"

namespace muster::report {
namespace {

template <Latency RunMetrics::* kLatency, double Latency::* kFigure>
std::optional<double> latency_value(const RunMetrics& r) {
  return r.*kLatency.*kFigure;
}
template <double RunMetrics::* kFigure>
std::optional<double> plain_value(const RunMetrics& r) {
  return r.*kFigure;
}
template <std::uint64_t RunMetrics::* kCount>
std::optional<double> count_value(const RunMetrics& r) {
  return static_cast<double>(r.*kCount);
}
std::optional<double> usd_value(const RunMetrics& r) {
  return r.usd;
}
std::optional<double> usd_per_mtok_value(const RunMetrics& r) {
  const double tokens = r.output_tok_s * r.duration_s;
  if (!r.usd || tokens <= 0) return std::nullopt;
  return *r.usd / tokens * 1e6;
}

template <Latency RunMetrics::* kLatency, double Latency::* kFigure>
constexpr Measure latency_measure(std::string_view name, std::string_view label) {
  return {name, label, Better::kLower, milliseconds, false, latency_value<kLatency, kFigure>};
}

using R = RunMetrics;
using L = Latency;
constexpr std::array kMeasures = {
    latency_measure<&R::queue_wait_ms, &L::mean>("queue_wait_ms.mean", "queue wait mean"),
    latency_measure<&R::queue_wait_ms, &L::p50>("queue_wait_ms.p50", "queue wait p50"),
    latency_measure<&R::queue_wait_ms, &L::p90>("queue_wait_ms.p90", "queue wait p90"),
    latency_measure<&R::queue_wait_ms, &L::p95>("queue_wait_ms.p95", "queue wait p95"),
    latency_measure<&R::queue_wait_ms, &L::p99>("queue_wait_ms.p99", "queue wait p99"),
    latency_measure<&R::ttft_ms, &L::mean>("ttft_ms.mean", "TTFT mean"),
    latency_measure<&R::ttft_ms, &L::p50>("ttft_ms.p50", "TTFT p50"),
    latency_measure<&R::ttft_ms, &L::p90>("ttft_ms.p90", "TTFT p90"),
    latency_measure<&R::ttft_ms, &L::p95>("ttft_ms.p95", "TTFT p95"),
    latency_measure<&R::ttft_ms, &L::p99>("ttft_ms.p99", "TTFT p99"),
    latency_measure<&R::tpot_ms, &L::mean>("tpot_ms.mean", "TPOT mean"),
    latency_measure<&R::tpot_ms, &L::p50>("tpot_ms.p50", "TPOT p50"),
    latency_measure<&R::tpot_ms, &L::p90>("tpot_ms.p90", "TPOT p90"),
    latency_measure<&R::tpot_ms, &L::p95>("tpot_ms.p95", "TPOT p95"),
    latency_measure<&R::tpot_ms, &L::p99>("tpot_ms.p99", "TPOT p99"),
    latency_measure<&R::e2e_ms, &L::mean>("e2e_ms.mean", "E2E mean"),
    latency_measure<&R::e2e_ms, &L::p50>("e2e_ms.p50", "E2E p50"),
    latency_measure<&R::e2e_ms, &L::p90>("e2e_ms.p90", "E2E p90"),
    latency_measure<&R::e2e_ms, &L::p95>("e2e_ms.p95", "E2E p95"),
    latency_measure<&R::e2e_ms, &L::p99>("e2e_ms.p99", "E2E p99"),
    Measure{"slo_attainment", "SLO met", Better::kHigher, percent, true, plain_value<&R::slo_attainment>},
    Measure{"goodput_rps", "goodput req/s", Better::kHigher, number, false, plain_value<&R::goodput_rps>},
    Measure{"output_tok_s", "output tok/s", Better::kHigher, number, false, plain_value<&R::output_tok_s>},
    Measure{"output_tok_s_per_gpu", "output tok/s per GPU", Better::kHigher, number, false,
            plain_value<&R::output_tok_s_per_gpu>},
    Measure{"total_tok_s", "total tok/s", Better::kHigher, number, false, plain_value<&R::total_tok_s>},
    Measure{"requests", "requests", Better::kNeither, count, false, count_value<&R::requests>},
    Measure{"rejected", "rejected", Better::kLower, number, false, count_value<&R::rejected>},
    Measure{"preempted", "preemptions", Better::kLower, number, false, count_value<&R::preempted>},
    Measure{"gpu_hours", "GPU-hours", Better::kLower, number, false, plain_value<&R::gpu_hours>},
    Measure{"usd", "cost", Better::kLower, usd, false, usd_value},
    Measure{"usd_per_mtok", "cost per M tok", Better::kLower, usd, false, usd_per_mtok_value},
};

}  // namespace

std::span<const Measure> measures() {
  return kMeasures;
}

const Measure* find_measure(std::string_view name) {
  const auto at = std::ranges::find(kMeasures, name, &Measure::name);
  return at == kMeasures.end() ? nullptr : &*at;
}

std::string signed_difference(const Measure& measure, double difference) {
  if (!std::isfinite(difference)) return "-";
  const char* sign = difference < 0 ? "-" : "+";
  if (measure.share) return fmt::format("{}{:.2f} pp", sign, std::abs(difference) * 100);
  return sign + measure.format(std::abs(difference));
}

}  // namespace muster::report
