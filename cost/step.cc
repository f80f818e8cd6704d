#include "muster/cost/step.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <mutex>

#include "muster/core/check.h"
#include "stage_plan.h"

namespace muster::cost {
namespace {

// A time as a function of a whole number of tokens or rows: exact at the knots, linear between, and continued beyond
// the last with its slope. The knots are dense where kernels step (tile edges at 17, 65, 129, 257; graphs end at 512).
class Curve {
 public:
  static constexpr std::array<std::int32_t, 64> kKnots = {
      0,    1,    2,    3,    4,    6,    8,    12,   16,   17,    20,    24,    28,    32,    40,    48,
      56,   64,   65,   80,   96,   112,  128,  129,  144,  160,   192,   224,   256,   257,   320,   384,
      448,  512,  513,  576,  640,  704,  768,  896,  1024, 1280,  1536,  1792,  2048,  2304,  2560,  2816,
      3072, 3328, 3584, 3840, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 16384, 20480, 24576, 28672, 32768};

  template <class Time>
  explicit Curve(const Time& time) {
    for (std::size_t i = 0; i < kKnots.size(); ++i) values_[i] = time(static_cast<double>(kKnots[i]));
    // Where a search for a number of `bits` bits starts.
    for (std::size_t bits = 0; bits < first_.size(); ++bits) {
      const std::int64_t least = bits == 0 ? 0 : std::int64_t{1} << (bits - 1);
      std::size_t i = 0;
      while (i + 2 < kKnots.size() && kKnots[i + 1] <= least) ++i;
      first_[bits] = static_cast<std::uint8_t>(i);
    }
  }

  double at(std::int64_t x) const {
    const auto bits = std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(x))),
                                            first_.size() - 1);
    std::size_t i = first_[bits];
    while (i + 2 < kKnots.size() && kKnots[i + 1] <= x) ++i;
    const double fraction = static_cast<double>(x - kKnots[i]) / static_cast<double>(kKnots[i + 1] - kKnots[i]);
    return values_[i] + (values_[i + 1] - values_[i]) * fraction;
  }

 private:
  std::array<double, kKnots.size()> values_{};
  std::array<std::uint8_t, 17> first_{};
};

struct CompiledStage {
  Curve tokens;
  Curve head;
};

StepBreakdown added(const StepBreakdown& a, const StepBreakdown& b) {
  StepBreakdown out;
  for (const auto entry :
       {&StepBreakdown::gemm_s, &StepBreakdown::attention_s, &StepBreakdown::moe_s, &StepBreakdown::elementwise_s,
        &StepBreakdown::all_reduce_s, &StepBreakdown::all_to_all_s, &StepBreakdown::head_s, &StepBreakdown::transfer_s,
        &StepBreakdown::host_s, &StepBreakdown::compute_bound_s, &StepBreakdown::memory_bound_s})
    out.*entry = a.*entry + b.*entry;
  return out;
}

std::int64_t whole_tokens(const StepShape& shape) {
  std::int64_t tokens = shape.decode_sequences;
  for (const PrefillChunk& chunk : shape.prefills) tokens += chunk.tokens;
  return tokens;
}

}  // namespace

struct StepModel::Data {
  explicit Data(const Deployment& d) : plan(d), engine(d.engine) {}

  double sequences(const StepShape& shape) const {
    return static_cast<double>(shape.decode_sequences) + static_cast<double>(shape.prefills.size());
  }
  double host_s(const StepShape& shape, std::int64_t tokens) const {
    return to_seconds(engine.host_fixed) + to_seconds(engine.host_per_sequence) * sequences(shape) +
           engine.host_per_prefill_token_ns * 1e-9 * static_cast<double>(tokens - shape.decode_sequences);
  }
  double serial_host_s(const StepShape& shape) const {
    return to_seconds(engine.host_serial_fixed) + to_seconds(engine.host_serial_per_sequence) * sequences(shape);
  }
  // Of the first stage, which waits for the host.
  double with_host(double device_s, const StepShape& shape, std::int64_t tokens) const {
    const double host = host_s(shape, tokens);
    // A scheduler that runs ahead hides the shorter of the two.
    return (engine.asynchronous_scheduling ? std::max(device_s, host) : device_s + host) + serial_host_s(shape);
  }
  // Compiled on the first stage_time(): a planner that only asks for a few steps does not pay for it.
  const std::vector<CompiledStage>& compiled() const {
    std::call_once(compile_once, [this] {
      for (const StagePlan& stage : plan.stages())
        stages.push_back({.tokens = Curve([&](double n) { return plan.token_work(stage, n).device_s(); }),
                          .head = Curve([&](double n) { return plan.head_work(stage, n).device_s(); })});
    });
    return stages;
  }

  Plan plan;
  EngineProfile engine;
  mutable std::once_flag compile_once;
  mutable std::vector<CompiledStage> stages;
  mutable std::once_flag provenance_once;
  mutable std::vector<std::string> provenance;
};

StepModel StepModel::make(const Deployment& deployment) {
  return StepModel(std::make_shared<const Data>(deployment));
}

int StepModel::stages() const {
  return static_cast<int>(data_->plan.stages().size());
}

StepBreakdown StepModel::breakdown(int stage, const StepShape& shape) const {
  const StagePlan& plan = data_->plan.stages()[static_cast<std::size_t>(stage)];
  const std::int64_t tokens = whole_tokens(shape);
  StepBreakdown b = added(data_->plan.token_work(plan, static_cast<double>(tokens)),
                          data_->plan.head_work(plan, static_cast<double>(shape.sampled_sequences)));
  b = added(b, data_->plan.attention_work(plan, shape));
  // What the host adds to the device time: all of it, or what running ahead does not hide.
  if (plan.first) b.host_s = data_->with_host(b.device_s(), shape, tokens) - b.device_s();
  return b;
}

Duration StepModel::stage_time(int stage, const StepShape& shape) const {
  const std::size_t s = static_cast<std::size_t>(stage);
  const StagePlan& plan = data_->plan.stages()[s];
  const CompiledStage& compiled = data_->compiled()[s];
  const std::int64_t tokens = whole_tokens(shape);
  double device = compiled.tokens.at(tokens) + data_->plan.attention_work(plan, shape).attention_s;
  if (plan.last) device += compiled.head.at(shape.sampled_sequences);
  if (plan.first) device = data_->with_host(device, shape, tokens);
  return std::max(Duration(1), from_seconds(device));
}

Duration StepModel::latency(const StepShape& shape) const {
  Duration sum{0};
  for (int s = 0; s < stages(); ++s) sum += stage_time(s, shape);
  return sum;
}

const std::vector<std::string>& StepModel::provenance() const {
  std::call_once(data_->provenance_once, [this] { data_->provenance = data_->plan.provenance(); });
  return data_->provenance;
}
bool StepModel::is_estimate() const {
  return data_->plan.is_estimate();
}
double StepModel::error_band() const {
  return data_->plan.error_band();
}

}  // namespace muster::cost
