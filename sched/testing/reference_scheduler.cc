#include "reference_scheduler.h"

#include <algorithm>

#include "muster/core/check.h"

namespace muster::sched::testing {

ReferenceScheduler::ReferenceScheduler(const SchedulerLimits& limits) : limits_(limits) {
  for (std::int64_t block = 0; block < limits.kv_blocks; ++block) free_blocks_.push_back(block);
}

ReferenceScheduler::Request* ReferenceScheduler::find_serial(std::uint64_t serial) {
  for (Request& request : requests_) {
    if (request.serial == serial) return &request;
  }
  return nullptr;
}

bool ReferenceScheduler::add(Instant, const NewSequence& sequence) {
  const std::int64_t tokens = sequence.prompt_tokens + sequence.max_tokens;
  if (tokens > limits_.kv_blocks * limits_.kv_block_tokens) return false;
  Request request;
  request.id = sequence.id;
  request.prompt = sequence.prompt_tokens;
  request.max_tokens = sequence.max_tokens;
  request.priority = sequence.priority;
  request.serial = ++serials_;
  request.content.assign(sequence.content_blocks.begin(), sequence.content_blocks.end());
  requests_.push_back(request);
  return true;
}

bool ReferenceScheduler::abort(RequestId id) {
  for (const Request& request : requests_) {
    if (request.id == id) {
      remove(request.serial);
      return true;
    }
  }
  return false;
}

bool ReferenceScheduler::give_blocks(Request& request, std::int64_t tokens) {
  std::vector<std::int64_t> blocks = request.blocks;
  std::vector<std::int64_t> left = free_blocks_;
  std::vector<std::int64_t> taken;
  while (static_cast<std::int64_t>(blocks.size()) * limits_.kv_block_tokens < tokens) {
    if (left.empty()) return false;
    blocks.push_back(left.front());
    taken.push_back(left.front());
    left.erase(left.begin());
  }
  request.blocks = blocks;
  free_blocks_ = left;
  // A content block that lost one of its KV blocks cannot be found any more.
  std::erase_if(cached_, [&](const Cached& c) {
    return std::any_of(taken.begin(), taken.end(), [&](std::int64_t block) {
      return std::find(c.blocks.begin(), c.blocks.end(), block) != c.blocks.end();
    });
  });
  return true;
}

bool ReferenceScheduler::is_held(std::int64_t block) const {
  return std::any_of(requests_.begin(), requests_.end(), [&](const Request& r) {
    return std::find(r.blocks.begin(), r.blocks.end(), block) != r.blocks.end();
  });
}

void ReferenceScheduler::take_blocks_back(Request& request) {
  while (!request.blocks.empty()) {
    const std::int64_t block = request.blocks.back();
    request.blocks.pop_back();
    if (!is_held(block)) free_blocks_.push_back(block);
  }
  request.cached = 0;
}

std::vector<ReferenceScheduler::Cached> ReferenceScheduler::find_prefix(const Request& request) const {
  std::vector<Cached> found;
  if (!limits_.prefix_caching || limits_.content_block_tokens == 0) return found;
  std::vector<std::uint64_t> prefix;
  for (const std::uint64_t id : request.content) {
    prefix.push_back(id);
    if (static_cast<std::int64_t>(prefix.size()) * limits_.content_block_tokens >= request.known()) break;
    const auto cached =
        std::find_if(cached_.begin(), cached_.end(), [&](const Cached& c) { return c.prefix == prefix; });
    if (cached == cached_.end()) break;
    found.push_back(*cached);
  }
  return found;
}

// The content blocks of the first so many tokens can be found from now on.
void ReferenceScheduler::cache_content(Request& request, std::int64_t tokens) {
  if (!limits_.prefix_caching || limits_.content_block_tokens == 0) return;
  const std::int64_t blocks_each = limits_.content_block_tokens / limits_.kv_block_tokens;
  while (request.cached < request.content.size() &&
         static_cast<std::int64_t>(request.cached + 1) * limits_.content_block_tokens <= tokens) {
    Cached cached;
    for (std::size_t i = 0; i <= request.cached; ++i) cached.prefix.push_back(request.content[i]);
    for (std::int64_t i = 0; i < blocks_each; ++i) {
      const auto block = static_cast<std::int64_t>(request.cached) * blocks_each + i;
      cached.blocks.push_back(request.blocks[static_cast<std::size_t>(block)]);
    }
    cached_.push_back(cached);
    ++request.cached;
  }
}

void ReferenceScheduler::remove(std::uint64_t serial) {
  take_blocks_back(*find_serial(serial));
  std::erase_if(requests_, [&](const Request& r) { return r.serial == serial; });
  std::erase(admitted_, serial);
}

// Of the running ones, the one with the highest priority number, and of those the latest.
std::uint64_t ReferenceScheduler::last_in_order() const {
  const Request* last = nullptr;
  for (const Request& r : requests_) {
    if (!r.running) continue;
    if (!last || r.priority > last->priority || (r.priority == last->priority && r.serial > last->serial)) last = &r;
  }
  return last->serial;
}

// Of the waiting ones, the one with the lowest priority number, and of those the earliest; 0: nobody waits.
std::uint64_t ReferenceScheduler::first_waiting() const {
  const Request* first = nullptr;
  for (const Request& r : requests_) {
    if (r.running) continue;
    if (!first || r.priority < first->priority || (r.priority == first->priority && r.serial < first->serial))
      first = &r;
  }
  return first ? first->serial : 0;
}

void ReferenceScheduler::preempt(std::uint64_t serial, StepPlan& plan) {
  Request& request = *find_serial(serial);
  take_blocks_back(request);
  request.computed = 0;
  request.scheduled = 0;
  request.emitted_at_start = request.emitted;
  request.running = false;
  std::erase(request.in_steps, step_ + 1);  // the step that is being made
  std::erase(admitted_, serial);
  std::erase_if(plan.pieces, [&](const Piece& p) { return p.slot == static_cast<std::uint32_t>(serial); });
  plan.preempted.push_back(request.id);
  ++preemptions_;
}

std::int64_t ReferenceScheduler::tokens_of(const StepPlan& plan) {
  std::int64_t tokens = 0;
  for (const Piece& piece : plan.pieces) tokens += piece.tokens;
  return tokens;
}

std::int64_t ReferenceScheduler::tokens_to_schedule(const Request& request, std::int64_t budget) const {
  std::int64_t tokens = request.known() - request.scheduled;
  const std::int64_t cap = limits_.long_prefill_token_threshold;
  if (cap > 0 && tokens > cap) tokens = cap;
  return std::min(tokens, budget);
}

void ReferenceScheduler::put_into_plan(Request& request, std::int64_t tokens, StepPlan& plan) const {
  Piece piece;
  piece.id = request.id;
  piece.slot = static_cast<std::uint32_t>(request.serial);
  piece.tokens = tokens;
  piece.computed_before = request.scheduled;
  piece.decode = request.scheduled >= request.to_prefill();
  piece.samples = request.scheduled + tokens == request.known();
  request.scheduled += tokens;
  request.in_steps.push_back(step_ + 1);
  plan.pieces.push_back(piece);
}

// False: too few blocks, and nothing has changed.
bool ReferenceScheduler::start(Request& request, std::int64_t budget, StepPlan& plan) {
  const std::vector<std::int64_t> free_before = free_blocks_;
  const std::vector<Cached> cached_before = cached_;
  const Request request_before = request;
  for (const Cached& cached : find_prefix(request)) {
    for (const std::int64_t block : cached.blocks) {
      std::erase(free_blocks_, block);
      request.blocks.push_back(block);
    }
    request.computed += limits_.content_block_tokens;
    ++request.cached;
  }
  request.scheduled = request.computed;
  const std::vector<std::int64_t> free_with_hit = free_blocks_;
  const std::int64_t tokens = tokens_to_schedule(request, budget);
  const auto watermark = static_cast<std::size_t>(limits_.admission_watermark * static_cast<double>(limits_.kv_blocks));
  const std::int64_t must_fit = limits_.whole_prompt_must_fit ? request.known() : request.computed + tokens;
  Request whole = request;
  const bool fits = give_blocks(whole, must_fit) && (admitted_.empty() || free_blocks_.size() >= watermark);
  free_blocks_ = free_with_hit;
  cached_ = cached_before;
  if (!fits || !give_blocks(request, request.computed + tokens)) {
    free_blocks_ = free_before;
    cached_ = cached_before;
    request = request_before;
    return false;
  }
  if (!request.started) {
    prefix_tokens_queried_ += limits_.prefix_caching && limits_.content_block_tokens > 0 ? request.known() : 0;
    prefix_tokens_hit_ += request.computed;
  }
  request.started = true;
  request.running = true;
  admitted_.push_back(request.serial);
  put_into_plan(request, tokens, plan);
  cache_content(request, request.computed + tokens);
  return true;
}

bool ReferenceScheduler::schedule(Instant, StepPlan& plan) {
  plan.clear();
  if (steps_out_ == limits_.steps_in_flight_max) return false;

  const std::vector<std::uint64_t> in_order = admitted_;
  for (std::uint64_t serial : in_order) {
    // Whose known tokens are all out waits for the one that they will sample.
    if (!find_serial(serial)->running || find_serial(serial)->scheduled == find_serial(serial)->known()) continue;
    const std::int64_t budget = limits_.max_num_batched_tokens - tokens_of(plan);
    if (budget == 0) break;
    const std::int64_t tokens = tokens_to_schedule(*find_serial(serial), budget);
    while (find_serial(serial)->running &&
           !give_blocks(*find_serial(serial), find_serial(serial)->scheduled + tokens)) {
      preempt(last_in_order(), plan);
    }
    if (find_serial(serial)->running) put_into_plan(*find_serial(serial), tokens, plan);
  }

  for (const Piece& piece : plan.pieces) cache_content(*find_serial(piece.slot), piece.computed_before + piece.tokens);

  while (plan.preempted.empty() && first_waiting() != 0) {
    Request& request = *find_serial(first_waiting());
    const std::int64_t budget = limits_.max_num_batched_tokens - tokens_of(plan);
    if (budget == 0 || static_cast<std::int64_t>(admitted_.size()) == limits_.max_num_seqs) break;
    if (!request.in_steps.empty()) break;
    if (!start(request, budget, plan)) break;
  }

  if (plan.pieces.empty()) return false;
  for (const Piece& piece : plan.pieces) {
    if (piece.decode) {
      plan.decode_sequences += 1;
      plan.decode_kv_tokens += piece.computed_before;
    } else {
      plan.prefill_tokens += piece.tokens;
    }
    if (piece.samples) plan.sampled_sequences += 1;
  }
  plan.step = ++step_;
  ++steps_out_;
  return true;
}

void ReferenceScheduler::finish_step(Instant, const StepPlan& plan, std::span<const RequestId> stopped,
                                     std::vector<RequestId>& finished) {
  --steps_out_;
  for (const Piece& piece : plan.pieces) {
    Request* request = find_serial(piece.slot);
    if (!request) continue;  // aborted
    std::erase(request->in_steps, plan.step);
    if (request->running) request->computed += piece.tokens;
    if (!piece.samples) continue;
    request->emitted += 1;
    if (!request->running) request->emitted_at_start = request->emitted;
    const bool stop = std::find(stopped.begin(), stopped.end(), piece.id) != stopped.end();
    if (stop || request->emitted == request->max_tokens) {
      finished.push_back(request->id);
      remove(request->serial);
    }
  }
}

bool ReferenceScheduler::same_decodes(const StepPlan& a, const StepPlan& b) {
  if (!b.preempted.empty() || a.pieces.size() != b.pieces.size()) return false;
  for (std::size_t i = 0; i < a.pieces.size(); ++i) {
    if (a.pieces[i].slot != b.pieces[i].slot || !a.pieces[i].decode || !b.pieces[i].decode) return false;
  }
  return true;
}

std::int64_t ReferenceScheduler::steps_alike(const StepPlan& plan) const {
  // A jump is only offered for all that runs, in the only step out.
  if (steps_out_ != 1 || plan.pieces.size() != admitted_.size()) return 1;
  ReferenceScheduler future = *this;
  StepPlan current = plan;
  for (std::int64_t steps = 1;; ++steps) {
    StepPlan beside, next;
    std::vector<RequestId> finished;
    // During its last step, too, there must be nothing to put beside it.
    if (future.schedule({}, beside) || !beside.preempted.empty()) return std::max<std::int64_t>(1, steps - 1);
    future.finish_step({}, current, {}, finished);
    if (!finished.empty() || !future.schedule({}, next) || !same_decodes(current, next)) return steps;
    current = next;
  }
}

void ReferenceScheduler::finish_steps(Instant now, const StepPlan& plan, std::int64_t steps,
                                      std::vector<RequestId>& finished) {
  StepPlan current = plan;
  for (std::int64_t i = 1; i < steps; ++i) {
    finish_step(now, current, {}, finished);
    MUSTER_CHECK(finished.empty(), "somebody finished inside a jump");
    schedule(now, current);
  }
  finish_step(now, current, {}, finished);
}

SchedulerState ReferenceScheduler::state() const {
  SchedulerState state;
  state.kv_blocks_total = limits_.kv_blocks;
  state.kv_blocks_used = limits_.kv_blocks - static_cast<std::int64_t>(free_blocks_.size());
  state.preemptions = preemptions_;
  state.prefix_tokens_queried = prefix_tokens_queried_;
  state.prefix_tokens_hit = prefix_tokens_hit_;
  for (const Request& request : requests_) {
    (request.running ? state.running : state.waiting) += 1;
    state.prompt_tokens_waiting += std::max<std::int64_t>(0, request.to_prefill() - request.computed);
  }
  return state;
}

// Every block is free or held, and only shared blocks are held twice.
void ReferenceScheduler::check() const {
  std::vector<std::int64_t> seen = free_blocks_;
  for (const Request& request : requests_) {
    seen.insert(seen.end(), request.blocks.begin(), request.blocks.end());
    MUSTER_CHECK(request.running || request.blocks.empty(), "request {} waits with KV blocks", request.id.value);
    const bool listed = std::find(admitted_.begin(), admitted_.end(), request.serial) != admitted_.end();
    MUSTER_CHECK(listed == request.running, "request {} and the running list", request.id.value);
  }
  std::sort(seen.begin(), seen.end());
  if (limits_.prefix_caching) seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  MUSTER_CHECK(static_cast<std::int64_t>(seen.size()) == limits_.kv_blocks, "{} KV blocks", seen.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    MUSTER_CHECK(seen[i] == static_cast<std::int64_t>(i), "KV block {} is missing or doubled", i);
  }
}

}  // namespace muster::sched::testing
