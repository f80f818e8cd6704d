// A fleet file with some of its values set from outside: what `muster sweep --set` varies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/core/result.h"

namespace muster::app {

// A path is the field's place in the file, its steps joined by dots; an item of a list is its number from 0 or, where
// items have names, its name: "pools.0.replicas.initial", "pools.chat-70b.parallel.tp", "routing.policy".
// A value is YAML: "12", "fp8", "[a, b]"; "null" takes the field away.
struct Setting {
  std::string path, value;
};

std::string text(const std::vector<Setting>& settings);  // "pools.0.replicas.initial=4 routing.policy=least-work"

// The document `yaml` with `settings` made, as JSON (which is YAML). Fields that are not there yet are made: whether
// they mean anything is for the reader of the file to say. Fails on a list item that does not exist (did you mean) and
// on a step below a plain value.
Result<std::string> edited(std::string_view yaml, const std::string& file_name, const std::vector<Setting>& settings);

}  // namespace muster::app
