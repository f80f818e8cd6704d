#include "layer_table_timer.h"

#include <algorithm>
#include <map>

#include "muster/files/csv.h"

namespace muster::app {
namespace {

// How often a layer of the dense table runs in one step, in units of decoder layers; 0: once per step.
const std::map<std::string, int>& per_layer() {
  static const std::map<std::string, int> kCounts = {
      {"embedding", 0},  {"final_layernorm", 0}, {"layernorm", 2},    {"qkv_proj", 1}, {"qk_norm", 1},
      {"rotary_emb", 1}, {"o_proj", 1},          {"gate_up_proj", 1}, {"act_fn", 1},   {"down_proj", 1}};
  return kCounts;
}

// vLLM pads a step of up to 512 tokens to the next captured CUDA graph (config/vllm.py, cudagraph_capture_sizes).
std::int64_t padded(std::int64_t tokens) {
  if (tokens > 512) return tokens;
  for (const std::int64_t small : {1, 2, 4})
    if (tokens <= small) return small;
  const std::int64_t step = tokens <= 256 ? 8 : 16;
  return (tokens + step - 1) / step * step;
}

// layer -> size -> us
using ByLayer = std::map<std::string, std::map<double, double>>;

Result<ByLayer> read_layers(const std::string& path, const char* size) {
  MUSTER_TRY(files::CsvReader csv, files::CsvReader::open(path));
  MUSTER_TRY(const std::size_t layer, csv.need("layer"));
  MUSTER_TRY(const std::size_t count, csv.need(size));
  MUSTER_TRY(const std::size_t time, csv.need("time_us"));
  ByLayer table;
  for (;;) {
    MUSTER_TRY(const bool more, csv.next());
    if (!more) return table;
    MUSTER_TRY(const double n, csv.number(count));
    MUSTER_TRY(const double us, csv.number(time));
    table[std::string(csv.field(layer))][n] = us;
  }
}

Result<NestedTable> read_attention(const std::string& path) {
  MUSTER_TRY(files::CsvReader csv, files::CsvReader::open(path));
  std::vector<std::size_t> columns;
  for (const char* name : {"prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us"}) {
    MUSTER_TRY(const std::size_t column, csv.need(name));
    columns.push_back(column);
  }
  NestedTable table;
  for (;;) {
    MUSTER_TRY(const bool more, csv.next());
    if (!more) return table;
    std::vector<double> row;
    for (const std::size_t column : columns) {
      MUSTER_TRY(const double value, csv.number(column));
      row.push_back(value);
    }
    const double us = row.back();
    row.pop_back();
    table.add(row, us);
  }
}

}  // namespace

void NestedTable::add(const std::vector<double>& point, double value) {
  const auto at = std::ranges::lower_bound(keys_, point.front());
  const auto i = at - keys_.begin();
  const bool found = at != keys_.end() && *at == point.front();
  const bool last = point.size() == 1;
  if (!found) {
    keys_.insert(at, point.front());
    if (last)
      values_.insert(values_.begin() + i, value);
    else
      children_.insert(children_.begin() + i, NestedTable());
  }
  if (last)
    values_[static_cast<std::size_t>(i)] = value;
  else
    children_[static_cast<std::size_t>(i)].add({point.begin() + 1, point.end()}, value);
}

double NestedTable::at(const double* point) const {
  const auto value = [&](std::size_t i) { return children_.empty() ? values_[i] : children_[i].at(point + 1); };
  const double x = point[0];
  const auto above = static_cast<std::size_t>(std::ranges::lower_bound(keys_, x) - keys_.begin());
  if (above < keys_.size() && keys_[above] == x) return value(above);
  if (keys_.size() == 1 || above == 0) return value(0);
  const std::size_t high = std::min(above, keys_.size() - 1), low = high - 1;
  const double a = value(low), b = value(high);
  return std::max(0.0, a + (b - a) * (x - keys_[low]) / (keys_[high] - keys_[low]));
}

Result<LayerTableTimer> LayerTableTimer::read(const std::string& prefix, int layers,
                                              const cost::EngineProfile& engine) {
  LayerTableTimer timer;
  timer.engine_ = engine;
  timer.layers_ = layers;
  MUSTER_TRY(const ByLayer dense, read_layers(prefix + "__dense.csv.gz", "tokens"));
  for (const char* needed : {"qkv_proj", "o_proj", "down_proj"})
    if (!dense.contains(needed)) return fail("{}__dense.csv.gz: no rows of layer {}", prefix, needed);
  std::map<double, double> sum;
  for (const auto& [layer, times] : dense) {
    const auto count = per_layer().find(layer);
    if (count == per_layer().end()) return fail("{}__dense.csv.gz: layer `{}` is not known", prefix, layer);
    const double times_per_step = count->second == 0 ? 1 : count->second * layers;
    for (const auto& [tokens, us] : times) sum[tokens] += times_per_step * us;
  }
  for (const auto& [tokens, us] : sum) timer.tokens_.add({tokens}, us);
  MUSTER_TRY(const ByLayer heads, read_layers(prefix + "__per_sequence.csv.gz", "sequences"));
  std::map<double, double> head;
  for (const auto& [layer, times] : heads)
    for (const auto& [sequences, us] : times) head[sequences] += us;
  for (const auto& [sequences, us] : head) timer.sequences_.add({sequences}, us);
  MUSTER_TRY(timer.attention_, read_attention(prefix + "__attention.csv.gz"));
  if (timer.tokens_.empty() || timer.sequences_.empty() || timer.attention_.empty())
    return fail("{}: a table is empty", prefix);
  return timer;
}

Duration LayerTableTimer::stage_time(int, const cost::StepShape& shape) const {
  std::int64_t tokens = shape.decode_sequences;
  for (const cost::PrefillChunk& chunk : shape.prefills) tokens += chunk.tokens;
  const double n = static_cast<double>(padded(std::max<std::int64_t>(1, tokens)));
  double us = tokens_.at(&n);
  const double sampled = static_cast<double>(shape.sampled_sequences);
  if (sampled > 0) us += sequences_.at(&sampled);
  const auto decodes = static_cast<double>(shape.decode_sequences);
  const double mean_kv = decodes > 0 ? static_cast<double>(shape.decode_kv_tokens) / decodes : 0;
  // The first prompt piece runs in one kernel with the decodes; each further piece adds what it costs on its own.
  double attention_us = 0;
  bool first = true;
  for (const cost::PrefillChunk& chunk : shape.prefills) {
    const double point[] = {static_cast<double>(chunk.tokens), static_cast<double>(chunk.prefix), first ? decodes : 0,
                            first ? mean_kv : 0};
    attention_us += attention_.at(point);
    first = false;
  }
  if (first && decodes > 0) {
    const double point[] = {0, 0, decodes, mean_kv};
    attention_us += attention_.at(point);
  }
  const double device = (us + layers_ * attention_us) * 1e-6;
  const double sequences = decodes + static_cast<double>(shape.prefills.size());
  const double host = to_seconds(engine_.host_fixed) + to_seconds(engine_.host_per_sequence) * sequences;
  const double serial =
      to_seconds(engine_.host_serial_fixed) + to_seconds(engine_.host_serial_per_sequence) * sequences;
  const double together = engine_.asynchronous_scheduling ? std::max(device, host) : device + host;
  return std::max(Duration(1), from_seconds(together + serial));
}

}  // namespace muster::app
