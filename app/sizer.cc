#include "sizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "convert.h"
#include "muster/core/statistics.h"
#include "muster/core/text.h"
#include "parallel.h"

namespace muster::app {
namespace {

constexpr int kLayoutsToTry = 3;   // the cheapest by estimate; simulation decides between them
constexpr double kSafeLoad = 0.7;  // of the steady-state throughput, for first guesses

// A layout that may be chosen, with its estimated fleet.
struct Contender {
  const planner::Candidate* candidate = nullptr;
  int guess = 1;             // replicas
  double cost_estimate = 0;  // $/h, or GPUs when a price is missing
};

class Sizer {
 public:
  Sizer(const SizeFile& file, const Catalogues& catalogues, const SizerSettings& settings)
      : file_(file), catalogues_(catalogues), settings_(settings) {}

  Result<SizeAnswer> run() {
    MUSTER_TRY_VOID(read_traffic());
    MUSTER_TRY_VOID(plan_layouts());
    MUSTER_TRY_VOID(choose_layout());
    MUSTER_TRY_VOID(find_size());
    add_headroom_and_survive();
    gather_evidence();
    relax();
    finish();
    return SizeAnswer{std::move(size_), std::move(fleet_)};
  }

 private:
  void phase(std::string_view name) {
    const double now = settings_.clock();
    if (!size_.phases.empty()) size_.phases.back().wall_s = now - phase_started_;
    phase_started_ = now;
    if (!name.empty()) {
      size_.phases.push_back({.name = std::string(name)});
      settings_.progress(name);
    }
  }

  Result<void> read_traffic() {
    phase("reading the traffic");
    if (!policy::parse_routing(file_.routing_policy))
      return fail("routing: unknown policy '{}'; known are round-robin, least-work, power-of-two",
                  file_.routing_policy);
    MUSTER_TRY(traffic_, sizing_traffic(file_.traffic, settings_.seed));
    size_.traffic = traffic_.description;
    size_.peak_rate_rps = traffic_.peak_rate_rps;
    replications_.resize(static_cast<std::size_t>(settings_.seeds));
    std::vector<Result<workload::Trace>> made(replications_.size(), fail("not made"));
    parallel_for(made.size(), settings_.threads,
                 [&](std::size_t i) { made[i] = traffic_.replication(settings_.seed, i); });
    for (std::size_t i = 0; i < made.size(); ++i) {
      MUSTER_TRY(replications_[i], std::move(made[i]));
    }
    return {};
  }

  Result<void> plan_layouts() {
    phase("planning layouts");
    DeploymentOptions options{.model = file_.model,
                              .gpus = file_.gpus,
                              .gpu_count = file_.gpus_per_replica_max,
                              .kv_precision = file_.kv_precision,
                              .engine = file_.engine,
                              .tp = file_.tp,
                              .pp = file_.pp,
                              .ep = file_.ep,
                              .max_model_len = file_.max_model_len,
                              .max_num_seqs = file_.max_num_seqs,
                              .max_num_batched_tokens = file_.max_num_batched_tokens,
                              .memory_fraction = file_.memory_fraction};
    MUSTER_TRY(resolved_, resolve(options, catalogues_));
    for (const std::string& text : file_.precisions) {
      MUSTER_TRY(const model::Dtype dtype, parse_precision(text, "precision"));
      allowed_.push_back(dtype);
    }
    if (allowed_.empty()) allowed_ = {resolved_->model.default_dtype, model::Dtype::kFp8};
    resolved_->question.input_tokens = traffic_.description.input.mean;
    resolved_->question.output_tokens = std::max(2.0, traffic_.description.output.mean);
    candidates_ = planner::enumerate(resolved_->question);
    for (const planner::Candidate& c : candidates_) size_.considered.push_back(to_report(c));
    if (contenders().empty()) return std::unexpected(Error{nothing_fits(), Error::Kind::kNo});
    return {};
  }

  bool allowed(const planner::Candidate& c) const {
    return c.fits && std::ranges::find(allowed_, c.precision.weights) != allowed_.end();
  }

