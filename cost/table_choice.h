// Which fitted table speaks for a device and an engine.
#pragma once

#include <string>

#include "muster/cost/memory.h"
#include "operator_table.h"

namespace muster::cost {

struct TableChoice {
  const OperatorTable* table = nullptr;  // nullptr: none is near enough; the bare roofline is used
  bool same_device = false;              // else: the nearest of its architecture, by factor over its own roofline
  bool same_engine = false;
  std::string text;  // "h100-sxm, vllm 0.24.0", and for borrowed ones why
};
std::string describe(const OperatorTable& table);  // "h100-sxm, vllm 0.24.0"
TableChoice choose_table(const hardware::Gpu& gpu, const std::string& engine);

// The table of the same device for the other engine: for operators that the first one lacks. May be nullptr.
const OperatorTable* other_engine_table(const OperatorTable& table);

}  // namespace muster::cost
