// muster VERB [options]: parses the command line, runs one verb, turns errors into messages and exit codes.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "muster/core/text.h"
#include "verbs.h"

namespace muster::app {

void Console::print(const std::string& text) const {
  fmt::print("{}{}", text, text.ends_with('\n') ? "" : "\n");
}

void Console::note(const std::string& text) const {
  fmt::print(stderr, "muster: {}\n", text);
}

namespace {

Console console() {
  Console c;
  c.progress = isatty(STDERR_FILENO) == 1;
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  c.style.colour = terminal && std::getenv("NO_COLOR") == nullptr;
  c.style.width = 80;
  winsize size{};
  if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 60) c.style.width = size.ws_col;
  if (c.style.width > 120) c.style.width = 120;
  return c;
}

// The innermost verb that was recognised.
const CLI::App& verb_of(const CLI::App& root) {
  const CLI::App* verb = &root;
  while (!verb->get_subcommands().empty()) verb = verb->get_subcommands().front();
  return *verb;
}

// The first word of the command line that is no option or verb here, with what was probably meant; "" if there is none.
std::string unknown_word(const CLI::App& verb, int argc, char** argv) {
  std::vector<std::string> names, verbs;
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (const CLI::App* sub : verb.get_subcommands(nullptr)) verbs.push_back(sub->get_name());
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = std::string_view(argv[i]).substr(0, std::string_view(argv[i]).find('='));
    if (word.starts_with("--") && std::ranges::find(names, word) == names.end())
      return fmt::format("unknown option {}{}", word, did_you_mean(word, names));
    if (i == 1 && !verbs.empty() && !word.starts_with("-") && std::ranges::find(verbs, word) == verbs.end())
      return fmt::format("unknown verb {}{}; there are {}", word, did_you_mean(word, verbs), join(verbs, ", "));
  }
  return "";
}

// What is wrong with the command line, and where to look.
std::string usage_message(const CLI::App& root, const CLI::ParseError& error, int argc, char** argv) {
  const CLI::App& verb = verb_of(root);
  std::string message = unknown_word(verb, argc, argv);
  if (message.empty()) message = error.what();
  return message + fmt::format("\nmuster: see muster {}--help", &verb == &root ? "" : verb.get_name() + " ");
}

int run(int argc, char** argv) {
  CLI::App root("muster designs, proves and runs LLM inference fleets.", "muster");
  root.set_version_flag("--version", "muster 0.1.0");
  root.require_subcommand(1);
  root.footer(
      "Start with the main job:\n"
      "  muster size examples/chat-70b.yaml\n"
      "Exit codes: 0 done; 1 the answer is no (does not fit, SLO not met); 2 the input is wrong; 3 internal error.");
  Selected selected;
  add_size(root, selected);
  add_simulate(root, selected);
  add_sweep(root, selected);
  add_plan(root, selected);
  add_predict(root, selected);
  add_validate(root, selected);
  add_calibrate(root, selected);
  add_trace(root, selected);
  add_catalog(root, selected);
  try {
    root.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return root.exit(e);
  } catch (const CLI::CallForAllHelp& e) {
    return root.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return root.exit(e);
  } catch (const CLI::ParseError& e) {
    fmt::print(stderr, "muster: {}\n", usage_message(root, e, argc, argv));
    return 2;
  }
  const Result<int> result = selected.run(console());
  if (result) return *result;
  fmt::print(stderr, "muster: {}\n", result.error().message);
  return result.error().kind == Error::Kind::kNo ? kNo : 2;
}

}  // namespace
}  // namespace muster::app

int main(int argc, char** argv) {
  const int code = muster::app::run(argc, argv);
  return std::fflush(stdout) == 0 ? code : 3;
}
