#include <fmt/format.h>

#include <iterator>

#include "muster/files/lines.h"
#include "muster/workload/read.h"

namespace muster::workload {
namespace {

// Seconds, exact, without trailing zeros: 1500000000 ns is "1.5".
void append_seconds(std::string& out, Duration d) {
  const std::int64_t ns = d.count();
  fmt::format_to(std::back_inserter(out), "{}", ns / 1'000'000'000);
  const std::int64_t below = ns % 1'000'000'000;
  if (below == 0) return;
  fmt::format_to(std::back_inserter(out), ".{:09}", below);
  while (out.back() == '0') out.pop_back();
}

Result<std::string> quoted(const std::string& text, const std::string& path) {
  if (text.find_first_of("\n\r") != std::string::npos)
    return fail("{}: a tenant's name has a line end in it, which CSV cannot hold here", path);
  if (text.find_first_of(",\"") == std::string::npos && text.find_first_of(" \t") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

Result<void> write_trace(const Trace& trace, const std::string& path) {
  const bool blocks = !trace.block_ids.empty();
  const bool tenants = !trace.tenants.empty();
  std::vector<std::string> names;
  for (const std::string& tenant : trace.tenants) {
    MUSTER_TRY(std::string name, quoted(tenant, path));
    names.push_back(std::move(name));
  }
  std::string out = "arrival_s,input_tokens,output_tokens";
  out += blocks ? ",hash_ids" : "";
  out += tenants ? ",tenant\n" : "\n";
  out.reserve(trace.requests.size() * 24 + trace.block_ids.size() * 7);
  for (const Request& r : trace.requests) {
    append_seconds(out, r.arrival);
    fmt::format_to(std::back_inserter(out), ",{},{}", r.input_tokens, r.output_tokens);
    if (blocks) {
      out += ',';
      for (std::uint32_t i = 0; i < r.block_count; ++i)
        fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? "" : " ", trace.block_ids[r.first_block + i]);
    }
    if (tenants) out += ',' + names[r.tenant];
    out += '\n';
  }
  return files::write_file(path, out);
}

}  // namespace muster::workload
