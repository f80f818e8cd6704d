#include "trace_builder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "muster/core/text.h"
#include "muster/files/number.h"
#include "sort.h"

namespace muster::workload {
namespace {

constexpr std::size_t kRequestsMax = std::size_t{1} << 31;

// The number of tokens per prefix block that explains most requests by blocks = ceil(input / size), or, where the
// answers' blocks are known too, ceil((input + output) / size): Mooncake hashes blocks of 512 tokens, Qwen-Bailian
// of 16.
int infer_block_tokens(const Trace& trace) {
  int best = 512;
  std::uint64_t best_explained = 0;
  for (const bool answers : {false, true})
    for (int size = 1; size <= 65536; size *= 2) {
      std::uint64_t explained = 0;
      for (const Request& r : trace.requests) {
        const std::int64_t tokens = std::int64_t{r.input_tokens} + (answers ? r.output_tokens : 0);
        explained += r.block_count > 0 && (tokens + size - 1) / size == std::int64_t{r.block_count} ? 1 : 0;
      }
      if (explained > best_explained || (explained == best_explained && explained > 0 && !answers && size == 512)) {
        best = size;
        best_explained = explained;
      }
    }
  return best;
}

}  // namespace

TraceBuilder::TraceBuilder(std::string source, Names names, TimeColumn times, bool zero_output_is_failure)
    : names_(std::move(names)), times_(times), zero_output_is_failure_(zero_output_is_failure) {
  trace_.source = std::move(source);
}

std::string TraceBuilder::add(const Row& row) {
  const auto input = files::parse_integer(row.input);
  if (!input || *input < 0 || *input > kTokensMax)
    return fmt::format("{} {}: found {}; an integer from 0 to {} is needed", names_.unit, names_.input,
                       files::shown(row.input), kTokensMax);
  const auto output = files::parse_integer(row.output);
  if (!output || *output < 0 || *output > kTokensMax)
    return fmt::format("{} {}: found {}; an integer from 0 to {} is needed", names_.unit, names_.output,
                       files::shown(row.output), kTokensMax);
  const auto arrival = times_.parse(row.arrival);
  if (!arrival || *arrival < 0)
    return fmt::format("{} {}: found {}; {} is needed", names_.unit, names_.arrival, files::shown(row.arrival),
                       times_.since_epoch() ? "a date or time like the first row's" : "a finite time of 0 or more");
  if (*output == 0 && zero_output_is_failure_) {
    ++trace_.skipped_failures;
    return {};
  }
  if (trace_.requests.size() >= kRequestsMax) return "more than 2^31 requests";

  Request request;
  request.arrival = Duration(*arrival);
  request.input_tokens = static_cast<std::int32_t>(std::max<std::int64_t>(*input, 1));
  request.output_tokens = static_cast<std::int32_t>(std::max<std::int64_t>(*output, 1));
  trace_.repaired_lengths += (*input == 0 ? 1u : 0u) + (*output == 0 ? 1u : 0u);
  if (row.tenant || !trace_.tenants.empty()) {
    if (trace_.tenants.empty() && !trace_.requests.empty()) tenant("");  // of the rows before: index 0
    const auto index = tenant(row.tenant.value_or(""));
    if (!index) return "more than 65535 tenants";
    request.tenant = *index;
  }
  if (std::string problem = add_turn(row, request); !problem.empty()) return problem;
  if (!row.blocks.empty()) {
    std::string problem = add_blocks(row.blocks, request);
    if (!problem.empty()) return problem;
  }
  trace_.repaired_order += *arrival < last_arrival_ ? 1 : 0;
  last_arrival_ = std::max(last_arrival_, *arrival);
  trace_.requests.push_back(request);
  return {};
}

std::string TraceBuilder::add_turn(const Row& row, Request& request) {
  if (!row.think.empty()) {
    const auto think_ns = parse_decimal_ns(row.think, 9);
    if (!think_ns || *think_ns < 0)
      return fmt::format("{} {}: found {}; seconds of 0 or more are needed", names_.unit, names_.think,
                         files::shown(row.think));
    request.think = Duration(*think_ns);
  }
  if (row.session.empty()) return {};
  const auto next = static_cast<std::uint32_t>(sessions_.size());  // under 2^31, as the requests are
  request.session = sessions_.try_emplace(std::string(row.session), next).first->second;
  return {};
}

std::string TraceBuilder::add_blocks(std::string_view text, Request& request) {
  const std::size_t first = trace_.block_ids.size();
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    while (at != end && *at == ' ') ++at;
    if (at == end) break;
    std::uint64_t id = 0;
    const auto [after, code] = std::from_chars(at, end, id);
    if (code != std::errc() || (after != end && *after != ' '))
      return fmt::format("{} {}: found {}; block ids (whole numbers) with blanks between are needed", names_.unit,
                         names_.blocks, files::shown({at, static_cast<std::size_t>(end - at)}));
    trace_.block_ids.push_back(id);
    at = after;
  }
  if (trace_.block_ids.size() > std::numeric_limits<std::uint32_t>::max()) return "more than 2^32 prefix blocks";
  request.first_block = static_cast<std::uint32_t>(first);
  request.block_count = static_cast<std::uint32_t>(trace_.block_ids.size() - first);
  return {};
}

std::optional<std::uint16_t> TraceBuilder::tenant(std::string_view name) {
  const auto [at, added] = tenants_.try_emplace(std::string(name), static_cast<std::uint16_t>(trace_.tenants.size()));
  if (!added) return at->second;
  if (trace_.tenants.size() >= std::numeric_limits<std::uint16_t>::max()) return std::nullopt;
  trace_.tenants.emplace_back(name);
  return at->second;
}

Result<Trace> TraceBuilder::finish() && {
  if (trace_.requests.empty()) {
    if (trace_.skipped_failures > 0)
      return fail("{}: all {} rows are failures without a response; requests are needed", trace_.source,
                  trace_.skipped_failures);
    return fail("{}: no requests; at least one row is needed", trace_.source);
  }
  if (trace_.repaired_order > 0) sort_by_arrival(trace_.requests);
  if (times_.since_epoch()) {
    const Duration start = trace_.requests.front().arrival;
    for (Request& r : trace_.requests) r.arrival -= start;
  }
  if (!trace_.block_ids.empty()) trace_.block_tokens = infer_block_tokens(trace_);
  return std::move(trace_);
}

}  // namespace muster::workload
