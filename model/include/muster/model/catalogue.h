// The models that muster knows by key, and how others are added by file.
#pragma once

#include <string>
#include <vector>

#include "muster/core/result.h"
#include "muster/model/spec.h"

namespace muster::model {

class Catalogue {
 public:
  // The models built into the binary (data/models/*.yaml).
  static Result<Catalogue> built_in();

  // Adds or replaces the model in a file of the format of data/models (docs/formats/catalogue.md), or a config.json.
  Result<void> add_file(const std::string& path);

  std::vector<std::string> keys() const;  // sorted
  // `what`: a catalogue key, or a path to a config.json or a model file. Fails with "did you mean".
  Result<ModelSpec> find(const std::string& what) const;

 private:
  std::vector<ModelSpec> models_;  // sorted by key
};

}  // namespace muster::model
