#include "muster/files/document.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "muster/core/text.h"
#include "muster/files/lines.h"
#include "muster/files/number.h"
#include "tree.h"

namespace muster::files {
namespace {

constexpr std::size_t kDocumentMax = std::size_t{64} << 20;

// The decimal multiplier at the end of `text`, which it takes off: "200k" -> 1000.
std::int64_t take_multiplier(std::string_view& text) {
  if (text.size() < 2) return 1;
  std::int64_t multiplier = 1;
  switch (text.back()) {
    case 'k':
    case 'K':
      multiplier = 1'000;
      break;
    case 'M':
      multiplier = 1'000'000;
      break;
    case 'G':
      multiplier = 1'000'000'000;
      break;
    default:
      return 1;
  }
  text.remove_suffix(1);
  return multiplier;
}

std::optional<double> number_of(std::string_view text) {
  const auto multiplier = static_cast<double>(take_multiplier(text));
  const auto value = parse_number(text);
  if (!value || !std::isfinite(*value * multiplier)) return std::nullopt;
  return *value * multiplier;
}

std::optional<std::int64_t> integer_of(std::string_view text) {
  std::string_view digits = text;
  const std::int64_t multiplier = take_multiplier(digits);
  std::int64_t value = 0;
  if (const auto whole = parse_integer(digits)) {
    if (__builtin_mul_overflow(*whole, multiplier, &value)) return std::nullopt;
    return value;
  }
  const auto real = number_of(text);  // "1.5k"
  if (!real || multiplier == 1 || std::abs(*real) > 1e15 || *real != std::floor(*real)) return std::nullopt;
  return static_cast<std::int64_t>(*real);
}

// yaml-cpp takes 0x04 for the end of its input, and YAML forbids all of these outside of escapes.
Result<void> refuse_control_bytes(std::string_view text, const std::string& name) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x20 || byte == '\t' || byte == '\n' || byte == '\r') continue;
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(i), '\n');
    return fail("{}:{}: the control byte 0x{:02x} cannot be in a YAML or JSON file", name, line, byte);
  }
  return {};
}

Result<std::shared_ptr<Tree>> parse_text(std::string_view text, const std::string& name) {
  std::string_view start = text;
  if (start.starts_with("\xef\xbb\xbf")) start.remove_prefix(3);
  start = trim(start);
  if (start.starts_with('{') || start.starts_with('[')) {
    // Nearly always JSON, which its own parser reads many times faster; YAML's flow style ({a: 1}) is tried after.
    auto tree = std::make_shared<Tree>(name);
    std::string message;
    if (parse_json(text, *tree, message)) return tree;
    if (name.ends_with(".json")) return fail("{}", message);
  }
  auto tree = std::make_shared<Tree>(name);
  parse_yaml(text, *tree);
  return tree;
}

}  // namespace

Result<Node> parse_document(std::string_view text, const std::string& name) {
  if (text.size() > kDocumentMax) return fail("{}: larger than {} MiB", name, kDocumentMax >> 20);
  MUSTER_TRY_VOID(refuse_control_bytes(text, name));
  try {
    MUSTER_TRY(auto tree, parse_text(text, name));
    return Tree::root(std::move(tree));
  } catch (const Tree::Refused& e) {
    return fail("{}", e.message);
  } catch (const std::exception& e) {
    return fail("{}: cannot be parsed: {}", name, e.what());
  }
}

Result<Node> read_document(const std::string& path) {
  MUSTER_TRY(const std::string text, read_file(path, kDocumentMax));
  return parse_document(text, path);
}

bool Node::is_map() const {
  return value_->kind == Value::Kind::kMap;
}
bool Node::is_list() const {
  return value_->kind == Value::Kind::kList;
}
bool Node::is_scalar() const {
  return value_->kind == Value::Kind::kScalar;
}
bool Node::is_null() const {
  return value_->kind == Value::Kind::kNull;
}

std::string Node::where() const {
  std::vector<std::string> steps;
  for (const Value* v = value_.get(); v->parent != nullptr; v = v->parent)
    steps.push_back(v->parent->kind == Value::Kind::kMap ? "." + v->parent->keys[v->place]
                                                         : fmt::format("[{}]", v->place));
  std::reverse(steps.begin(), steps.end());
  std::string path = join(steps, "");
  if (path.starts_with('.')) path.erase(0, 1);
  if (path.empty()) return fmt::format("{}:{}", *value_->file, value_->line);
  return fmt::format("{}:{}: {}", *value_->file, value_->line, path);
}

std::optional<Node> Node::find(std::string_view key) const {
  const Value& v = *value_;
  const auto at = std::lower_bound(v.sorted.begin(), v.sorted.end(), key,
                                   [&](std::uint32_t i, std::string_view k) { return v.keys[i] < k; });
  if (at == v.sorted.end() || v.keys[*at] != key || v.children[*at]->kind == Value::Kind::kNull) return std::nullopt;
  return Node(std::shared_ptr<const Value>(value_, v.children[*at]));
}

std::vector<Node> Node::items() const {
  std::vector<Node> nodes;
  if (is_list())
    for (const Value* child : value_->children) nodes.push_back(Node(std::shared_ptr<const Value>(value_, child)));
  return nodes;
}

std::vector<std::pair<std::string, Node>> Node::entries() const {
  std::vector<std::pair<std::string, Node>> pairs;
  if (is_map())
    for (std::size_t i = 0; i < value_->keys.size(); ++i)
      pairs.emplace_back(value_->keys[i], Node(std::shared_ptr<const Value>(value_, value_->children[i])));
  return pairs;
}

std::unexpected<Error> Node::error(std::string_view message) const {
  return fail("{}: {}", where(), message);
}

std::string Node::found() const {
  switch (value_->kind) {
    case Value::Kind::kNull:
      return "nothing";
    case Value::Kind::kScalar:
      return shown(value_->text);
    case Value::Kind::kList:
      return "a list";
    case Value::Kind::kMap:
      return "a map";
  }
  return {};
}

Result<std::string> Node::text() const {
  if (!is_scalar()) return error(fmt::format("found {}; a text is needed", found()));
  return value_->text;
}

Result<double> Node::number() const {
  if (is_scalar())
    if (const auto value = number_of(value_->text)) return *value;
  return error(fmt::format("found {}; a number is needed", found()));
}

Result<std::int64_t> Node::integer() const {
  if (is_scalar())
    if (const auto value = integer_of(value_->text)) return *value;
  return error(fmt::format("found {}; an integer is needed", found()));
}

Result<bool> Node::boolean() const {
  if (is_scalar()) {
    const std::string word = lower(value_->text);
    if (word == "true" || word == "yes") return true;
    if (word == "false" || word == "no") return false;
  }
  return error(fmt::format("found {}; true or false is needed", found()));
}

}  // namespace muster::files
