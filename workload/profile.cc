#include "muster/workload/profile.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "muster/files/document.h"

namespace muster::workload {
namespace {

constexpr std::size_t kWindowsMax = 1'000'000;
constexpr std::size_t kBinsMax = 10'000;

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", c);
    else if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out + '"';
}

// "[1, 2, 3]", wrapped to about 110 columns; later lines are indented by `indent`.
std::string listed(const std::vector<double>& values, std::size_t indent) {
  std::string out = "[";
  std::size_t column = indent;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string text = fmt::format("{}", values[i]);
    if (i > 0) out += ',';
    if (column + text.size() > 108) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (i > 0) {
      out += ' ';
    }
    out += text;
    column += text.size() + 2;
  }
  return out + "]";
}

// What a Profile must hold beyond the kinds of its fields; empty if it does.
std::string problem_of(const Profile& p) {
  const auto bad_rate = [](double r) { return !(r >= 0) || r > 1e9; };
  if (p.rate_curve_rps.empty() || p.rate_curve_rps.size() > kWindowsMax)
    return fmt::format("rate_curve_rps has {} values; 1 to {} are needed", p.rate_curve_rps.size(), kWindowsMax);
  if (std::any_of(p.rate_curve_rps.begin(), p.rate_curve_rps.end(), bad_rate))
    return "rate_curve_rps has a rate under 0 or over 1e9";
  if (p.peak_rate_rps() <= 0) return "rate_curve_rps is 0 everywhere; some traffic is needed";
  if (!(p.rate_window_s >= 1e-6) || p.rate_window_s > 1e7)
    return fmt::format("rate_window_s is {}; 1e-6 to 1e7 is needed", p.rate_window_s);
  if (!(p.interarrival_cv >= 0) || p.interarrival_cv > 1000)
    return fmt::format("interarrival_cv is {}; 0 to 1000 is needed", p.interarrival_cv);
  if (!(p.on_share > 0) || p.on_share > 1)
    return fmt::format("on_share is {}; over 0 and up to 1 is needed", p.on_share);
  if (!(p.burst_s > 0) || p.burst_s > 1e7)
    return fmt::format("burst_s is {}; over 0 and up to 1e7 is needed", p.burst_s);
  if (p.probabilities.size() < 2 || p.probabilities.front() != 0 || p.probabilities.back() != 1)
    return "probabilities must begin with 0 and end with 1";
  for (std::size_t i = 1; i < p.probabilities.size(); ++i)
    if (!(p.probabilities[i] > p.probabilities[i - 1])) return "probabilities must rise";
  return {};
}

Result<std::vector<double>> read_quantiles(const files::Node& node, const Profile& profile) {
  std::vector<double> values;
  for (const files::Node& item : node.items()) {
    MUSTER_TRY(const double value, item.number());
    if (value < 0 || value > static_cast<double>(kTokensMax))
      return item.error(fmt::format("found {}; 0 to {} tokens are needed", value, kTokensMax));
    if (!values.empty() && value < values.back())
      return item.error(fmt::format("found {} after {}; quantiles must not fall", value, values.back()));
    values.push_back(value);
  }
  if (values.size() != profile.probabilities.size())
    return node.error(fmt::format("found {} quantiles; {} are needed, one per probability", values.size(),
                                  profile.probabilities.size()));
  return values;
}

Result<LengthBin> read_bin(const files::Node& node, const Profile& profile) {
  files::MapReader read(node);
  const auto input = read.required_child("input_tokens");
  const auto output = read.required_child("output_tokens");
  MUSTER_TRY_VOID(read.finish());
  LengthBin bin;
  MUSTER_TRY(bin.input_quantiles, read_quantiles(*input, profile));
  MUSTER_TRY(bin.output_quantiles, read_quantiles(*output, profile));
  return bin;
}

Result<Profile> from_document(const files::Node& root) {
  Profile profile;
  files::MapReader read(root);
  read.required("name", profile.name);
  read.optional("source", profile.source);
  read.optional("requests", profile.requests);
  read.required("rate_window_s", profile.rate_window_s);
  read.required("rate_curve_rps", profile.rate_curve_rps);
  read.optional("interarrival_cv", profile.interarrival_cv);
  read.optional("on_share", profile.on_share);
  read.optional("burst_s", profile.burst_s);
  read.required("probabilities", profile.probabilities);
  const auto bins = read.required_child("bins");
  MUSTER_TRY_VOID(read.finish());
  if (const std::string problem = problem_of(profile); !problem.empty()) return root.error(problem);
  const std::vector<files::Node> items = bins->items();
  if (items.empty() || items.size() > kBinsMax)
    return bins->error(
        fmt::format("found {} bins in {}; a list of 1 to {} is needed", items.size(), bins->found(), kBinsMax));
  for (const files::Node& item : items) {
    MUSTER_TRY(LengthBin bin, read_bin(item, profile));
    profile.bins.push_back(std::move(bin));
  }
  return profile;
}

}  // namespace

double Profile::mean_rate_rps() const {
  if (rate_curve_rps.empty()) return 0;
  return std::accumulate(rate_curve_rps.begin(), rate_curve_rps.end(), 0.0) /
         static_cast<double>(rate_curve_rps.size());
}

double Profile::peak_rate_rps() const {
  return rate_curve_rps.empty() ? 0 : *std::max_element(rate_curve_rps.begin(), rate_curve_rps.end());
}

Result<Profile> read_profile(const std::string& path) {
  MUSTER_TRY(const files::Node root, files::read_document(path));
  return from_document(root);
}

Result<Profile> parse_profile(std::string_view text, const std::string& file_name) {
  MUSTER_TRY(const files::Node root, files::parse_document(text, file_name));
  return from_document(root);
}

std::string to_yaml(const Profile& profile) {
  std::string out = "# Workload profile of muster; the fields are explained in docs/formats/workload-profile.md\n";
  out += fmt::format("name: {}\n", quoted(profile.name));
  out += fmt::format("source: {}\n", quoted(profile.source));
  out += fmt::format("requests: {}\n", profile.requests);
  out += fmt::format("rate_window_s: {}\n", profile.rate_window_s);
  out += fmt::format("rate_curve_rps:\n  {}\n", listed(profile.rate_curve_rps, 3));
  out += fmt::format("interarrival_cv: {}\n", profile.interarrival_cv);
  out += fmt::format("on_share: {}\n", profile.on_share);
  out += fmt::format("burst_s: {}\n", profile.burst_s);
  out += fmt::format("probabilities: {}\n", listed(profile.probabilities, 16));
  out += "bins:\n";
  for (const LengthBin& bin : profile.bins) {
    out += fmt::format("  - input_tokens: {}\n", listed(bin.input_quantiles, 20));
    out += fmt::format("    output_tokens: {}\n", listed(bin.output_quantiles, 20));
  }
  return out;
}

}  // namespace muster::workload
