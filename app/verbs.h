// The verbs of the command line. Each adds its options to the parser and leaves what to run in `Selected`.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "muster/core/result.h"
#include "muster/report/terminal.h"

namespace muster::app {

inline constexpr int kDone = 0,
                     kNo = 1;  // exit codes; wrong input (2) and internal errors (3) travel as Error and check

// How to talk to the person or program on the other side.
struct Console {
  report::TerminalStyle style;                // of stdout
  bool progress = false;                      // stderr is a terminal
  void print(const std::string& text) const;  // stdout
  void note(const std::string& text) const;   // stderr, one line
};

using Run = std::function<Result<int>(const Console&)>;
struct Selected {
  Run run;
};

// --threads on the verbs whose work is one short calculation or one simulation, which runs on one thread: accepted, so
// that a script can give it to every verb.
inline void accept_threads(CLI::App& verb) {
  verb.add_option_function<int>(
          "--threads", [](int) {}, "Accepted on every verb; this one works on one thread")
      ->check(CLI::Range(1, 1024));
}

void add_plan(CLI::App& root, Selected& selected);
void add_predict(CLI::App& root, Selected& selected);
void add_validate(CLI::App& root, Selected& selected);
void add_calibrate(CLI::App& root, Selected& selected);
void add_trace(CLI::App& root, Selected& selected);
void add_simulate(CLI::App& root, Selected& selected);
void add_sweep(CLI::App& root, Selected& selected);
void add_size(CLI::App& root, Selected& selected);
void add_catalog(CLI::App& root, Selected& selected);

}  // namespace muster::app
