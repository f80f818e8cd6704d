#include "startup_log.h"

#include <gmock/gmock.h>

namespace muster::app {
namespace {

using ::testing::HasSubstr;

// The lines that matter of vLLM 0.19, tp 2: each worker prints its own.
constexpr const char* kLog =
    "INFO 04-07 10:00:01 [core.py:100] Initializing a V1 LLM engine (v0.19.0) with config: "
    "model='meta-llama/Llama-3.1-8B', "
    "speculative_config=None, tokenizer='meta-llama/Llama-3.1-8B', dtype=torch.bfloat16, max_seq_len=8192, "
    "tensor_parallel_size=2, pipeline_parallel_size=1, quantization=None, kv_cache_dtype=auto, seed=0\n"
    "(Worker_TP0 pid=7) INFO [gpu_model_runner.py:2000] Model loading took 7.51 GiB memory and 2.4 seconds\n"
    "(Worker_TP1 pid=8) INFO [gpu_model_runner.py:2000] Model loading took 7.49 GiB memory and 2.4 seconds\n"
    "(Worker_TP0 pid=7) INFO [gpu_worker.py:300] Memory profiling takes 5.1 seconds. Total non KV cache memory: "
    "11.47GiB; torch "
    "peak memory increase: 1.89GiB; non-torch forward increase memory: 2.07GiB; weights memory: 7.51GiB.\n"
    "(Worker_TP0 pid=7) INFO [gpu_worker.py:349] Available KV cache memory: 63.76 GiB\n"
    "(Worker_TP1 pid=8) INFO [gpu_worker.py:349] Available KV cache memory: 63.80 GiB\n"
    "INFO [kv_cache_utils.py:1287] GPU KV cache size: 1,044,688 tokens\n"
    "INFO [kv_cache_utils.py:1292] Maximum concurrency for 8,192 tokens per request: 127.53x\n"
    "(Worker_TP0 pid=7) INFO [gpu_model_runner.py:4000] Graph capturing finished in 11 secs, took 0.76 GiB\n";

TEST(StartupLog, ReadsTheFiguresOfEveryWorker) {
  const auto log = parse_startup_log(kLog, "start.log");
  ASSERT_TRUE(log) << log.error().message;
  EXPECT_EQ(log->version, "0.19.0");
  EXPECT_EQ(log->model, "meta-llama/Llama-3.1-8B");
  EXPECT_EQ(log->dtype, "bfloat16");
  EXPECT_EQ(log->quantization, "");
  EXPECT_EQ(log->tp, 2);
  EXPECT_EQ(log->pp, 1);
  EXPECT_EQ(log->max_model_len, 8192);
  EXPECT_DOUBLE_EQ(*log->weights_gib, 7.51);
  EXPECT_DOUBLE_EQ(*log->activation_gib, 1.89);
  EXPECT_DOUBLE_EQ(*log->non_torch_gib, 2.07);
  EXPECT_DOUBLE_EQ(*log->graph_gib, 0.76);
  EXPECT_DOUBLE_EQ(*log->kv_gib, 63.76);  // the tightest worker
  EXPECT_EQ(log->kv_tokens, 1'044'688);
  EXPECT_EQ(log->blocks(), 65'293);
}

TEST(StartupLog, ReadsOlderVersions) {
  const auto log = parse_startup_log(
      "INFO llm_engine.py:161] Initializing an LLM engine (v0.6.3) with config: model='m', "
      "gpu_memory_utilization=0.92\n"
      "INFO model_runner.py:1067] Loading model weights took 14.9888 GB\n"
      "INFO gpu_executor.py:122] # GPU blocks: 27896, # CPU blocks: 2048\n",
      "old.log");
  ASSERT_TRUE(log) << log.error().message;
  EXPECT_EQ(log->blocks(), 27'896);
  EXPECT_DOUBLE_EQ(*log->memory_fraction, 0.92);
  EXPECT_DOUBLE_EQ(*log->weights_gib, 14.9888);
}

TEST(StartupLog, SaysWhatIsMissing) {
  const auto log = parse_startup_log("llama_new_context_with_model: n_ctx = 4096\n", "other.log");
  ASSERT_FALSE(log);
  EXPECT_THAT(log.error().message, HasSubstr("other.log"));
  EXPECT_THAT(log.error().message, HasSubstr("GPU KV cache size"));
}

TEST(StartupLog, SurvivesCutAndStrangeLines) {
  const std::string text = kLog;
  for (std::size_t n = 0; n <= text.size(); n += 7) (void)parse_startup_log(text.substr(0, n), "cut");
  EXPECT_FALSE(
      parse_startup_log("GPU KV cache size: tokens\nGPU KV cache size: -5 tokens\n# GPU blocks: ,,,", "strange"));
}

}  // namespace
}  // namespace muster::app
