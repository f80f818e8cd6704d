#include <iterator>
#include <nlohmann/json.hpp>

#include "tree.h"

namespace muster::files {
namespace {

// The text as nlohmann's lexer reads it, one byte at a time, counting lines. When an event comes, the last byte read is
// either the token's own last byte or, after a number, one byte of look-ahead; a token never ends with a line end, so
// the token's line is the number of line ends before the last byte read.
class Reading {
 public:
  explicit Reading(std::string_view text) : text_(text) {}
  bool at_end() const { return position_ >= text_.size(); }
  char current() const { return text_[position_]; }
  void advance() {
    lines_ += last_was_end_ ? 1 : 0;
    last_was_end_ = text_[position_] == '\n';
    ++position_;
  }
  int line() const { return lines_ + 1; }

 private:
  std::string_view text_;
  std::size_t position_ = 0;
  int lines_ = 0;  // line ends among the bytes before the last one read
  bool last_was_end_ = false;
};

class Bytes {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = char;
  using pointer = const char*;
  using reference = char;
  using iterator_category = std::input_iterator_tag;

  Bytes() = default;
  explicit Bytes(Reading* reading) : reading_(reading) {}
  char operator*() const { return reading_->current(); }
  Bytes& operator++() {
    reading_->advance();
    return *this;
  }
  void operator++(int) { reading_->advance(); }
  friend bool operator==(const Bytes& a, const Bytes& b) { return a.ended() == b.ended(); }
  friend bool operator!=(const Bytes& a, const Bytes& b) { return !(a == b); }

 private:
  bool ended() const { return reading_ == nullptr || reading_->at_end(); }
  Reading* reading_ = nullptr;
};

class Events : public nlohmann::json_sax<nlohmann::json> {
 public:
  Events(Tree& tree, const Reading& reading) : tree_(tree), reading_(reading) {}

  bool null() override { return tree_.null(reading_.line(), 0), true; }
  bool boolean(bool value) override { return add(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return add(fmt::format("{}", value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(fmt::format("{}", value)); }
  bool number_float(number_float_t, const string_t& text) override { return add(text); }
  bool string(string_t& text) override { return add(std::move(text)); }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& text) override { return add(std::move(text)); }
  bool start_object(std::size_t) override { return tree_.begin_map(reading_.line(), 0), true; }
  bool end_object() override { return tree_.end(), true; }
  bool start_array(std::size_t) override { return tree_.begin_list(reading_.line(), 0), true; }
  bool end_array() override { return tree_.end(), true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& e) override {
    message = e.what();
    return false;
  }

  std::string message;

 private:
  bool add(std::string text) { return tree_.scalar(reading_.line(), std::move(text), 0), true; }

  Tree& tree_;
  const Reading& reading_;
};

}  // namespace

bool parse_json(std::string_view text, Tree& tree, std::string& message) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  Reading reading(text);
  Events events(tree, reading);
  if (nlohmann::json::sax_parse(Bytes(&reading), Bytes(), &events)) return true;
  std::string_view reason = events.message;  // "[json.exception.parse_error.101] parse error at line 3, ...: what"
  if (const std::size_t at = reason.find("] "); at != std::string_view::npos) reason.remove_prefix(at + 2);
  message = fmt::format("{}:{}: {}", tree.file(), reading.line(), reason);
  return false;
}

}  // namespace muster::files
