#include "fleet_edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "exact_number.h"
#include "muster/core/text.h"
#include "muster/files/document.h"

namespace muster::app {
namespace {

struct Value {
  enum class Kind { kNull, kScalar, kList, kMap } kind = Kind::kNull;
  std::string text;               // of a scalar
  std::vector<Value> items;       // of a list; of a map, beside its keys
  std::vector<std::string> keys;  // in the file's order

  Value* field(std::string_view key) {  // of a map; null if there is none
    const auto at = std::ranges::find(keys, key);
    return at == keys.end() ? nullptr : &items[static_cast<std::size_t>(at - keys.begin())];
  }
};

Result<Value> value_of(const files::Node& node) {
  Value value;
  if (node.is_scalar()) {
    value.kind = Value::Kind::kScalar;
    MUSTER_TRY(value.text, node.text());
  } else if (node.is_list()) {
    value.kind = Value::Kind::kList;
    for (const files::Node& item : node.items()) {
      MUSTER_TRY(Value inner, value_of(item));
      value.items.push_back(std::move(inner));
    }
  } else if (node.is_map()) {
    value.kind = Value::Kind::kMap;
    for (const auto& [key, child] : node.entries()) {
      MUSTER_TRY(Value inner, value_of(child));
      value.keys.push_back(key);
      value.items.push_back(std::move(inner));
    }
  }
  return value;
}

// The readers of documents take "4" for a number as they take 4, so every scalar may be quoted.
void append_json(const Value& value, std::string& out) {
  const char* separator = "";
  switch (value.kind) {
    case Value::Kind::kNull:
      out += "null";
      return;
    case Value::Kind::kScalar:
      out += json_text(value.text);
      return;
    case Value::Kind::kList:
      out += '[';
      for (const Value& item : value.items) {
        out += std::exchange(separator, ", ");
        append_json(item, out);
      }
      out += ']';
      return;
    case Value::Kind::kMap:
      out += '{';
      for (std::size_t i = 0; i < value.keys.size(); ++i) {
        out += std::exchange(separator, ", ");
        out += json_text(value.keys[i]) + ": ";
        append_json(value.items[i], out);
      }
      out += '}';
      return;
  }
}

Result<Value*> item(Value& list, std::string_view step, std::string_view path) {
  std::vector<std::string> names;
  for (Value& candidate : list.items)
    if (const Value* name = candidate.field("name")) {
      if (name->text == step) return &candidate;
      names.push_back(name->text);
    }
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
  if (error == std::errc() && end == step.data() + step.size() && index < list.items.size()) return &list.items[index];
  return fail(
      "{}: the list has no item '{}'{}; it has {}: {}", path, step, did_you_mean(step, names), list.items.size(),
      names.empty() ? fmt::format("0 to {}", std::max<std::size_t>(list.items.size(), 1) - 1) : join(names, ", "));
}

Result<void> set(Value& document, const Setting& setting) {
  MUSTER_TRY(const files::Node node, files::parse_document(setting.value, fmt::format("--set {}", setting.path)));
  MUSTER_TRY(Value wanted, value_of(node));
  Value* at = &document;
  for (const std::string_view step : split(setting.path, '.')) {
    if (step.empty()) return fail("--set {}: a step of the path is empty", setting.path);
    if (at->kind == Value::Kind::kList) {
      MUSTER_TRY(at, item(*at, step, fmt::format("--set {}", setting.path)));
      continue;
    }
    if (at->kind == Value::Kind::kScalar)
      return fail("--set {}: '{}' stands below the plain value \"{}\"", setting.path, step, at->text);
    at->kind = Value::Kind::kMap;
    if (at->field(step) == nullptr) {
      at->keys.emplace_back(step);
      at->items.emplace_back();
    }
    at = at->field(step);
  }
  *at = std::move(wanted);
  return {};
}

}  // namespace

std::string text(const std::vector<Setting>& settings) {
  std::vector<std::string> parts;
  for (const Setting& s : settings) parts.push_back(s.path + "=" + s.value);
  return join(parts, " ");
}

Result<std::string> edited(std::string_view yaml, const std::string& file_name, const std::vector<Setting>& settings) {
  MUSTER_TRY(const files::Node node, files::parse_document(yaml, file_name));
  MUSTER_TRY(Value document, value_of(node));
  for (const Setting& setting : settings) MUSTER_TRY_VOID(set(document, setting));
  std::string out;
  append_json(document, out);
  return out;
}

}  // namespace muster::app
