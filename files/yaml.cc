#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <istream>
#include <streambuf>

#include "tree.h"

namespace muster::files {
namespace {

class Events : public YAML::EventHandler {
 public:
  explicit Events(Tree& tree) : tree_(tree) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { tree_.null(line(mark), anchor); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override { tree_.alias(line(mark), anchor); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, const std::string& text) override {
    tree_.scalar(line(mark), text, anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    tree_.begin_list(line(mark), anchor);
  }
  void OnSequenceEnd() override { tree_.end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    tree_.begin_map(line(mark), anchor);
  }
  void OnMapEnd() override { tree_.end(); }

 private:
  static int line(const YAML::Mark& mark) { return mark.line + 1; }

  Tree& tree_;
};

// A stream over text that is not copied.
class View : public std::streambuf {
 public:
  explicit View(std::string_view text) {
    char* const begin = const_cast<char*>(text.data());  // only read: a streambuf has no const variant
    setg(begin, begin, begin + text.size());
  }
};

}  // namespace

void parse_yaml(std::string_view text, Tree& tree) {
  View view(text);
  std::istream stream(&view);
  try {
    YAML::Parser parser(stream);
    Events events(tree);
    while (parser.HandleNextDocument(events)) {
    }
  } catch (const YAML::Exception& e) {
    tree.refuse(e.mark.line + 1, e.msg);
  }
}

}  // namespace muster::files
