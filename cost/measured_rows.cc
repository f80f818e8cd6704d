#include "measured_rows.h"

#include <algorithm>

#include "muster/core/check.h"
#include "muster/files/csv.h"

namespace muster::cost {
namespace {

// A table with optional text columns and required numbers.
class Table {
 public:
  static Result<Table> open(const std::string& path) {
    MUSTER_TRY(files::CsvReader csv, files::CsvReader::open(path));
    return Table(std::move(csv));
  }
  Result<bool> next() { return csv_.next(); }
  // Empty when the column was constant and therefore left out.
  std::string text(std::string_view column) const {
    const auto at = csv_.find(column);
    return at ? std::string(csv_.field(*at)) : std::string();
  }
  Result<double> number(std::string_view column) const {
    MUSTER_TRY(const std::size_t at, csv_.need(column));
    return csv_.number(at);
  }
  // `otherwise` when the column was left out.
  Result<double> number_or(std::string_view column, double otherwise) const {
    const auto at = csv_.find(column);
    if (!at) return otherwise;
    return csv_.number(*at);
  }
  Result<double> seconds() const {
    MUSTER_TRY(const double us, number("latency_us"));
    if (us <= 0) return fail("{}: latency_us is {}, must be positive", csv_.where(), us);
    return us * 1e-6;
  }