  std::string nothing_fits() const {
    std::string message =
        fmt::format("{} fits none of {} in an allowed precision:", resolved_->model.key, join(file_.gpus, ", "));
    int shown = 0;
    for (const planner::Candidate& c : candidates_)
      if (!c.fits && std::ranges::find(allowed_, c.precision.weights) != allowed_.end() && shown++ < 6)
        message +=
            fmt::format("\n  {} {} {}: {}", c.gpu->key, model::name(c.precision.weights), cost::text(c.layout), c.why);
    for (const planner::Candidate& c : candidates_)
      if (c.fits) {
        message += fmt::format("\n  allowing {} would do: {} on {}", model::name(c.precision.weights),
                               cost::text(c.layout), c.gpu->key);
        break;
      }
    return message;
  }

  // $/h of `replicas` serving plus the standbys; GPUs when any candidate device has no price.
  double fleet_cost(const planner::Candidate& c, int replicas) const {
    const bool priced =
        std::ranges::all_of(resolved_->question.gpus, [](const hardware::Gpu& g) { return g.price.has_value(); });
    const int all = replicas + file_.standby_per_zone * static_cast<int>(file_.zones.size());
    return all * c.layout.gpus_per_replica() * (priced ? c.gpu->price->usd_per_gpu_hour : 1.0);
  }

  // Layouts that may be chosen, cheapest estimate first.
  std::vector<Contender> contenders() const {
    std::vector<Contender> all;
    for (const planner::Candidate& c : candidates_) {
      if (!allowed(c)) continue;
      const double per_replica_rps = c.speed->output_tok_s / resolved_->question.output_tokens;
      const int guess = std::clamp(static_cast<int>(std::ceil(traffic_.peak_rate_rps / (kSafeLoad * per_replica_rps))),
                                   1, file_.replicas_max);
      all.push_back(
          {.candidate = &c, .guess = guess, .cost_estimate = fleet_cost(c, with_headroom(guess, file_.headroom))});
    }
    std::ranges::stable_sort(all, {}, &Contender::cost_estimate);
    return all;
  }

  PoolSpec pool_spec(const planner::Candidate& c) const {
    return {.name = file_.fleet,
            .model = file_.model,
            .engine = resolved_->question.engine.version.text(),
            .gpu = c.gpu->key,
            .precision = std::string(model::name(c.precision.weights)),
            .kv_precision = file_.kv_precision,
            .tp = c.layout.tp,
            .pp = c.layout.pp,
            .ep = c.layout.ep,
            .standby_per_zone = file_.standby_per_zone,
            .zones = file_.zones,
            .cold_s = file_.cold_s,
            .warm_s = file_.warm_s,
            .max_model_len = file_.max_model_len,
            .max_num_seqs = file_.max_num_seqs,
            .max_num_batched_tokens = file_.max_num_batched_tokens,
            .memory_fraction = file_.memory_fraction};
  }

  Result<std::unique_ptr<LayoutTrials>> trials_of(const PoolSpec& spec) const {
    MUSTER_TRY(std::unique_ptr<PreparedPool> pool, prepare(spec, catalogues_));
    return std::make_unique<LayoutTrials>(std::move(pool), replications_, file_, traffic_, settings_.threads);
  }

  SearchSettings search_settings(int guess) const {
    return {.first_guess = guess,
            .replicas_max = file_.replicas_max,
            .quick_seeds = std::min(2, settings_.seeds),
            .seeds = settings_.seeds};
  }

