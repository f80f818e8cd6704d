#include "startup_log.h"

#include <algorithm>
#include <array>

#include "muster/core/text.h"
#include "muster/files/number.h"

namespace muster::app {
namespace {

constexpr int kUsualBlockTokens = 16;  // vllm/config/cache.py, CacheConfig.block_size on CUDA

// The number right behind `phrase` ("took 14.99 GiB", "476,016 tokens"); blanks, quotes and thousands' commas allowed.
std::optional<double> number_after(std::string_view line, std::string_view phrase) {
  const std::size_t at = line.find(phrase);
  if (at == std::string_view::npos) return std::nullopt;
  std::size_t i = at + phrase.size();
  while (i < line.size() && (line[i] == ' ' || line[i] == '\'' || line[i] == '=' || line[i] == ':')) ++i;
  std::string digits;
  for (; i < line.size(); ++i) {
    const char c = line[i];
    const bool digit = c >= '0' && c <= '9';
    if (digit || (c == '.' && i + 1 < line.size() && line[i + 1] >= '0' && line[i + 1] <= '9') ||
        (c == '-' && digits.empty()))
      digits += c;
    else if (!(c == ',' && i + 3 < line.size() && !digits.empty() &&
               std::all_of(&line[i + 1], &line[i + 4], [](char d) { return d >= '0' && d <= '9'; })))
      break;
  }
  return files::parse_number(digits);
}

// key='value' or key=value of the line that prints the configuration.
std::string setting(std::string_view line, std::string_view key) {
  std::size_t at = 0;
  while ((at = line.find(key, at)) != std::string_view::npos) {
    const bool starts = at == 0 || line[at - 1] == ' ' || line[at - 1] == ',' || line[at - 1] == '(';
    std::size_t i = at + key.size();
    if (starts && i < line.size() && line[i] == '=') {
      ++i;
      if (i < line.size() && line[i] == '\'') ++i;
      const std::size_t end = line.find_first_of("',) ", i);
      return std::string(line.substr(i, end == std::string_view::npos ? line.size() - i : end - i));
    }
    at = i;
  }
  return {};
}

void keep_largest(std::optional<double>& kept, std::optional<double> found) {
  if (found && (!kept || *found > *kept)) kept = found;
}
template <class T>
void keep_smallest(std::optional<T>& kept, std::optional<double> found) {
  if (!found || *found < 0) return;
  const auto value = static_cast<T>(*found);
  if (!kept || value < *kept) kept = value;
}
std::optional<int> whole(const std::string& text) {
  const auto value = files::parse_integer(text);
  return value && *value > 0 && *value < 1'000'000'000 ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

std::optional<double> first_of(std::string_view line, std::initializer_list<std::string_view> phrases) {
  for (const std::string_view phrase : phrases)
    if (const auto found = number_after(line, phrase)) return found;
  return std::nullopt;
}

void read_settings(std::string_view line, StartupLog& log) {
  if (const std::size_t at = line.find("engine (v"); at != std::string_view::npos)
    log.version = std::string(line.substr(at + 9, line.find(')', at) - at - 9));
  const auto text = [&](std::string& to, std::string_view key) {
    if (const std::string found = setting(line, key); !found.empty() && found != "None") to = found;
  };
  text(log.model, "model");
  text(log.dtype, "dtype");
  text(log.quantization, "quantization");
  text(log.kv_cache_dtype, "kv_cache_dtype");
  if (log.dtype.starts_with("torch.")) log.dtype.erase(0, 6);
  const auto number = [&](std::optional<int>& to, std::string_view key) {
    if (const auto found = whole(setting(line, key))) to = found;
  };
  number(log.tp, "tensor_parallel_size");
  number(log.pp, "pipeline_parallel_size");
  number(log.max_model_len, "max_seq_len");
  number(log.block_tokens, "block_size");
  if (const auto found = files::parse_number(setting(line, "gpu_memory_utilization"))) log.memory_fraction = found;
}

}  // namespace

std::optional<std::int64_t> StartupLog::blocks() const {
  if (kv_blocks) return kv_blocks;
  if (!kv_tokens) return std::nullopt;
  return *kv_tokens / block_tokens.value_or(kUsualBlockTokens);
}

Result<StartupLog> parse_startup_log(std::string_view text, const std::string& name) {
  StartupLog log;
  std::size_t lines = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++lines;
    read_settings(line, log);
    // "Model loading took 14.99 GiB memory and 3.1 seconds"; "weights take 14.99GiB"; "weights memory: 14.99GiB".
    keep_largest(log.weights_gib, first_of(line, {"Model loading took", "Loading model weights took",
                                                  "model weights take", "weights memory:"}));
    keep_largest(log.activation_gib,
                 first_of(line, {"PyTorch activation peak memory takes", "torch peak memory increase:"}));
    keep_largest(log.non_torch_gib, first_of(line, {"non_torch_memory takes", "non-torch forward increase memory:"}));
    if (line.find("Graph capturing finished") != std::string_view::npos)
      keep_largest(log.graph_gib, number_after(line, "took"));
    keep_smallest(log.kv_gib, first_of(line, {"Available KV cache memory:", "memory reserved for KV Cache is"}));
    keep_smallest(log.kv_tokens, number_after(line, "GPU KV cache size:"));
    keep_smallest(log.kv_blocks, first_of(line, {"# GPU blocks:", "# cuda blocks:", "num_gpu_blocks is:"}));
  }
  if (!log.blocks() || *log.blocks() == 0)
    return fail(
        "{}: {} lines, and none says `GPU KV cache size: N tokens` or `# GPU blocks: N`; needed is the whole start-up "
        "log "
        "of a vLLM server that got ready",
        name, lines);
  return log;
}

}  // namespace muster::app
