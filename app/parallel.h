// Runs independent jobs on a few threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace muster::app {

// job(0) ... job(count - 1), each once, on at most `threads` threads; returns when all are done. Jobs must not throw
// and must write to places of their own; so the results do not depend on the number of threads.
template <class Job>
void parallel_for(std::size_t count, int threads, Job job) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) job(i);
  };
  std::vector<std::jthread> helpers;
  const std::size_t wanted = std::min<std::size_t>(count, static_cast<std::size_t>(std::max(1, threads)));
  for (std::size_t i = 1; i < wanted; ++i) helpers.emplace_back(work);
  work();
}

inline int default_threads() {
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace muster::app
