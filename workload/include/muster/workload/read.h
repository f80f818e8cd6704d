// Trace files of the formats that people publish.
#pragma once

#include <string>

#include "muster/core/result.h"
#include "muster/workload/trace.h"

namespace muster::workload {

enum class Format {
  kAzure,     // CSV: TIMESTAMP,ContextTokens,GeneratedTokens (dates like 2023-11-16 18:15:46.6805900)
  kMooncake,  // JSONL: timestamp (ms), input_length, output_length, hash_ids (one per 512 tokens)
  kBurstGpt,  // CSV: Timestamp (s),[Session ID,]Model,Request tokens,Response tokens,...
  kCsv,       // arrival_s | arrival_ms | timestamp, input_tokens | input_length | ..., output_tokens | ..., [hash_ids],
              // [session], [think_s], [tenant]
  kJsonl,     // the same names as keys
};

// Recognises the format by its header or first line. Zero output lengths are read as 1 (the first token) and counted as
// such; negative, absurd (over kTokensMax), missing or NaN values fail with file, line and column.
Result<Trace> read_trace(const std::string& path);
Result<Format> recognise(const std::string& path);
std::string_view name(Format format);

// Writes CSV, arrival_s,input_tokens,output_tokens[,hash_ids][,session,think_s][,tenant], or, to a path that ends in
// ".jsonl", JSON Lines of the same keys. Reading gives the same trace, sessions and tenants numbered as they appear.
Result<void> write_trace(const Trace& trace, const std::string& path);

}  // namespace muster::workload
