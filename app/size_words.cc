// What the numbers of a sizing mean, in words.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "muster/core/text.h"
#include "sizer.h"

namespace muster::app {
namespace {

std::string seconds_or_ms(double ms) {
  return ms >= 1000 ? fmt::format("{:.1f} s", ms / 1e3) : fmt::format("{:.0f} ms", ms);
}

std::string thousands(double n) {
  const std::string digits = fmt::format("{:.0f}", n);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

// A target rounded up to two digits, so that it reads like one: 1234 -> 1300.
double round_up(double ms) {
  const double unit = std::pow(10, std::floor(std::log10(std::max(ms, 1e-3))) - 1);
  return std::ceil(ms / unit) * unit;
}

std::string layout_words(const report::Candidate& layout) {
  std::string text = fmt::format("TP {}", layout.tp);
  if (layout.pp > 1) text += fmt::format(" x PP {}", layout.pp);
  if (layout.ep > 1) text += fmt::format(" (EP {})", layout.ep);
  return text;
}

// "on one l40s", "as TP 2 on 2 h100-sxm of one node", "as TP 8 x PP 2 on 16 h100-sxm".
std::string device_words(const report::Candidate& layout) {
  if (layout.gpus == 1) return fmt::format("on one {}", layout.gpu);
  return fmt::format("as {} on {} {}{}", layout_words(layout), layout.gpus, layout.gpu,
                     layout.gpus <= 8 ? " of one node" : "");
}

}  // namespace

std::string binding_of(const SizeFile& file, const LayoutTrials& trials, const report::Candidate& layout, int needed,
                       const sim::Outcome& too_small, bool zone_forced) {
  if (zone_forced) return "zone";
  // Generation alone, with no queue to speak of, already takes most of the target: more replicas cannot help much.
  const sim::Outcome roomy = trials.run(4 * needed, 0, 0, false);
  if (trials.score(file.slo, roomy) > 0.85) return "slo";
  double kv = 0, running = 0;
  std::size_t samples = 0;
  for (const sim::Sample& sample : too_small.samples) {
    if (sample.at < Instant(from_seconds(60)) || sample.arrivals == 0) continue;
    for (std::size_t r = 0; r < sample.running.size(); ++r) {
      kv += static_cast<double>(sample.kv_share[r]);
      running += sample.running[r];
      ++samples;
    }
  }
  if (samples == 0) return layout.binding;
  kv /= static_cast<double>(samples);
  running /= static_cast<double>(samples);
  const std::int64_t seats = trials.scenario(1, 0, 0, 0).kind.limits.max_num_seqs;
  if (kv > 0.85 || too_small.preempted > too_small.requests / 100) return "kv_memory";
  if (running > 0.9 * static_cast<double>(seats)) return "max_num_seqs";
  // Neither memory nor seats: the device itself. Decode with small batches streams weights, prefill and large batches
  // multiply; the step model knows which of the two takes longer at this batch.
  const PreparedPool& pool = trials.pool();
  const workload::Trace& trace = *trials.scenario(1, 0, 0, 0).trace;
  double input = 0, output = 0;
  for (const workload::Request& r : trace.requests) {
    input += r.input_tokens;
    output += r.output_tokens;
  }
  const auto count = static_cast<double>(std::max<std::size_t>(1, trace.requests.size()));
  const auto batch = static_cast<std::int64_t>(std::max(1.0, running));
  const double context = (input + output / 2) / count;
  const cost::PrefillChunk chunk{
      .tokens = static_cast<std::int64_t>(std::max(1.0, static_cast<double>(batch) * input / std::max(1.0, output)))};
  const cost::StepBreakdown b = pool.step->breakdown(0, {.prefills = {&chunk, 1},
                                                         .decode_sequences = batch,
                                                         .decode_kv_tokens = batch * static_cast<std::int64_t>(context),
                                                         .sampled_sequences = batch});
  if (b.all_reduce_s + b.all_to_all_s > 0.4 * b.device_s()) return "communication";
  return b.compute_bound_s > b.memory_bound_s ? "compute" : "bandwidth";
}

std::string paragraph(const report::Size& size, const SizeFile& file) {
  const auto speed = [&](std::string_view percentile) {
    const auto at = std::ranges::find(size.speeds, percentile, &report::PercentileSpeed::percentile);
    return at == size.speeds.end() ? report::PercentileSpeed{} : *at;
  };
  const report::PercentileSpeed median = speed("p50"), tail = speed("p95");
  std::vector<std::string> per_zone;
  for (std::size_t z = 0; z < size.zones.size(); ++z)
    per_zone.push_back(fmt::format("{} in {}", size.replicas_per_zone[z], size.zones[z]));
  std::string text = fmt::format(
      "{} in {} at a p95 context of {} tokens runs {} per replica. A replica makes {} output tok/s when every request "
      "is "
      "of median length and {} at the p95 context. ",
      size.model, size.layout.precision, thousands(size.traffic.context.p95), device_words(size.layout),
      thousands(median.output_tok_s), thousands(tail.output_tok_s));
  text += fmt::format("{} the SLO at the peak of {:.1f} requests/s",
                      size.replicas_for_slo == 1 ? std::string("1 replica meets")
                                                 : fmt::format("{} replicas meet", size.replicas_for_slo),
                      size.peak_rate_rps);
  if (size.replicas_at_95 > size.replicas_for_slo)
    text += fmt::format(" ({} with 95 % confidence)", size.replicas_at_95);
  text += fmt::format(
      "; with {:.0f} % headroom for bursts and rolling deploys that is {} ({}), plus {} warm standby{} ({} per zone): "
      "{} GPUs",
      100 * size.headroom, size.replicas, join(per_zone, ", "), size.standby, size.standby == 1 ? "" : "s",
      file.standby_per_zone, size.gpus);
  if (size.usd_h) text += fmt::format(", ${:.2f}/h", *size.usd_h);
  text += ". ";
  if (size.zones.size() > 1)
    text += size.zone_loss_meets_slo ? fmt::format("Losing zone {} at peak keeps the SLO (p95 end to end {}). ",
                                                   size.zones.front(), seconds_or_ms(size.zone_loss.e2e_ms.p95))
                                     : fmt::format("Losing zone {} at peak breaks the SLO (p95 end to end {}). ",
                                                   size.zones.front(), seconds_or_ms(size.zone_loss.e2e_ms.p95));
  else
    text += "With one zone, its loss is the loss of the fleet. ";
  text += fmt::format(
      "What binds is {}. Scale on queue wait p95 first, on TPOT 1.3 times its baseline second, on GPU utilisation "
      "last.",
      size.binding);
  return text;
}

std::string infeasible_message(const SizeFile& file, const LayoutTrials& trials, int replicas) {
  const sim::Outcome outcome = trials.run(replicas, 0, 0, false);
  std::string message =
      fmt::format("no fleet of up to {} replicas meets the SLO; the nearest is {} {} on {}:", replicas,
                  trials.pool().spec.precision, cost::text(trials.pool().deployment.layout), trials.pool().gpu.key);
  for (const report::Slo& row : slo_rows(file.slo, outcome.all)) {
    const bool met = *row.measured_ms <= row.target_ms;
    message += fmt::format(
        "\n  {} {:.6g}: {} at best{}", row.name, row.target_ms, seconds_or_ms(*row.measured_ms),
        met ? ", met"
            : fmt::format(", infeasible; the nearest feasible target is {:.6g}", round_up(*row.measured_ms * 1.02)));
  }
  message += fmt::format(
      "\n  of the p95 end-to-end time, queue wait is {} and generation the rest: more replicas do not shorten that",
      seconds_or_ms(outcome.all.queue_wait_ms.quantile(0.95)));
  return message;
}

}  // namespace muster::app
