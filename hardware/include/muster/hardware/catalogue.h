// The devices, MIG profiles and nodes that muster knows by key, and how others are added by file.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/core/result.h"
#include "muster/hardware/gpu.h"

namespace muster::hardware {

class Catalogue {
 public:
  static Result<Catalogue> built_in();              // data/gpus/*.yaml, data/mig.yaml, data/nodes.yaml
  Result<void> add_file(const std::string& path);   // a GPU or node file of the same format; replaces an equal key

  std::span<const Gpu> gpus() const { return gpus_; }            // whole devices, sorted by key
  std::span<const MigConfig> mig() const { return mig_; }
  std::span<const Node> nodes() const { return nodes_; }         // sorted by key

  // `what`: a GPU key, or "gpu/profile" for a MIG slice: memory of the slice, its share of compute (compute slices),
  // of bandwidth and price (memory slices), and no link to other slices. Fails with "did you mean", and for a profile that
  // the GPU does not have with the list of those it has.
  Result<Gpu> find(const std::string& what) const;
  std::vector<Gpu> slices_of(const Gpu& gpu) const;              // without the "+me" variants
  // The node that muster assumes for a GPU when none is named: the largest scale-up domain, then the first key.
  std::optional<Node> usual_node(const std::string& gpu) const;
  Result<Node> find_node(const std::string& key) const;

 private:
  std::vector<Gpu> gpus_;
  std::vector<MigConfig> mig_;
  std::vector<Node> nodes_;
};

}  // namespace muster::hardware
