#include <algorithm>

#include "muster/core/text.h"
#include "muster/files/document.h"

namespace muster::files {

MapReader::MapReader(Node node) : node_(std::move(node)) {
  if (!node_.is_map()) fail_with(node_.error(fmt::format("found {}; a map is needed", node_.found())));
}

void MapReader::fail_with(std::unexpected<Error> error) {
  if (!error_) error_ = std::move(error).error();
}

std::optional<Node> MapReader::take(std::string_view key, bool needed) {
  known_.emplace_back(key);
  if (error_) return std::nullopt;
  auto value = node_.find(key);
  if (!value && needed) {
    // A key of a similar name that nobody has asked for is probably this one, misspelt.
    std::vector<std::string> others;
    for (const auto& [name, child] : node_.entries())
      if (std::find(known_.begin(), known_.end(), name) == known_.end()) others.push_back(name);
    const std::string_view near = nearest(key, others);
    const std::string hint = near.empty() ? std::string() : fmt::format("; found `{}`", near);
    fail_with(node_.error(fmt::format("the key `{}` is missing{}", key, hint)));
  }
  return value;
}

std::optional<Node> MapReader::child(std::string_view key) {
  return take(key, false);
}
std::optional<Node> MapReader::required_child(std::string_view key) {
  return take(key, true);
}
void MapReader::ignore(std::string_view key) {
  known_.emplace_back(key);
}

Result<void> MapReader::finish() {
  if (error_) return std::unexpected(*error_);
  for (const auto& [name, child] : node_.entries()) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    const std::string hint = did_you_mean(name, known_);
    const std::string allowed = hint.empty() ? fmt::format("; known here: {}", join(known_, ", ")) : std::string();
    return child.error(fmt::format("unknown key `{}`{}{}", name, hint, allowed));
  }
  return {};
}

namespace {

// Puts `value` into `out`, or its error into `error`.
template <class T>
bool put(Result<T> value, T& out, std::optional<Error>& error) {
  if (value)
    out = *std::move(value);
  else
    error = std::move(value).error();
  return !error;
}

Result<std::vector<Node>> list_of(const Node& node) {
  if (!node.is_list()) return node.error(fmt::format("found {}; a list is needed", node.found()));
  return node.items();
}

template <class T, class Get>
Result<std::vector<T>> values_of(const Node& node, Get get) {
  MUSTER_TRY(const std::vector<Node> items, list_of(node));
  std::vector<T> values;
  values.reserve(items.size());
  for (const Node& item : items) {
    MUSTER_TRY(T value, get(item));
    values.push_back(std::move(value));
  }
  return values;
}

Result<std::int64_t> integer_within(const Node& node, std::int64_t min, std::int64_t max) {
  MUSTER_TRY(const std::int64_t value, node.integer());
  if (value < min || value > max)
    return node.error(fmt::format("found {}; an integer from {} to {} is needed", value, min, max));
  return value;
}

}  // namespace

void MapReader::read(std::string_view key, std::string& out, bool needed) {
  if (const auto node = take(key, needed)) put(node->text(), out, error_);
}
void MapReader::read(std::string_view key, double& out, bool needed) {
  if (const auto node = take(key, needed)) put(node->number(), out, error_);
}
void MapReader::read(std::string_view key, bool& out, bool needed) {
  if (const auto node = take(key, needed)) put(node->boolean(), out, error_);
}
void MapReader::read(std::string_view key, std::vector<std::string>& out, bool needed) {
  if (const auto node = take(key, needed))
    put(values_of<std::string>(*node, [](const Node& n) { return n.text(); }), out, error_);
}
void MapReader::read(std::string_view key, std::vector<double>& out, bool needed) {
  if (const auto node = take(key, needed))
    put(values_of<double>(*node, [](const Node& n) { return n.number(); }), out, error_);
}
void MapReader::read(std::string_view key, std::vector<bool>& out, bool needed) {
  if (const auto node = take(key, needed))
    put(values_of<bool>(*node, [](const Node& n) { return n.boolean(); }), out, error_);
}

std::optional<std::int64_t> MapReader::read_integer(std::string_view key, bool needed, std::int64_t min,
                                                    std::int64_t max) {
  const auto node = take(key, needed);
  std::int64_t value = 0;
  if (!node || !put(integer_within(*node, min, max), value, error_)) return std::nullopt;
  return value;
}

std::optional<std::vector<std::int64_t>> MapReader::read_integers(std::string_view key, bool needed, std::int64_t min,
                                                                  std::int64_t max) {
  const auto node = take(key, needed);
  std::vector<std::int64_t> values;
  const auto within = [&](const Node& n) { return integer_within(n, min, max); };
  if (!node || !put(values_of<std::int64_t>(*node, within), values, error_)) return std::nullopt;
  return values;
}

}  // namespace muster::files
