#include "slo_file.h"

#include <fmt/format.h>

namespace muster::app {

void read_positive(files::MapReader& read, std::string_view key, std::optional<double>& out) {
  const std::optional<files::Node> node = read.child(key);
  if (!node) return;
  const Result<double> value = node->number();
  if (!value) return read.fail_with(std::unexpected(value.error()));
  if (*value <= 0) return read.fail_with(node->error(fmt::format("{} found; a number above 0 is needed", *value)));
  out = *value;
}

Result<SloTargets> read_slo(const files::Node& node) {
  SloTargets slo;
  files::MapReader read(node);
  read_positive(read, "queue_wait_p95_ms", slo.queue_wait_p95_ms);
  read_positive(read, "ttft_p95_ms", slo.ttft_p95_ms);
  read_positive(read, "tpot_p95_ms", slo.tpot_p95_ms);
  read_positive(read, "e2e_p95_ms", slo.e2e_p95_ms);
  MUSTER_TRY_VOID(read.finish());
  return slo;
}

}  // namespace muster::app