  Result<void> choose_layout() {
    phase("comparing layouts by simulation");
    std::vector<Contender> tried = contenders();
    // If none of the cheapest keeps the targets, the fastest layouts get their turn.
    const auto cheap = static_cast<std::ptrdiff_t>(std::min<std::size_t>(kLayoutsToTry, tried.size()));
    std::stable_sort(tried.begin() + cheap, tried.end(), [](const Contender& a, const Contender& b) {
      return a.candidate->speed->tpot_ms < b.candidate->speed->tpot_ms;
    });
    double best_cost = HUGE_VAL, least_bad = HUGE_VAL;
    std::unique_ptr<LayoutTrials> nearest;
    int nearest_replicas = 1;
    for (std::size_t i = 0; i < tried.size() && i < 2 * kLayoutsToTry; ++i) {
      if (i >= kLayoutsToTry && chosen_ != nullptr) break;
      const Contender& contender = tried[i];
      MUSTER_TRY(std::unique_ptr<LayoutTrials> trials, trials_of(pool_spec(*contender.candidate)));
      const SearchResult found = search(trials->evaluator(file_.slo), search_settings(contender.guess), true);
      if (!found.replicas) {
        if (found.best_score < least_bad) {
          least_bad = found.best_score;
          nearest = std::move(trials);
          nearest_replicas = found.largest_tried;
        }
        continue;
      }
      const double total = fleet_cost(*contender.candidate, with_headroom(*found.replicas, file_.headroom));
      if (total >= best_cost) continue;
      best_cost = total;
      chosen_ = contender.candidate;
      trials_ = std::move(trials);
      guess_ = *found.replicas;
    }
    if (chosen_ == nullptr)
      return std::unexpected(Error{infeasible_message(file_, *nearest, nearest_replicas), Error::Kind::kNo});
    size_.layout = to_report(*chosen_);
    return {};
  }

  Result<void> find_size() {
    phase("finding the smallest fleet");
    TrialRecord record;
    const SearchResult found = search(trials_->evaluator(file_.slo, &record), search_settings(guess_));
    if (!found.replicas)
      return std::unexpected(Error{infeasible_message(file_, *trials_, found.largest_tried), Error::Kind::kNo});
    needed_ = *found.replicas;
    size_.replicas_for_slo = needed_;
    size_.replicas_at_95 = found.replicas_at_95.value_or(0);
    const std::size_t target = deciding_target(record, std::max(1, needed_ - 1));
    for (const auto& [replicas, evidence] : found.sizes) {
      std::vector<double> p95, attainment;
      for (int seed = 0; seed < settings_.seeds; ++seed) {
        const TrialMeasures& measures = record.at({replicas, seed});
        p95.push_back(*measures.slos[target].measured_ms);
        attainment.push_back(measures.attainment);
        size_.sizing_target = measures.slos[target].name;
      }
      size_.steps.push_back({.replicas = replicas,
                             .seeds = settings_.seeds,
                             .seeds_meeting = evidence.meeting(),
                             .p95_latency_ms = mean_interval_95(p95).mean,
                             .half_width_ms = mean_interval_95(p95).half_width,
                             .slo_attainment = mean_interval_95(attainment).mean});
    }
    return {};
  }

  // Index (in slo_rows) of the target that a fleet of `replicas` misses by most, or comes nearest to.
  std::size_t deciding_target(const TrialRecord& record, int replicas) const {
    const std::vector<report::Slo>& slos = record.at({replicas, 0}).slos;
    std::size_t worst = 0;
    const auto ratio = [&](std::size_t i) { return *slos[i].measured_ms / slos[i].target_ms; };
    for (std::size_t i = 1; i < slos.size(); ++i)
      if (ratio(i) > ratio(worst)) worst = i;
    return worst;
  }

  bool survives_zone_loss(int replicas) const {
    const auto seeds = std::min<std::size_t>(3, replications_.size());
    std::vector<double> scores(seeds);
    parallel_for(seeds, settings_.threads, [&](std::size_t i) {
      scores[i] = trials_->score(file_.slo, trials_->run(replicas, file_.standby_per_zone, static_cast<int>(i), true));
    });
    return std::ranges::all_of(scores, [](double s) { return s <= 1; });
  }

  void add_headroom_and_survive() {
    phase("losing a zone at peak");
    serving_ = std::max({with_headroom(needed_, file_.headroom), size_.replicas_at_95, 1});
    if (file_.zones.size() < 2 || !file_.survive_zone_loss) return;
    serving_ = std::max(serving_, static_cast<int>(file_.zones.size()));
    const int before = serving_;
    while (!survives_zone_loss(serving_) && serving_ < std::min(file_.replicas_max, 3 * before + 3)) ++serving_;
    zone_forced_ = serving_ > before;
  }

