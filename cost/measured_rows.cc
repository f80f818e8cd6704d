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

std::string kv_format(const std::string& text) { return text == "fp8" ? "fp8" : "bf16"; }
double kv_bytes(const std::string& format) { return format == "fp8" ? 1 : 2; }

Observation observe(const Ideal& ideal, double launch_s, double seconds) {
  return {.coordinates = {}, .reference_s = launch_s + ideal.bound_s(), .measured_s = seconds, .ideal_s = ideal.bound_s()};
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

// Rows of one kernel of which even the smallest GEMM takes this long were timed outside a graph: they hold the launch by the
// host, which a captured step does not pay.
constexpr double kHostBound_s = 30e-6;

KeyedObservations without_host_bound(
    const std::map<std::pair<std::string, std::string>, std::vector<Observation>>& by_kernel) {
  KeyedObservations out;
  for (const auto& [key, rows] : by_kernel) {
    const auto faster = [](const Observation& a, const Observation& b) { return a.measured_s < b.measured_s; };
    if (std::min_element(rows.begin(), rows.end(), faster)->measured_s > kHostBound_s) continue;
    std::vector<Observation>& all = out[key.first];
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return out;
}

}  // namespace

Result<KeyedObservations> read_gemm(const std::string& path, const DeviceRates& rates) {
  MUSTER_TRY(Table table, Table::open(path));
  std::map<std::pair<std::string, std::string>, std::vector<Observation>> by_kernel;
  while (true) {
    MUSTER_TRY(const bool more, table.next());
    if (!more) return without_host_bound(by_kernel);
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

Result<KeyedObservations> read_context_attention(const std::string& path, const DeviceRates& rates) {
  MUSTER_TRY(Table table, Table::open(path));
  KeyedObservations out;
  while (true) {
    MUSTER_TRY(const bool more, table.next());
    if (!more) return out;
    MUSTER_TRY(const double window, table.number_or("window_size", 0));
    if (window > 0) continue;
    const std::string kv = kv_format(table.text("kv_cache_dtype"));
    if (table.text("attn_dtype") == "fp8" && kv != "fp8") continue;
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

Result<KeyedObservations> read_generation_attention(const std::string& path, const DeviceRates& rates) {
  MUSTER_TRY(Table table, Table::open(path));
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

Result<KeyedObservations> read_mla_context_module(const std::string& path, const DeviceRates& rates) {
  MUSTER_TRY(Table table, Table::open(path));
  KeyedObservations out;
  while (true) {
    MUSTER_TRY(const bool more, table.next());
    if (!more) return out;
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

Result<KeyedObservations> read_mla_generation_module(const std::string& path, const DeviceRates& rates) {
  MUSTER_TRY(Table table, Table::open(path));
  KeyedObservations out;
  while (true) {
    MUSTER_TRY(const bool more, table.next());
    if (!more) return out;
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

Result<KeyedObservations> read_moe(const std::string& path, const DeviceRates& rates) {
  MUSTER_TRY(Table table, Table::open(path));
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

Result<KeyedObservations> read_custom_all_reduce(const std::string& path, const DeviceRates& rates) {
  MUSTER_TRY(Table table, Table::open(path));
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

Result<KeyedObservations> read_nccl(const std::string& path, const DeviceRates& rates) {
  MUSTER_TRY(Table table, Table::open(path));
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

namespace {

std::vector<double> octaves(double from, double to) {
  std::vector<double> knots;
  for (double x = from; x <= to; x *= 2) knots.push_back(x);
  return knots;
}

}  // namespace

Grid grid_of(const std::string& op, const std::string& key) {
  Grid grid;
  grid.op = op;
  grid.key = key;
  const std::vector<double> ranks{2, 4, 8};
  if (op == "gemm") {
    grid.launch_s = kGemmLaunch_s;
    // FP8 kernels step at the edges of their tiles of 64, 128 and 256 rows.
    // FP8 kernels step at the edges of their tiles of 64, 128 and 256 rows; below 18 rows vLLM calls another one.
    grid.axes = {{"m", {1, 17, 32, 64, 65, 128, 129, 192, 256, 257, 512, 768, 1024, 2048, 4096, 8192, 32768}},
                 {"n", {128, 512, 1024, 2048, 4096, 8192, 16384, 65536}},
                 {"k", {128, 512, 1024, 2048, 4096, 8192, 16384, 65536}}};
  } else if (op == "prefill") {
    grid.launch_s = kAttentionLaunch_s;
    grid.axes = {{"length", {1, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}},
                 {"sequences_x_heads", {1, 4, 8, 16, 32, 64, 128, 256, 1024}},
                 {"group", {1, 4, 8, 16}}};
  } else if (op == "decode") {
    grid.launch_s = kAttentionLaunch_s;
    grid.axes = {{"length", {1, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 131072}},
                 {"sequences_x_kv_heads", {1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 65536}},
                 {"group", {1, 4, 8, 16}}};
  } else if (op == "mla_prefill") {
    grid.launch_s = kMlaLaunch_s;
    grid.axes = {{"length", {1, 128, 512, 1024, 2048, 4096, 8192, 32768}},
                 {"sequences", {1, 2, 4, 16, 64, 256}},
                 {"heads", {1, 16, 32, 64, 128}}};
  } else if (op == "mla_decode") {
    grid.launch_s = kMlaLaunch_s;
    grid.axes = {{"length", {2, 512, 1024, 2048, 4096, 8192, 16384, 131072}},
                 {"sequences", {1, 4, 8, 16, 32, 64, 128, 256, 1024}},
                 {"heads", {1, 16, 32, 64, 128}}};
  } else if (op == "moe") {
    grid.launch_s = kMoeLaunch_s;
    const bool ep = key.ends_with(" ep");
    const std::vector<double> rows{0.01, 0.1, 0.3, 1, 2, 4, 8, 16, 32, 64, 128, 512, 1024, 4096};
    grid.axes = ep ? std::vector<Axis>{{"rows_per_expert", rows},
                                       {"columns", {512, 1024, 2048, 4096, 16384}},
                                       {"experts", {1, 8, 32, 128}},
                                       {"ep", {2, 16}}}
                   : std::vector<Axis>{{"rows_per_expert", rows},
                                       {"columns", {64, 256, 512, 1024, 2048, 16384}},
                                       {"experts", {8, 128, 512}},
                                       {"hidden", {2048, 6144}}};
  } else if (op == "all_reduce") {
    grid.launch_s = kCollectiveLaunch_s;
    grid.axes = {{"bytes", octaves(256, 1 << 30)}, {"ranks", ranks}};
  } else if (op == "all_gather") {
    grid.launch_s = kCollectiveLaunch_s;
    grid.axes = {{"bytes", octaves(512, 1 << 30)}, {"ranks", ranks}};
  } else {
    MUSTER_CHECK(false, "no grid for operator {}", op);
  }
  return grid;
}

}  // namespace muster::cost