 private:
  explicit Table(files::CsvReader csv) : csv_(std::move(csv)) {}
  files::CsvReader csv_;
};

std::string kv_format(const std::string& text) {
  return text == "fp8" ? "fp8" : "bf16";
}
double kv_bytes(const std::string& format) {
  return format == "fp8" ? 1 : 2;
}

Observation observe(const Ideal& ideal, double launch_s, double seconds) {
  return {
      .coordinates = {}, .reference_s = launch_s + ideal.bound_s(), .measured_s = seconds, .ideal_s = ideal.bound_s()};
}

// The combinations that models are served in; the others borrow from the nearest.
bool has_attention_grid(double head_dim, const std::string& kv) {
  return head_dim == 128 || ((head_dim == 64 || head_dim == 256) && kv == "bf16");
}
bool has_mla_grid(const std::string& weights, const std::string& kv) {
  return weights == "fp8_block" || (weights == "bf16" && kv == "bf16") || (weights == "nvfp4" && kv == "fp8");
}

// DeepSeek-V3, the model whose attention block the MLA module tables measure.
MlaShape deepseek_v3(double heads, double kv_element_bytes) {
  return {.hidden = 7168,
          .heads = heads,
          .q_lora_rank = 1536,
          .kv_lora_rank = 512,
          .rope_dim = 64,
          .nope_dim = 128,
          .v_dim = 128,
          .kv_bytes = kv_element_bytes};
}

// Rows of one kernel of which even the smallest GEMM takes this long were timed outside a graph: they hold the launch
// by the host, which a captured step does not pay.
constexpr double kHostBound_s = 30e-6;

// Low-precision rows were timed with the kernels that quantise the activations; how many and how slow shows in the
// fastest row against the fastest 16-bit one. Serving engines fuse that with the kernel before (norm or activation),
// which leaves about this much. vLLM does not for NVFP4.
constexpr double kFusedQuantise_s = 2e-6;

double fastest(const std::vector<Observation>& rows) {
  double least = rows.front().measured_s;
  for (const Observation& row : rows) least = std::min(least, row.measured_s);
  return least;
}

void remove_separate_quantisation(KeyedObservations& rows, const std::string& framework) {
  const auto plain = rows.find("bf16");
  if (plain == rows.end()) return;
  for (const char* key : {"fp8", "fp8_block", "nvfp4"}) {
    const auto narrow = rows.find(key);
    if (narrow == rows.end() || (narrow->first == "nvfp4" && framework == "vllm")) continue;
    const double excess = fastest(narrow->second) - fastest(plain->second) - kFusedQuantise_s;
    if (excess <= 0) continue;
    for (Observation& row : narrow->second) row.measured_s -= excess;
  }
}

// The host-bound limit for whole MLA blocks, of which a Hopper device needs about 35 us at the least.
constexpr double kMlaHostBound_s = 60e-6;

KeyedObservations without_host_bound_mla(KeyedObservations rows) {
  std::erase_if(rows, [](const auto& entry) { return fastest(entry.second) > kMlaHostBound_s; });
  return rows;
}

KeyedObservations without_host_bound(
    const std::map<std::pair<std::string, std::string>, std::vector<Observation>>& by_kernel,
    const std::string& framework) {
  KeyedObservations out;
  for (const auto& [key, rows] : by_kernel) {
    if (fastest(rows) > kHostBound_s) continue;
    std::vector<Observation>& all = out[key.first];
    all.insert(all.end(), rows.begin(), rows.end());
  }
  remove_separate_quantisation(out, framework);
  return out;
}

}  // namespace

Result<KeyedObservations> read_gemm(const MeasuredTable& measured) {
  MUSTER_TRY(Table table, Table::open(measured.path));
  const DeviceRates& rates = measured.rates;
  std::map<std::pair<std::string, std::string>, std::vector<Observation>> by_kernel;
  while (true) {
    MUSTER_TRY(const bool more, table.next());
    if (!more) return without_host_bound(by_kernel, measured.framework);
    const WeightFormat format = weight_format(table.text("gemm_dtype"));
    if (format.key.empty()) continue;
    const std::string kernel = table.text("kernel_source");
    // Irregular sizes fall back to another kernel; no model's layer has them.
    if (kernel.find("CutlassFp8Block") != std::string::npos) continue;
    MUSTER_TRY(const double m, table.number("m"));
    MUSTER_TRY(const double n, table.number("n"));
    MUSTER_TRY(const double k, table.number("k"));
    MUSTER_TRY(const double seconds, table.seconds());
    Observation o = observe(ideal_gemm(rates, format, {.n = n, .k = k}, m), kGemmLaunch_s, seconds);
    o.coordinates = {m, n, k};
    by_kernel[{format.key, kernel}].push_back(o);
  }
}

Result<KeyedObservations> read_context_attention(const MeasuredTable& measured) {
  MUSTER_TRY(Table table, Table::open(measured.path));
  const DeviceRates& rates = measured.rates;
  KeyedObservations out;
  while (true) {
    MUSTER_TRY(const bool more, table.next());
    if (!more) return out;
    MUSTER_TRY(const double window, table.number_or("window_size", 0));
    if (window > 0) continue;
    const std::string kv = kv_format(table.text("kv_cache_dtype"));
    // With an FP8 cache TensorRT-LLM also multiplies in FP8; the rows that mix formats have no deployment.
    if (const std::string attention = table.text("attn_dtype"); !attention.empty() && kv_format(attention) != kv)
      continue;
    MUSTER_TRY(const double batch, table.number("batch_size"));
    MUSTER_TRY(const double isl, table.number("isl"));
    MUSTER_TRY(const double heads, table.number("num_heads"));
    MUSTER_TRY(const double kv_heads, table.number("num_key_value_heads"));
    MUSTER_TRY(const double head_dim, table.number_or("head_dim", 128));
    if (!has_attention_grid(head_dim, kv)) continue;
    MUSTER_TRY(const double seconds, table.seconds());
    const AttentionShape shape{
        .heads = heads, .kv_heads = kv_heads, .head_dim = head_dim, .window = 0, .kv_bytes = kv_bytes(kv)};
    PrefillWork work;
    for (int i = 0; i < static_cast<int>(batch); ++i) add_piece(work, isl, 0, 0);
    Observation o = observe(ideal_prefill(rates, shape, work), kAttentionLaunch_s, seconds);
    o.coordinates = {work.square_length(), batch * heads, shape.group()};
    out[fmt::format("hd{:.0f} kv {}", head_dim, kv)].push_back(o);
  }
}

Result<KeyedObservations> read_generation_attention(const MeasuredTable& measured) {
  MUSTER_TRY(Table table, Table::open(measured.path));
  const DeviceRates& rates = measured.rates;
  KeyedObservations out;
  while (true) {
    MUSTER_TRY(const bool more, table.next());
    if (!more) return out;
    MUSTER_TRY(const double window, table.number_or("window_size", 0));
    if (window > 0) continue;
    const std::string kv = kv_format(table.text("kv_cache_dtype"));
    MUSTER_TRY(const double batch, table.number("batch_size"));
    MUSTER_TRY(const double step, table.number("step"));
    MUSTER_TRY(const double heads, table.number("num_heads"));
    MUSTER_TRY(const double kv_heads, table.number("num_key_value_heads"));
    MUSTER_TRY(const double head_dim, table.number_or("head_dim", 128));
    if (!has_attention_grid(head_dim, kv)) continue;
    MUSTER_TRY(const double seconds, table.seconds());
    const AttentionShape shape{
        .heads = heads, .kv_heads = kv_heads, .head_dim = head_dim, .window = 0, .kv_bytes = kv_bytes(kv)};
    const double length = step + 1;  // cached tokens and the new one
    Observation o = observe(ideal_decode(rates, shape, batch, batch * length), kAttentionLaunch_s, seconds);
    o.coordinates = {length, batch * kv_heads, shape.group()};
    out[fmt::format("hd{:.0f} kv {}", head_dim, kv)].push_back(o);
  }
}

Result<KeyedObservations> read_mla_context_module(const MeasuredTable& measured) {
  MUSTER_TRY(Table table, Table::open(measured.path));
  const DeviceRates& rates = measured.rates;
  KeyedObservations out;
  while (true) {
    MUSTER_TRY(const bool more, table.next());
    if (!more) return without_host_bound_mla(std::move(out));
    const WeightFormat format = weight_format(table.text("gemm_type"));
    const std::string kv = kv_format(table.text("kv_cache_dtype"));
    if (format.key.empty() || !has_mla_grid(format.key, kv)) continue;
    MUSTER_TRY(const double batch, table.number("batch_size"));
    MUSTER_TRY(const double isl, table.number("isl"));
    MUSTER_TRY(const double heads, table.number("num_heads"));
    MUSTER_TRY(const double seconds, table.seconds());
    PrefillWork work;
    for (int i = 0; i < static_cast<int>(batch); ++i) add_piece(work, isl, 0, 0);
    Observation o =
        observe(ideal_mla_prefill(rates, format, deepseek_v3(heads, kv_bytes(kv)), work), kMlaLaunch_s, seconds);
    o.coordinates = {work.square_length(), batch, heads};
    out[fmt::format("{} kv {}", format.key, kv)].push_back(o);
  }
}

Result<KeyedObservations> read_mla_generation_module(const MeasuredTable& measured) {
  MUSTER_TRY(Table table, Table::open(measured.path));
  const DeviceRates& rates = measured.rates;
  KeyedObservations out;
  while (true) {
    MUSTER_TRY(const bool more, table.next());
    if (!more) return without_host_bound_mla(std::move(out));
    const WeightFormat format = weight_format(table.text("gemm_type"));
    const std::string kv = kv_format(table.text("kv_cache_dtype"));
    if (format.key.empty() || !has_mla_grid(format.key, kv)) continue;
    MUSTER_TRY(const double batch, table.number("batch_size"));
    MUSTER_TRY(const double step, table.number("step"));
    MUSTER_TRY(const double heads, table.number("num_heads"));
    MUSTER_TRY(const double seconds, table.seconds());
    const MlaShape shape = deepseek_v3(heads, kv_bytes(kv));
    Observation o = observe(ideal_mla_decode(rates, format, shape, batch, batch * step), kMlaLaunch_s, seconds);
    o.coordinates = {step, batch, heads};
    out[fmt::format("{} kv {}", format.key, kv)].push_back(o);
  }
}

Result<KeyedObservations> read_moe(const MeasuredTable& measured) {
  MUSTER_TRY(Table table, Table::open(measured.path));
  const DeviceRates& rates = measured.rates;
  KeyedObservations out;
  while (true) {
    MUSTER_TRY(const bool more, table.next());
    if (!more) return out;
    // Real routers are uneven: the mildly skewed distribution stands for them.
    if (table.text("distribution") != "power_law_1.01") continue;
    // Two-matrix experts, and a kernel that is chosen for small batches only, have tables under the same name.
    const std::string kernel = table.text("kernel_source");
    if (kernel.find("nongated") != std::string::npos || kernel.find("min_latency") != std::string::npos) continue;
    if (kernel.find("w4a4mxfp4moe_marlin") != std::string::npos) continue;  // not what gpt-oss runs on
    const WeightFormat format = weight_format(table.text("moe_dtype"));
    if (format.key.empty()) continue;
    MUSTER_TRY(const double tokens, table.number("num_tokens"));
    MUSTER_TRY(const double hidden, table.number("hidden_size"));
    MUSTER_TRY(const double width, table.number("inter_size"));
    MUSTER_TRY(const double top_k, table.number("topk"));
    MUSTER_TRY(const double experts, table.number("num_experts"));
    MUSTER_TRY(const double tp, table.number("moe_tp_size"));
    MUSTER_TRY(const double ep, table.number("moe_ep_size"));
    MUSTER_TRY(const double seconds, table.seconds());
    const MoeShape shape{.hidden = hidden,
                         .columns = width / tp,
                         .experts = experts,
                         .experts_here = experts / ep,
                         .top_k = top_k,
                         .matrices = 3};
    Observation o = observe(ideal_moe(rates, format, shape, tokens), kMoeLaunch_s, seconds);
    o.ideal_s = 0;  // skewed routing may touch fewer experts than the expectation behind the roofline
    // Whole experts over ranks: the rank with the popular ones sets the time, so such rows have a grid of their own.
    o.coordinates = {shape.rows_per_expert(tokens), shape.columns, shape.experts_here, ep > 1 ? ep : hidden};
    out[ep > 1 ? format.key + " ep" : format.key].push_back(o);
  }
}

Result<KeyedObservations> read_custom_all_reduce(const MeasuredTable& measured) {
  MUSTER_TRY(Table table, Table::open(measured.path));
  const DeviceRates& rates = measured.rates;
  KeyedObservations out;
  while (true) {
    MUSTER_TRY(const bool more, table.next());
    if (!more) return out;
    MUSTER_TRY(const double ranks, table.number("num_gpus"));
    MUSTER_TRY(const double elements, table.number("message_size"));
    MUSTER_TRY(const double seconds, table.seconds());
    const double bytes = elements * 2;  // the tables hold bfloat16 messages
    Observation o = observe(ideal_all_reduce(rates, bytes, ranks), kCollectiveLaunch_s, seconds);
    o.coordinates = {bytes, ranks};
    out[table.text("backend").find("eager") != std::string::npos ? "eager" : "graph"].push_back(o);
  }
}

Result<KeyedObservations> read_nccl(const MeasuredTable& measured) {
  MUSTER_TRY(Table table, Table::open(measured.path));
  const DeviceRates& rates = measured.rates;
  KeyedObservations out;
  while (true) {
    MUSTER_TRY(const bool more, table.next());
    if (!more) return out;
    if (table.text("nccl_dtype") != "half" || table.text("op_name") != "all_gather") continue;
    MUSTER_TRY(const double ranks, table.number("num_gpus"));
    MUSTER_TRY(const double elements, table.number("message_size"));
    MUSTER_TRY(const double seconds, table.seconds());
    const double bytes = elements * 2;
    Observation o = observe(ideal_all_gather(rates, bytes, ranks), kCollectiveLaunch_s, seconds);
    o.coordinates = {bytes, ranks};
    out["nccl"].push_back(o);
  }
}

}  // namespace muster::cost
