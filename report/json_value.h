// How figures and documents are written in JSON, for the result documents and for the data inside the page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace muster::report {

// `digits` significant digits; a whole number as an integer; null for what is not finite.
nlohmann::ordered_json number_json(double x, int digits);
std::string dump(const nlohmann::ordered_json& document, int indent);  // indent -1: one line

}  // namespace muster::report
