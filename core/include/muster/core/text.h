// Small text helpers that every error message needs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// The candidate closest to `word` by edit distance, when close enough to be a slip of the pen; else empty.
std::string_view nearest(std::string_view word, std::span<const std::string> candidates);

// " (did you mean llama-3.1-70b?)", or "" when nothing is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

std::vector<std::string_view> split(std::string_view text, char separator);  // keeps empty fields
std::string_view trim(std::string_view text);                                // ASCII white space
std::string lower(std::string_view text);                                    // ASCII only
std::string join(std::span<const std::string> parts, std::string_view separator);

}  // namespace muster
