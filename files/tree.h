// The parsed tree behind Node, and the builder that the YAML and the JSON parser drive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/files/document.h"

namespace muster::files {

struct Node::Value {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  int line = 1;
  std::string text;                   // of a scalar
  std::vector<std::string> keys;      // of a map, in file order
  std::vector<Value*> children;       // of a list or a map, in file order
  std::vector<std::uint32_t> sorted;  // of a map: indices of keys in the order of their text
  const Value* parent = nullptr;      // null for the root
  std::size_t place = 0;              // index in parent->children
  const std::string* file = nullptr;
  bool open = true;  // a list or map whose end has not come yet
};

// Builds one document from events in file order. Each call may throw Tree::Refused, which the parsers pass on to
// their caller inside this module.
class Tree {
 public:
  struct Refused : std::exception {
    explicit Refused(std::string text) : message(std::move(text)) {}
    const char* what() const noexcept override { return message.c_str(); }
    std::string message;
  };

  explicit Tree(std::string file_name) : file_(std::move(file_name)) {}
  Tree(const Tree&) = delete;  // values point into it
  Tree& operator=(const Tree&) = delete;

  void null(int line, std::size_t anchor);
  void scalar(int line, std::string text, std::size_t anchor);  // or the key that a map waits for
  void begin_list(int line, std::size_t anchor);
  void begin_map(int line, std::size_t anchor);
  void end();                                // of the innermost list or map
  void alias(int line, std::size_t anchor);  // a copy of the value with that anchor

  bool complete() const { return root_ != nullptr && stack_.empty(); }
  const std::string& file() const { return file_; }
  [[noreturn]] void refuse(int line, std::string_view message) const;

  // The root as a node that keeps `tree` alive; a null value if nothing was built.
  static Node root(std::shared_ptr<Tree> tree);

  using Value = Node::Value;

 private:
  Value* add(Value::Kind kind, int line, std::size_t anchor);
  Value* copy(const Value& from, int line, std::size_t depth);
  void attach(Value* value);
  bool waits_for_key() const;

  std::string file_;
  std::deque<Value> values_;  // addresses stay
  Value* root_ = nullptr;
  std::vector<Value*> stack_;  // open lists and maps
  std::map<std::size_t, Value*> anchors_;
  std::size_t copied_ = 0;  // values made by aliases
};

// Each fills `tree` or throws (Tree::Refused or the library's own exceptions). JSON returns false where the text is not
// JSON at all, with the reason and line in `message`.
void parse_yaml(std::string_view text, Tree& tree);
bool parse_json(std::string_view text, Tree& tree, std::string& message);

}  // namespace muster::files
