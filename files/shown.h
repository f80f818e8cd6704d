// How a piece of a foreign file appears inside a message.
#pragma once

#include <string>
#include <string_view>

namespace muster::files {

// `"text"`, cut to 60 bytes, with control bytes written as \x07: a damaged file must not garble the terminal.
std::string shown(std::string_view text);

}  // namespace muster::files
