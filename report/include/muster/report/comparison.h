// Two fleets on the same traffic: what `muster simulate A --versus B` found. Differences are B - A.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/report/results.h"
#include "muster/report/table.h"

namespace muster::report {

struct ComparisonRow {
  std::string name;  // of the figure, as in measures.h
  double a = 0, b = 0;
  double difference = 0;            // b - a; over replications the mean of the pairs' differences
  std::optional<double> low, high;  // 95 % interval of it
  enum class Verdict { kA, kB, kNotShown, kEqual };
  Verdict verdict = Verdict::kNotShown;  // who is better, beyond doubt: the interval excludes 0
};

// Requests that both fleets completed, one by one: b - a.
struct PairedRequests {
  std::string name;  // "ttft_ms", "e2e_ms", ...
  std::uint64_t pairs = 0;
  double mean = 0, median = 0;
  std::optional<double> low, high;   // 95 % interval of the mean
  double b_lower = 0, b_higher = 0;  // shares of the pairs; the rest is equal
};

struct Comparison {
  std::string name_a, name_b;  // of the fleets' files
  Uncertainty about;           // replications, seeds, warm-up and method; without estimates
  std::vector<ComparisonRow> rows;
  std::vector<PairedRequests> requests;  // of the first replication
  std::vector<std::string> words;        // the answer, a sentence each
  RunMetrics a, b;                       // the first replication of each
};

std::string to_json(const Comparison& comparison);
std::string terminal(const Comparison& comparison, const TerminalStyle& style);
// A page of its own; `plots` are those of the first replication of each.
std::string html(const Comparison& comparison, const RunPlots& plots_a, const RunPlots& plots_b);

}  // namespace muster::report
