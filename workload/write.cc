#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

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

void append_blocks(std::string& out, const Trace& trace, const Request& r, std::string_view between) {
  for (std::uint32_t i = 0; i < r.block_count; ++i)
    fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? "" : between, trace.block_ids[r.first_block + i]);
}

Result<std::string> csv_text(const std::string& text, const std::string& path) {
  if (text.find_first_of("\n\r") != std::string::npos)
    return fail("{}: a tenant's name has a line end in it, which CSV cannot hold here", path);
  if (text.find_first_of(",\"") == std::string::npos && text.find_first_of(" \t") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Which of the optional columns a trace needs.
struct Parts {
  explicit Parts(const Trace& trace) : blocks(!trace.block_ids.empty()), tenants(!trace.tenants.empty()) {
    sessions = std::ranges::any_of(trace.requests, [](const Request& r) { return r.session != kNoSession; });
  }
  bool blocks, tenants, sessions = false;
};

Result<std::string> to_csv(const Trace& trace, Parts parts, const std::string& path) {
  std::vector<std::string> names;
  for (const std::string& tenant : trace.tenants) {
    MUSTER_TRY(std::string name, csv_text(tenant, path));
    names.push_back(std::move(name));
  }
  std::string out = "arrival_s,input_tokens,output_tokens";
  out += parts.blocks ? ",hash_ids" : "";
  out += parts.sessions ? ",session,think_s" : "";
  out += parts.tenants ? ",tenant\n" : "\n";
  out.reserve(trace.requests.size() * 24 + trace.block_ids.size() * 7);
  for (const Request& r : trace.requests) {
    append_seconds(out, r.arrival);
    fmt::format_to(std::back_inserter(out), ",{},{}", r.input_tokens, r.output_tokens);
    if (parts.blocks) append_blocks(out += ',', trace, r, " ");
    if (parts.sessions) {
      out += r.session == kNoSession ? "," : fmt::format(",{}", r.session);
      append_seconds(out += ',', r.think);
    }
    if (parts.tenants) out += ',' + names[r.tenant];
    out += '\n';
  }
  return out;
}

std::string to_jsonl(const Trace& trace, Parts parts) {
  std::vector<std::string> names;
  for (const std::string& tenant : trace.tenants) names.push_back(json_text(tenant));
  std::string out;
  for (const Request& r : trace.requests) {
    append_seconds(out += "{\"arrival_s\": ", r.arrival);
    fmt::format_to(std::back_inserter(out), ", \"input_tokens\": {}, \"output_tokens\": {}", r.input_tokens,
                   r.output_tokens);
    if (parts.blocks) {
      append_blocks(out += ", \"hash_ids\": [", trace, r, ", ");
      out += ']';
    }
    if (parts.sessions) {
      out += r.session == kNoSession ? ", \"session\": null" : fmt::format(", \"session\": {}", r.session);
      append_seconds(out += ", \"think_s\": ", r.think);
    }
    if (parts.tenants) out += ", \"tenant\": " + names[r.tenant];
    out += "}\n";
  }
  return out;
}

}  // namespace

Result<void> write_trace(const Trace& trace, const std::string& path) {
  const Parts parts(trace);
  if (path.ends_with(".jsonl")) return files::write_file(path, to_jsonl(trace, parts));
  MUSTER_TRY(const std::string csv, to_csv(trace, parts, path));
  return files::write_file(path, csv);
}

}  // namespace muster::workload
