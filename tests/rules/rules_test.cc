// The module rules of docs/ARCHITECTURE.md, checked on the sources: who may include whom, where clocks may appear,
// where third-party headers stay, and that nothing keeps module-level mutable state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

// Module -> modules whose public headers it may include (itself always).
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"core", {}},
    {"files", {"core"}},
    {"model", {"core", "files"}},
    {"hardware", {"core", "files"}},
    {"workload", {"core", "files"}},
    {"cost", {"core", "files", "model", "hardware"}},
    {"planner", {"core", "model", "hardware", "cost"}},
    {"sched", {"core"}},
    {"policy", {"core"}},
    {"sim", {"core", "sched", "policy", "cost", "workload"}},
    {"report", {"core"}},
    {"app", {"core", "files", "model", "hardware", "workload", "cost", "planner", "sched", "policy", "sim", "report"}},
};

// Third-party header prefix -> modules that may use it, in their sources only (never in include/).
const std::map<std::string, std::set<std::string>> kThirdParty = {
    {"yaml-cpp/", {"files"}},
    {"zlib.h", {"files"}},
    {"simdjson.h", {"workload"}},
    {"CLI/", {"app"}},
    {"nlohmann/", {"files", "report", "workload"}},
};

struct Source {
  std::string path;  // relative to the root
  std::string module;
  bool is_public_header = false;
  bool is_test = false;
  std::vector<std::string> lines;
};

std::vector<Source> sources() {
  std::vector<Source> all;
  const fs::path root = MUSTER_SOURCE_DIR;
  for (const auto& [module, _] : kMayInclude)
    for (const auto& entry : fs::recursive_directory_iterator(root / module)) {
      const std::string extension = entry.path().extension();
      if (extension != ".cc" && extension != ".h") continue;
      Source source{.path = fs::relative(entry.path(), root), .module = module};
      source.is_public_header = source.path.find("/include/") != std::string::npos;
      source.is_test = source.path.find("_test.cc") != std::string::npos ||
                       source.path.find("/test_") != std::string::npos ||
                       source.path.find("/testing/") != std::string::npos;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) source.lines.push_back(line);
      all.push_back(std::move(source));
    }
  std::ranges::sort(all, {}, &Source::path);
  return all;
}

// Runs `complain(line)` over all lines; a non-empty answer is a violation.
template <class Where, class Complain>
std::vector<std::string> violations(Where where, Complain complain) {
  std::vector<std::string> found;
  for (const Source& source : sources()) {
    if (!where(source)) continue;
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      std::string code = source.lines[i];
      if (const auto comment = code.find("//"); comment != std::string::npos) code.resize(comment);
      if (const std::string why = complain(source, code); !why.empty())
        found.push_back(source.path + ":" + std::to_string(i + 1) + ": " + why);
    }
  }
  return found;
}

std::string included(const std::string& line) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
  std::smatch match;
  return std::regex_search(line, match, kInclude) ? match[1].str() : std::string();
}

TEST(Rules, EveryModuleIsListedHere) {
  std::set<std::string> folders;
  for (const auto& entry : fs::directory_iterator(MUSTER_SOURCE_DIR))
    if (entry.is_directory() && fs::exists(entry.path() / "CMakeLists.txt")) folders.insert(entry.path().filename());
  for (const char* other : {"tests", "bench", "build"}) folders.erase(other);
  std::set<std::string> listed;
  for (const auto& [module, _] : kMayInclude) listed.insert(module);
  EXPECT_EQ(folders, listed);
}

TEST(Rules, ModulesIncludeOnlyWhatTheyMay) {
  EXPECT_THAT(violations([](const Source&) { return true; },
                         [](const Source& source, const std::string& line) -> std::string {
                           const std::string header = included(line);
                           if (!header.starts_with("muster/")) return "";
                           const std::string module = header.substr(7, header.find('/', 7) - 7);
                           if (module == source.module || kMayInclude.at(source.module).contains(module)) return "";
                           return source.module + " must not include " + header;
                         }),
              testing::IsEmpty());
}

