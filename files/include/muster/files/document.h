// YAML and JSON documents (to the reader the same) whose values remember their file and line, so that every complaint
// about an input file can say where, what was found and what is needed.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/core/result.h"

namespace muster::files {

// One value of a document. Cheap to copy; keeps its document alive.
class Node {
 public:
  bool is_map() const;
  bool is_list() const;
  bool is_scalar() const;
  bool is_null() const;

  std::string where() const;                                  // "fleet.yaml:12: pools[0].parallel.tp"
  std::optional<Node> find(std::string_view key) const;       // of a map; nullopt if absent or null
  std::vector<Node> items() const;                            // of a list; empty otherwise
  std::vector<std::pair<std::string, Node>> entries() const;  // of a map, in file order; empty otherwise

  // The scalar as a value. Each failure names where(), the text found and the kind needed.
  Result<std::string> text() const;
  Result<double> number() const;         // finite; also "200k", "1M", "1.5G" (decimal multipliers)
  Result<std::int64_t> integer() const;  // whole; the same multipliers
  Result<bool> boolean() const;          // true/false, yes/no

  std::string found() const;  // for messages: "\"x\"" (cut if long), "nothing", "a list" or "a map"
  // An error at this node: "fleet.yaml:12: pools[0].parallel.tp: <message>".
  std::unexpected<Error> error(std::string_view message) const;

 private:
  friend class Tree;
  struct Value;
  explicit Node(std::shared_ptr<const Value> value) : value_(std::move(value)) {}
  std::shared_ptr<const Value> value_;
};

// Parses `text`; `name` is the file name for messages. Fails with name:line on a syntax error, on a key given twice in
// one map, on nesting deeper than 64, on control characters, and on aliases that unfold to over a million values.
// An empty text is a null value.
Result<Node> parse_document(std::string_view text, const std::string& name);
Result<Node> read_document(const std::string& path);

// Reads the fields of one map. The first failure sticks; finish() returns it, or an error for any key that nobody
// asked about ("unknown key `replica` (did you mean replicas?)"). Usage:
//   MapReader read(node);
//   read.required("name", pool.name);
//   read.optional("min", pool.replicas_min);
//   MUSTER_TRY_VOID(read.finish());
class MapReader {
 public:
  explicit MapReader(Node node);

  // T: std::string, double, bool, any integer type (range-checked), or std::vector of those.
  template <class T>
  void required(std::string_view key, T& out) {
    read(key, out, true);
  }
  template <class T>
  void optional(std::string_view key, T& out) {
    read(key, out, false);
  }
  // The child node itself, for nested maps and lists; nullopt if absent.
  std::optional<Node> child(std::string_view key);
  std::optional<Node> required_child(std::string_view key);
  void ignore(std::string_view key);             // allowed, not used
  void fail_with(std::unexpected<Error> error);  // a complaint of the caller's own, if none came before
  bool ok() const { return !error_; }

  Result<void> finish();

 private:
  void read(std::string_view key, std::string& out, bool needed);
  void read(std::string_view key, double& out, bool needed);
  void read(std::string_view key, bool& out, bool needed);
  void read(std::string_view key, std::vector<std::string>& out, bool needed);
  void read(std::string_view key, std::vector<double>& out, bool needed);
  void read(std::string_view key, std::vector<bool>& out, bool needed);
  template <std::integral T>
  void read(std::string_view key, T& out, bool needed) {
    if (const auto v = read_integer(key, needed, kMin<T>, kMax<T>)) out = static_cast<T>(*v);
  }
  template <std::integral T>
  void read(std::string_view key, std::vector<T>& out, bool needed) {
    if (const auto values = read_integers(key, needed, kMin<T>, kMax<T>)) {
      out.clear();
      for (const std::int64_t v : *values) out.push_back(static_cast<T>(v));
    }
  }
  template <std::integral T>
  static constexpr std::int64_t kMin = static_cast<std::int64_t>(std::numeric_limits<T>::min());
  template <std::integral T>
  static constexpr std::int64_t kMax = std::cmp_greater(std::numeric_limits<T>::max(), INT64_MAX)
                                           ? INT64_MAX
                                           : static_cast<std::int64_t>(std::numeric_limits<T>::max());
  std::optional<std::int64_t> read_integer(std::string_view key, bool needed, std::int64_t min, std::int64_t max);
  std::optional<std::vector<std::int64_t>> read_integers(std::string_view key, bool needed, std::int64_t min,
                                                         std::int64_t max);
  std::optional<Node> take(std::string_view key, bool needed);

  Node node_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

}  // namespace muster::files