  void gather_evidence() {
    phase("gathering the evidence");
    struct Job {
      int replicas, standby;
      bool lose;
      report::RunMetrics* metrics;
      report::RunPlots* plots;
      sim::Outcome outcome{};
    };
    std::vector<Job> jobs = {{needed_, 0, false, &size_.at_n, nullptr},
                             {std::max(1, needed_ - 1), 0, false, needed_ > 1 ? &size_.at_n_minus_1 : nullptr, nullptr},
                             {serving_, file_.standby_per_zone, false, nullptr, &size_.plots}};
    if (file_.zones.size() > 1)
      jobs.push_back({serving_, file_.standby_per_zone, true, &size_.zone_loss, &size_.zone_loss_plots});
    parallel_for(jobs.size(), settings_.threads, [&](std::size_t i) {
      Job& job = jobs[i];
      sim::Scenario s = trials_->scenario(job.replicas, job.standby, 0, 2);
      if (job.lose) s.faults.push_back({.kind = sim::Fault::Kind::kZoneLoss, .at = Instant(s.warm_up), .target = 0});
      job.outcome = sim::run(s);
      if (job.metrics != nullptr) *job.metrics = metrics(s, job.outcome, price(), file_.fleet);
      if (job.plots != nullptr) *job.plots = plots(s, job.outcome);
    });
    size_.slos = slo_rows(file_.slo, jobs[2].outcome.all);
    if (jobs.size() > 3) size_.zone_loss_meets_slo = meets(file_.slo, jobs[3].outcome.all);
    size_.binding = binding_of(file_, *trials_, size_.layout, needed_, jobs[1].outcome, zone_forced_);
    for (const double percentile : {0.5, 0.9, 0.95, 0.99}) size_.speeds.push_back(speed_at(percentile));
  }

  report::PercentileSpeed speed_at(double percentile) const {
    const PercentileLengths at = lengths_at(traffic_.sample, percentile);
    planner::Question question = resolved_->question;
    question.input_tokens = at.input;
    question.output_tokens = std::max(2.0, at.output);
    const planner::Candidate c =
        planner::evaluate(question, *chosen_->gpu, chosen_->layout, chosen_->precision.weights);
    return {.percentile = fmt::format("p{:.0f}", percentile * 100),
            .context_tokens = at.context,
            .input_tokens = at.input,
            .output_tokens = at.output,
            .concurrency = c.speed ? c.speed->batch : 0,
            .output_tok_s = c.speed ? c.speed->output_tok_s : 0,
            .tpot_ms = c.speed ? c.speed->tpot_ms : 0};
  }

  std::optional<double> price() const {
    if (!chosen_->gpu->price) return std::nullopt;
    return chosen_->gpu->price->usd_per_gpu_hour;
  }

  // What changing one thing would save, the best first.
  void relax() {
    phase("trying relaxations");
    struct Change {
      std::string text;
      PoolSpec spec;
      SloTargets slo;
    };
    const PoolSpec spec = trials_->pool().spec;
    std::vector<Change> changes;
    SloTargets looser = file_.slo;
    for (auto* target : {&looser.queue_wait_p95_ms, &looser.ttft_p95_ms, &looser.tpot_p95_ms, &looser.e2e_p95_ms})
      if (*target) **target *= 1.25;
    changes.push_back({"every target 25 % looser", spec, looser});
    const auto add = [&](std::string text, auto edit) {
      PoolSpec changed = spec;
      edit(changed);
      changes.push_back({std::move(text), std::move(changed), file_.slo});
    };
    if (spec.kv_precision.empty() && spec.precision != "fp32")
      add("FP8 KV cache", [](PoolSpec& s) { s.kv_precision = "fp8"; });
    if (spec.precision == "bf16" || spec.precision == "fp16")
      add("FP8 weights", [](PoolSpec& s) { s.precision = "fp8"; });
    if (size_.binding == "max_num_seqs")
      add("twice max_num_seqs", [&](PoolSpec& s) {
        s.max_num_seqs = static_cast<int>(2 * trials_->scenario(1, 0, 0, 0).kind.limits.max_num_seqs);
      });
    std::vector<std::pair<int, report::Relaxation>> found;
    for (const Change& change : changes) {
      const Result<std::unique_ptr<LayoutTrials>> trials = trials_of(change.spec);
      if (!trials) continue;  // not possible on this device
      const SearchResult result = search((*trials)->evaluator(change.slo), search_settings(needed_), true);
      if (result.replicas && *result.replicas < needed_)
        found.emplace_back(*result.replicas, report::Relaxation{change.text, saving(*result.replicas)});
    }
    if (zone_forced_) {
      const int without = with_headroom(needed_, file_.headroom);
      found.emplace_back(needed_, report::Relaxation{"not surviving a zone at peak", gpus_saved(serving_ - without)});
    }
    std::ranges::stable_sort(found, {}, [](const auto& f) { return f.first; });
    for (auto& [_, relaxation] : found) size_.relax.push_back(std::move(relaxation));
  }

