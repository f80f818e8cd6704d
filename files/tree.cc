#include "tree.h"

#include <algorithm>
#include <numeric>

#include "muster/files/number.h"

namespace muster::files {
namespace {

constexpr std::size_t kDepthMax = 64;
constexpr std::size_t kCopiesMax =
    1'000'000;  // what aliases may unfold to: "billion laughs" files must not fill memory

}  // namespace

void Tree::refuse(int line, std::string_view message) const {
  throw Refused(fmt::format("{}:{}: {}", file_, line, message));
}

bool Tree::waits_for_key() const {
  if (stack_.empty() || stack_.back()->kind != Value::Kind::kMap) return false;
  return stack_.back()->keys.size() == stack_.back()->children.size();
}

void Tree::attach(Value* value) {
  if (stack_.empty()) {
    if (root_ != nullptr) refuse(value->line, "a second document begins; one is needed");
    root_ = value;
    return;
  }
  Value* const parent = stack_.back();
  value->parent = parent;
  value->place = parent->children.size();
  parent->children.push_back(value);
}

Node::Value* Tree::add(Value::Kind kind, int line, std::size_t anchor) {
  if (waits_for_key()) refuse(line, "a key is needed that is one word or a text");
  Value& value = values_.emplace_back();
  value.kind = kind;
  value.line = line;
  value.file = &file_;
  attach(&value);
  if (anchor != 0) anchors_[anchor] = &value;
  if (kind == Value::Kind::kList || kind == Value::Kind::kMap) {
    stack_.push_back(&value);
    if (stack_.size() > kDepthMax) refuse(line, fmt::format("nested deeper than {} levels", kDepthMax));
  } else {
    value.open = false;
  }
  return &value;
}

void Tree::null(int line, std::size_t anchor) {
  add(Value::Kind::kNull, line, anchor);
}

void Tree::scalar(int line, std::string text, std::size_t anchor) {
  if (waits_for_key())
    stack_.back()->keys.push_back(std::move(text));
  else
    add(Value::Kind::kScalar, line, anchor)->text = std::move(text);
}

void Tree::begin_list(int line, std::size_t anchor) {
  add(Value::Kind::kList, line, anchor);
}
void Tree::begin_map(int line, std::size_t anchor) {
  add(Value::Kind::kMap, line, anchor);
}

void Tree::end() {
  Value& value = *stack_.back();
  stack_.pop_back();
  value.open = false;
  if (value.kind != Value::Kind::kMap) return;
  value.sorted.resize(value.keys.size());
  std::iota(value.sorted.begin(), value.sorted.end(), 0u);
  std::sort(value.sorted.begin(), value.sorted.end(), [&](std::uint32_t a, std::uint32_t b) {
    const int order = value.keys[a].compare(value.keys[b]);
    return order != 0 ? order < 0 : a < b;
  });
  for (std::size_t i = 1; i < value.sorted.size(); ++i) {
    const std::uint32_t first = value.sorted[i - 1];
    const std::uint32_t second = value.sorted[i];
    if (value.keys[first] == value.keys[second])
      refuse(value.children[second]->line, fmt::format("the key {} was already given on line {}",
                                                       shown(value.keys[second]), value.children[first]->line));
  }
}

Node::Value* Tree::copy(const Value& from, int line, std::size_t depth) {
  if (++copied_ > kCopiesMax) refuse(line, fmt::format("the aliases unfold to over {} values", kCopiesMax));
  if (depth > kDepthMax) refuse(line, fmt::format("nested deeper than {} levels", kDepthMax));
  Value& value = values_.emplace_back();
  value.kind = from.kind;
  value.line = from.line;
  value.text = from.text;
  value.keys = from.keys;
  value.sorted = from.sorted;
  value.file = from.file;
  value.open = false;
  for (const Value* child : from.children) {
    Value* const made = copy(*child, line, depth + 1);
    made->parent = &value;
    made->place = value.children.size();
    value.children.push_back(made);
  }
  return &value;
}

void Tree::alias(int line, std::size_t anchor) {
  const auto at = anchors_.find(anchor);
  if (at == anchors_.end()) refuse(line, "an alias of something that is not there");
  if (at->second->open) refuse(line, "an alias of a value inside itself");
  if (waits_for_key()) {
    if (at->second->kind != Value::Kind::kScalar) refuse(line, "a key is needed that is one word or a text");
    stack_.back()->keys.push_back(at->second->text);
    return;
  }
  attach(copy(*at->second, line, stack_.size()));
}

Node Tree::root(std::shared_ptr<Tree> tree) {
  if (tree->root_ == nullptr) tree->null(1, 0);
  const Value* const value = tree->root_;
  return Node(std::shared_ptr<const Value>(std::move(tree), value));
}

}  // namespace muster::files
