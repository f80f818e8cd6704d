# Bad input of every kind: exit code 2 (or 1 when the answer is no), a message that says where and what, never a crash and
# never a half-written file.
. "$(dirname "$0")/lib.sh"

printf 'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n' >"$work/azure.csv"
expect 0 "2 " trace show "$work/azure.csv"

# Traces.
yes "$(cat "$work/azure.csv" | tail -1)" | head -20000 | sed '1i TIMESTAMP,ContextTokens,GeneratedTokens' | gzip >"$work/whole.csv.gz"
head -c $(($(stat -c %s "$work/whole.csv.gz") * 2 / 3)) "$work/whole.csv.gz" >"$work/cut.csv.gz"
expect 0 "20,000" trace show "$work/whole.csv.gz"
expect 2 "cut.csv.gz" trace show "$work/cut.csv.gz"
printf 'when,how,what\n1,2,3\n' >"$work/header.csv"
expect 2 "header.csv" trace show "$work/header.csv"
printf 'arrival_s,input_tokens,output_tokens\n0,-5,3\n' >"$work/negative.csv"
expect 2 "negative.csv:2" trace show "$work/negative.csv"
printf 'arrival_s,input_tokens,output_tokens\n0,5,3\n1,99999999999,3\n' >"$work/absurd.csv"
expect 2 "absurd.csv:3" trace show "$work/absurd.csv"
printf 'arrival_s,input_tokens,output_tokens\nnan,5,3\n' >"$work/nan.csv"
expect 2 "nan.csv:2" trace show "$work/nan.csv"
printf 'arrival_s,input_tokens,output_tokens\n5,5,3\n1,7,3\n' >"$work/unsorted.csv"
expect 0 "out of order" trace show "$work/unsorted.csv"
: >"$work/empty.csv"
expect 2 "empty.csv" trace show "$work/empty.csv"
expect 2 "no-such-file" trace show "$work/no-such-file.csv"
expect 2 "$work" trace show "$work"
head -c 5000 /dev/urandom >"$work/noise.csv"
expect 2 "noise.csv" trace show "$work/noise.csv"
printf '{"timestamp": 0, "input_length": 5, "output_length": 3, "hash_ids": [1]}\n{"timestamp": 1, "input' >"$work/cut.jsonl"
expect 2 "cut.jsonl:2" trace show "$work/cut.jsonl"

# Models, devices, layouts.
expect 2 "did you mean llama-3.1-70b?" plan --model llama-3.1-70 --gpu h100-sxm
expect 2 "did you mean h100-sxm?" plan --model llama-3.1-70b --gpu h100sxm
expect 2 "h100-sxm" plan --model llama-3.1-8b --gpu h100-sxm/9g.99gb
expect 2 "did you mean vllm?" plan --model llama-3.1-8b --gpu h100-sxm --engine vlm
expect 2 "did you mean fp8?" plan --model llama-3.1-8b --gpu h100-sxm --precision fp88
expect 1 "5" plan --model qwen3-14b --gpu h100-sxm --tp 5 --precision bf16
expect 1 "slice" plan --model llama-3.1-70b --gpu h100-sxm/1g.10gb --tp 8
expect 2 "--modle" plan --modle llama-3.1-8b
expect 2 "did you mean --model?" plan --modle llama-3.1-8b
expect 2 "did you mean size?" sise
expect 2 "--tp" plan --model llama-3.1-8b --gpu h100-sxm --tp 0
printf '{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096' >"$work/config.json"
expect 2 "config.json" plan --model "$work/config.json" --gpu h100-sxm
printf '{"model_type": "llama", "hidden_size": -1}' >"$work/config.json"
expect 2 "config.json" plan --model "$work/config.json" --gpu h100-sxm
expect 2 "either --concurrency or --rate" predict --model llama-3.1-8b --gpu h100-sxm

# Fleet and size files.
cat >"$work/fleet.yaml" <<'Y'
fleet: chat
pools:
  - name: p
    model: llama-3.1-8b
    engine: vllm@0.19
    gpu: h100-sxm
    replica: {initial: 2}
Y
expect 2 "fleet.yaml:7" simulate "$work/fleet.yaml" --trace "$work/azure.csv"
expect 2 "did you mean replicas?" simulate "$work/fleet.yaml" --trace "$work/azure.csv"
sed -i 's/replica: /replicas: /' "$work/fleet.yaml"
expect 0 "2" simulate "$work/fleet.yaml" --trace "$work/azure.csv"
expect 2 "--trace" simulate "$work/fleet.yaml"
sed 's/llama-3.1-8b/llama-3.1-405b/' "$work/fleet.yaml" >"$work/huge.yaml"
expect 1 "does not run" simulate "$work/huge.yaml" --trace "$work/azure.csv"
printf 'fleet: [unclosed\n' >"$work/broken.yaml"
expect 2 "broken.yaml" simulate "$work/broken.yaml" --trace "$work/azure.csv"

cat >"$work/size.yaml" <<Y
fleet: chat
model: llama-3.1-8b
gpu: h100-sxm
zones: [a, b]
traffic: {profile: $root/examples/profiles/azure-conv.yaml, scale: 1, peak_window_s: 60}
slo: {e2e_p95_ms: 30}
Y
expect 1 "infeasible; the nearest feasible target is" size "$work/size.yaml" --out "$work/out" --seeds 2
[ ! -e "$work/out/fleet.yaml" ] || complain "a fleet file was written although no fleet meets the SLO"
sed 's/e2e_p95_ms: 30/e2e_p95_ms: 30000/' "$work/size.yaml" >"$work/fine.yaml"
mkdir "$work/readonly" && : >"$work/readonly/file"
expect 2 "file" size "$work/fine.yaml" --out "$work/readonly/file/below" --seeds 2
sed 's/h100-sxm/l4/; s/llama-3.1-8b/llama-3.1-405b/' "$work/fine.yaml" >"$work/nofit.yaml"
expect 1 "fits none of l4" size "$work/nofit.yaml" --out "$work/out" --seeds 2


# Measured rows, logs and tables.
printf 'model_key,gpu_key,tpot_ms\nqwen3-32b,h100-sxm,ten\n' >"$work/rows.csv"
expect 2 "rows.csv:2" validate --measured "$work/rows.csv"
printf 'model_key,isl\nqwen3-32b,1\n' >"$work/rows.csv"
expect 2 "gpu_key" validate --measured "$work/rows.csv"
printf 'nothing of interest\n' >"$work/other.log"
expect 2 "GPU KV cache size" calibrate --startup-log "$work/other.log"
expect 2 "startup-log" calibrate
expect 2 "dense.csv" predict --model llama-3.1-8b --gpu rtx4090 --tp 1 --max-model-len 4096 --concurrency 2 --layer-tables "$work/none"

finish