  std::string saving(int replicas) const {
    return fmt::format("{} instead of {} replicas for the SLO: {}", replicas, needed_,
                       gpus_saved(with_headroom(needed_, file_.headroom) - with_headroom(replicas, file_.headroom)));
  }

  std::string gpus_saved(int replicas) const {
    const int gpus = replicas * chosen_->layout.gpus_per_replica();
    std::string text = fmt::format("{} GPUs fewer with headroom", gpus);
    if (price()) text += fmt::format(", ${:.2f}/h less", *price() * gpus);
    return text;
  }

  void finish() {
    const int zones = static_cast<int>(file_.zones.size());
    size_.fleet = file_.fleet;
    size_.model = resolved_->model.name;
    size_.engine = resolved_->question.engine.version.text();
    size_.replicas = serving_;
    size_.standby = file_.standby_per_zone * zones;
    size_.gpus = (size_.replicas + size_.standby) * chosen_->layout.gpus_per_replica();
    size_.zones = file_.zones;
    for (int z = 0; z < zones; ++z)
      size_.replicas_per_zone.push_back(serving_ / zones + (z < serving_ % zones ? 1 : 0));
    size_.headroom = static_cast<double>(serving_ - needed_) / needed_;
    size_.price = price_of(*chosen_->gpu);
    if (price()) {
      size_.usd_h = *price() * size_.gpus;
      const double tokens_per_hour = size_.traffic.rate_rps * size_.traffic.output.mean * 3600;
      if (tokens_per_hour > 0) size_.usd_per_mtok = *size_.usd_h / tokens_per_hour * 1e6;
    }
    size_.paragraph = paragraph(size_, file_);
    write_fleet();
    phase("");
  }

  void write_fleet() {
    PoolSpec pool = pool_spec(*chosen_);
    pool.replicas_initial = serving_;
    pool.replicas_min = needed_;
    pool.replicas_max = serving_ + std::max(serving_ / 2, 1);
    // Queue wait scales first; without a target of its own, a tenth of the time that the request may take.
    const double wait = file_.slo.queue_wait_p95_ms.value_or(
        std::max(100.0, 0.1 * file_.slo.ttft_p95_ms.value_or(file_.slo.e2e_p95_ms.value_or(5000))));
    pool.autoscale = {
        .queue_wait_p95_ms = wait, .tpot_degradation = 1.3, .gpu_utilisation = 0.9, .headroom = file_.headroom};
    fleet_.fleet = file_.fleet;
    fleet_.pools = {std::move(pool)};
    fleet_.classes = {{.name = "interactive", .rank = 0, .slo = file_.slo}};
    fleet_.routing_policy = file_.routing_policy;
  }

  const SizeFile& file_;
  const Catalogues& catalogues_;
  const SizerSettings& settings_;
  report::Size size_;
  FleetFile fleet_;
  double phase_started_ = 0;
  SizingTraffic traffic_;
  std::vector<workload::Trace> replications_;
  std::unique_ptr<ResolvedDeployment> resolved_;
  std::vector<model::Dtype> allowed_;
  std::vector<planner::Candidate> candidates_;  // point into resolved_->question.gpus
  const planner::Candidate* chosen_ = nullptr;  // into candidates_
  std::unique_ptr<LayoutTrials> trials_;        // of the chosen layout
  int guess_ = 1, needed_ = 1, serving_ = 1;
  bool zone_forced_ = false;
};

}  // namespace

int with_headroom(int needed, double headroom) {
  return static_cast<int>(std::ceil(needed * (1 + std::max(0.0, headroom - 0.05)) - 1e-9));
}

Result<SizeAnswer> size_fleet(const SizeFile& file, const Catalogues& catalogues, const SizerSettings& settings) {
  return Sizer(file, catalogues, settings).run();
}

}  // namespace muster::app
