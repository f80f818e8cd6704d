// The knots of every fitted grid: dense where kernels change their ways, coarse elsewhere.
#include "measured_rows.h"
#include "muster/core/check.h"

namespace muster::cost {
namespace {

void add_axis(Grid& grid, const char* name, std::vector<double> knots) {
  Axis& axis = grid.axes.emplace_back();
  axis.name = name;
  axis.knots = std::move(knots);
}

std::vector<double> octaves(double from, double to) {
  std::vector<double> knots;
  for (double x = from; x <= to; x *= 2) knots.push_back(x);
  return knots;
}

void gemm_axes(Grid& grid) {
  grid.launch_s = kGemmLaunch_s;
  // FP8 kernels step at the edges of their tiles of 64, 128 and 256 rows.
  add_axis(grid, "m", {1, 17, 32, 64, 65, 128, 129, 192, 256, 257, 512, 768, 1024, 2048, 4096, 8192, 32768});
  add_axis(grid, "n", {128, 512, 1024, 2048, 4096, 8192, 16384, 65536});
  add_axis(grid, "k", {128, 512, 1024, 2048, 4096, 8192, 16384, 65536});
}

void moe_axes(Grid& grid) {
  grid.launch_s = kMoeLaunch_s;
  add_axis(grid, "rows_per_expert", {0.01, 0.1, 0.3, 1, 2, 4, 8, 16, 32, 64, 128, 512, 1024, 4096});
  if (grid.key.ends_with(" ep")) {
    add_axis(grid, "columns", {64, 256, 1024, 2048, 4096, 16384});
    add_axis(grid, "experts", {1, 8, 32, 128});
    add_axis(grid, "ep", {2, 16});
  } else {
    add_axis(grid, "columns", {64, 256, 512, 1024, 2048, 16384});
    add_axis(grid, "experts", {8, 128, 512});
    add_axis(grid, "hidden", {2048, 6144});
  }
}

void attention_axes(Grid& grid) {
  grid.launch_s = kAttentionLaunch_s;
  if (grid.op == "prefill") {
    add_axis(grid, "length", {1, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384});
    add_axis(grid, "sequences_x_heads", {1, 4, 8, 16, 32, 64, 128, 256, 1024});
  } else {
    add_axis(grid, "length", {1, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 131072});
    add_axis(grid, "sequences_x_kv_heads", {1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 65536});
  }
  add_axis(grid, "group", {1, 4, 8, 16});
}

void mla_axes(Grid& grid) {
  grid.launch_s = kMlaLaunch_s;
  if (grid.op == "mla_prefill") {
    add_axis(grid, "length", {1, 128, 512, 1024, 2048, 4096, 8192, 32768});
    add_axis(grid, "sequences", {1, 2, 4, 16, 64, 256});
  } else {
    add_axis(grid, "length", {2, 512, 1024, 2048, 4096, 8192, 16384, 131072});
    add_axis(grid, "sequences", {1, 4, 8, 16, 32, 64, 128, 256, 1024});
  }
  add_axis(grid, "heads", {1, 16, 32, 64, 128});
}

void collective_axes(Grid& grid) {
  grid.launch_s = kCollectiveLaunch_s;
  add_axis(grid, "bytes", octaves(256, 1 << 30));
  add_axis(grid, "ranks", {2, 4, 8});
}

}  // namespace

Grid grid_of(const std::string& op, const std::string& key) {
  Grid grid;
  grid.op = op;
  grid.key = key;
  if (op == "gemm") {
    gemm_axes(grid);
  } else if (op == "moe") {
    moe_axes(grid);
  } else if (op == "prefill" || op == "decode") {
    attention_axes(grid);
  } else if (op == "mla_prefill" || op == "mla_decode") {
    mla_axes(grid);
  } else {
    MUSTER_CHECK(op == "all_reduce" || op == "all_gather", "no grid for operator {}", op);
    collective_axes(grid);
  }
  return grid;
}

}  // namespace muster::cost
