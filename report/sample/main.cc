// muster_report_sample DIRECTORY: writes report.html, run.html and result.json of an invented fleet there, and prints
// the terminal texts at 80 columns.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>

#include "muster/report/html.h"
#include "muster/report/json.h"
#include "muster/report/terminal.h"
#include "sample.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: muster_report_sample DIRECTORY\n", stderr);
    return 2;
  }
  using namespace muster::report;
  const std::string directory = argv[1];
  const Size size = sample::size();
  std::ofstream(directory + "/report.html") << html(size);
  std::ofstream(directory + "/run.html") << html(size.zone_loss, sample::plots(3600, 48, 900, 2400, 5),
                                                 "fleet.yaml on peak.csv", size.slos);
  std::ofstream(directory + "/result.json") << to_json(size);
  const TerminalStyle style;
  std::cout << terminal(size, style) << "\n=====\n"
            << terminal(sample::plan(), style) << "\n=====\n"
            << terminal(size.zone_loss, style);
  return 0;
}
