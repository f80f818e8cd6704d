// One line per answered request, written while the simulation runs: docs/formats/requests.md.
#pragma once

#include <string>
#include <vector>

#include "muster/files/writer.h"
#include "muster/sim/simulation.h"

namespace muster::app {

// Lines come in the order in which requests were answered. Memory does not grow with the run.
class RequestLog final : public sim::Observer {
 public:
  // CSV when the name ends in .csv or .csv.gz, else JSON lines. Takes the names of classes and tenants from `scenario`
  // and its trace.
  static Result<RequestLog> create(const std::string& path, const sim::Scenario& scenario);

  void on_answered(const sim::RequestRecord& record) override;
  Result<void> finish() { return file_.finish(); }

 private:
  RequestLog(files::FileWriter file, bool csv, const sim::Scenario& scenario);

  files::FileWriter file_;
  bool csv_;
  std::vector<std::string> classes_, tenants_;  // [classes], [trace tenants], quoted as the format wants it
};

}  // namespace muster::app
