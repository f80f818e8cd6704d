#include "muster/workload/trace.h"

#include <algorithm>

namespace muster::workload {

std::span<const std::uint64_t> content_blocks(const Trace& trace, const Request& request) {
  if (trace.block_tokens <= 0 || request.block_count == 0) return {};
  const std::int64_t block = trace.block_tokens;
  const std::int64_t of_prompt = (request.input_tokens + block - 1) / block;
  const bool has_answer = request.block_count > of_prompt;
  const std::int64_t known =
      has_answer ? std::int64_t{request.input_tokens} + request.output_tokens : std::int64_t{request.input_tokens};
  const std::int64_t whole = std::min<std::int64_t>(request.block_count, known / block);
  return std::span(trace.block_ids).subspan(request.first_block, static_cast<std::size_t>(whole));
}

}  // namespace muster::workload
