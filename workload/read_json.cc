#include "read_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/core/text.h"
#include "muster/files/number.h"

namespace muster::workload {
namespace {

// Events of one line. `wanted` null: collect the top level's keys in `keys` instead.
class Events : public nlohmann::json_sax<nlohmann::json> {
 public:
  Events(const std::vector<std::string>* wanted, std::vector<JsonRow::Value>* values)
      : wanted_(wanted), values_(values) {}

  bool null() override {
    current_ = depth_ == 1 ? kNone : current_;
    return at_value();
  }
  bool boolean(bool value) override { return put(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return put(fmt::format_int(value).c_str()); }
  bool number_unsigned(number_unsigned_t value) override { return put(fmt::format_int(value).c_str()); }
  bool number_float(number_float_t, const string_t& text) override { return put(text); }
  bool string(string_t& text) override { return put(text); }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& text) override {
    if (depth_ != 1) return true;
    if (wanted_ == nullptr) {
      keys.push_back(std::move(text));
      return true;
    }
    const auto at = std::find(wanted_->begin(), wanted_->end(), text);
    current_ = at == wanted_->end() ? kNone : static_cast<std::size_t>(at - wanted_->begin());
    if (current_ != kNone && (*values_)[current_].present) {
      problem = fmt::format("the key {} is given twice", files::shown(text));
      return false;
    }
    return true;
  }
  bool start_object(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override {
    if (current_ != kNone && depth_ == 1) (*values_)[current_].present = true;
    return depth_ == 0 ? at_value() : open();
  }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& e) override {
    std::string_view reason = e.what();  // "[json.exception.parse_error.101] parse error at line 1, column 9: ..."
    if (const std::size_t at = reason.find("] "); at != std::string_view::npos) reason.remove_prefix(at + 2);
    if (const std::size_t at = reason.find("at line 1, "); at != std::string_view::npos) reason.remove_prefix(at + 11);
    problem = fmt::format("not a JSON object: {}", reason);
    return false;
  }

  std::vector<std::string> keys;
  std::string problem;

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  // A value outside of any object: the line is JSON, but not what is needed.
  bool at_value() {
    if (depth_ > 0) return true;
    problem = "one JSON object per line is needed";
    return false;
  }
  bool open() {
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    if (depth_ == 1) current_ = kNone;
    return true;
  }
  bool put(std::string_view text) {
    if (!at_value()) return false;
    if (current_ == kNone || depth_ > 2) return true;
    JsonRow::Value& value = (*values_)[current_];
    if (depth_ == 2 && !value.text.empty()) value.text += ' ';
    value.text += text;
    value.present = true;
    if (depth_ == 1) current_ = kNone;
    return true;
  }

  const std::vector<std::string>* wanted_;
  std::vector<JsonRow::Value>* values_;
  std::size_t current_ = kNone;  // index of the wanted key whose value comes
  int depth_ = 0;
};

}  // namespace

Result<std::vector<std::string>> JsonRow::keys(std::string_view line) {
  Events events(nullptr, nullptr);
  nlohmann::json::sax_parse(line.begin(), line.end(), &events);
  if (!events.problem.empty()) return fail("{}", events.problem);
  return std::move(events.keys);
}

JsonRow::JsonRow(std::vector<std::string> wanted) : wanted_(std::move(wanted)), values_(wanted_.size()) {}

std::string JsonRow::read(std::string_view line) {
  for (Value& value : values_) {
    value.text.clear();
    value.present = false;
  }
  Events events(&wanted_, &values_);
  nlohmann::json::sax_parse(line.begin(), line.end(), &events);
  return std::move(events.problem);
}

}  // namespace muster::workload