TEST(Rules, PolicyAndSchedOwnNoThreadClockOrFile) {
  const std::set<std::string> banned = {
      "thread", "mutex", "random", "fstream", "iostream", "future",    "condition_variable",
      "atomic", "ctime", "time.h", "chrono",  "cstdlib",  "filesystem"};
  EXPECT_THAT(violations([](const Source& s) { return !s.is_test && (s.module == "policy" || s.module == "sched"); },
                         [&](const Source&, const std::string& line) -> std::string {
                           const std::string header = included(line);
                           if (banned.contains(header)) return "must not include <" + header + ">";
                           if (line.find("is_simulated") != std::string::npos)
                             return "must not know whether time is simulated";
                           if (line.find("unordered_") != std::string::npos)
                             return "unordered containers lose the order";
                           return "";
                         }),
              testing::IsEmpty());
}

TEST(Rules, ClocksAndEnvironmentStayAtTheEdge) {
  const std::regex banned(
      R"(\b(steady_clock|system_clock|high_resolution_clock|random_device|getenv|sleep_for|sleep_until|usleep|srand)\b)");
  EXPECT_THAT(violations([](const Source& s) { return s.module != "app"; },
                         [&](const Source&, const std::string& line) -> std::string {
                           std::smatch match;
                           return std::regex_search(line, match, banned) ? match.str() + " belongs to app and bench"
                                                                         : "";
                         }),
              testing::IsEmpty());
}

TEST(Rules, ThirdPartyHeadersStayInTheirModule) {
  EXPECT_THAT(violations([](const Source&) { return true; },
                         [](const Source& source, const std::string& line) -> std::string {
                           const std::string header = included(line);
                           for (const auto& [prefix, users] : kThirdParty)
                             if (!source.is_test && header.starts_with(prefix) &&
                                 (source.is_public_header || !users.contains(source.module)))
                               return header + " must not escape its module";
                           return "";
                         }),
              testing::IsEmpty());
}

// A definition at namespace scope: it starts in column 0.
std::regex mutable_at_scope() {
  return std::regex(R"(^(static |inline |thread_local |extern )*(std::|[a-z]+::)?[A-Za-z_][A-Za-z_:<>, ]*[ >*&]+)"
                    R"([a-z_][a-z0-9_]*( = .*|\{.*\})?;\s*$)");
}

TEST(Rules, NoModuleLevelMutableState) {
  // A definition at namespace scope starts in column 0. Statics inside functions must be const.
  const std::regex at_scope = mutable_at_scope();
  const std::regex harmless(
      R"(^(static |inline )*(const|constexpr|using|typedef|namespace|class|struct|enum|template|return|friend)\b)"
      R"(|^extern "C" const\b)");
  const std::regex local_static(R"(^\s+(static|thread_local)\s)");
  const std::regex constant(R"(\bconst(expr|eval|init)?\b|\()");
  EXPECT_THAT(violations([](const Source& s) { return !s.is_test; },
                         [&](const Source& source, const std::string& line) -> std::string {
                           if (std::regex_search(line, at_scope) && !std::regex_search(line, harmless) &&
                               line.find('(') == std::string::npos)
                             return "mutable at namespace scope: " + line;
                           if (!source.is_public_header && std::regex_search(line, local_static) &&
                               !std::regex_search(line, constant))
                             return "mutable static: " + line;
                           return "";
                         }),
              testing::IsEmpty());
}

TEST(Rules, FilesStayUnder900LinesAnd120Columns) {
  std::vector<std::string> found;
  for (const Source& source : sources()) {
    if (source.lines.size() > 900)
      found.push_back(source.path + " has " + std::to_string(source.lines.size()) + " lines");
    for (std::size_t i = 0; i < source.lines.size(); ++i)
      if (source.lines[i].size() > 130) found.push_back(source.path + ":" + std::to_string(i + 1) + " is too wide");
  }
  EXPECT_THAT(found, testing::IsEmpty());
}

TEST(Rules, EachRuleCanFail) {  // the patterns above, on lines that they must catch
  const std::regex clock(R"(\b(steady_clock|getenv)\b)");
  EXPECT_TRUE(std::regex_search(std::string("auto t = std::chrono::steady_clock::now();"), clock));
  EXPECT_EQ(included("#include \"muster/sim/simulation.h\""), "muster/sim/simulation.h");
  EXPECT_EQ(included("// #include"), "");
  const std::regex at_scope = mutable_at_scope();
  EXPECT_TRUE(std::regex_search(std::string("int my_rank = 0;"), at_scope));
  EXPECT_TRUE(std::regex_search(std::string("std::vector<int> cache;"), at_scope));
  EXPECT_FALSE(std::regex_search(std::string("  int local = 0;"), at_scope));
}

}  // namespace
