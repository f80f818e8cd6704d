// Reads what a vLLM server says about its memory while it starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "muster/core/result.h"

namespace muster::app {

// GiB per GPU, as the engine prints them. Under tensor or pipeline parallelism every worker prints its own figures: the
// largest weights, activation, non-torch and graph memory and the smallest KV memory count.
struct StartupLog {
  std::string version, model, dtype, quantization, kv_cache_dtype;  // empty: not in the log
  std::optional<int> tp, pp, max_model_len, block_tokens;
  std::optional<double> memory_fraction, weights_gib, activation_gib, non_torch_gib, graph_gib, kv_gib;
  std::optional<std::int64_t> kv_tokens, kv_blocks;

  // From the blocks, or from the tokens and the block size (16 where the log does not say).
  std::optional<std::int64_t> blocks() const;
};

// Lines of vLLM 0.4 to 0.2x; other lines are passed over. Fails when the text says neither how many KV blocks nor how
// many KV tokens there are (the server did not get that far, or it is another engine's log). `name` is for messages.
Result<StartupLog> parse_startup_log(std::string_view text, const std::string& name);

}  // namespace muster::app
