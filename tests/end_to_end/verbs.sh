# Every verb has a help with an example; traces survive fit, synth and convert; the catalogue takes the user's own entries.
. "$(dirname "$0")/lib.sh"

for verb in size simulate sweep plan predict trace catalog; do
  expect 0 "Example" "$verb" --help
  grep -q "muster $verb" "$work/stdout" || complain "the help of $verb has no worked example"
done
expect 0 "muster 0" --version

expect 0 "Wrote" trace synth "$root/examples/profiles/azure-conv.yaml" --duration 600 --rate 5 --out "$work/made.csv"
expect 0 "Rate" trace show "$work/made.csv"
expect 0 "Wrote" trace convert "$work/made.csv" --scale 2 --out "$work/twice.csv"
[ "$(wc -l <"$work/twice.csv")" -eq $((2 * ($(wc -l <"$work/made.csv") - 1) + 1)) ] || complain "--scale 2 does not double the requests"
expect 0 "Wrote" trace fit "$work/made.csv" --out "$work/made.yaml"
expect 0 "Wrote" trace synth "$work/made.yaml" --arrivals on-off --out "$work/again.csv"
for arrivals in poisson gamma on-off; do
  expect 0 "Wrote" trace synth "$work/made.yaml" --arrivals $arrivals --seed 3 --out "$work/x.csv"
  expect 0 "Wrote" trace synth "$work/made.yaml" --arrivals $arrivals --seed 3 --out "$work/y.csv"
  cmp -s "$work/x.csv" "$work/y.csv" || complain "$arrivals: one seed, two traces"
done

expect 0 "tp" plan --model llama-3.1-70b --gpu h100-sxm --explain
expect 0 '"candidates"' plan --model llama-3.1-70b --gpu h100-sxm --precision fp8 --json
expect 1 "70" plan --model llama-3.1-70b --gpu l4 --gpus 1 --precision bf16
expect 0 "TPOT" predict --model llama-3.1-8b --gpu h100-sxm --tp 1 --isl 512 --osl 128 --concurrency 16
expect 0 'tp2 fp8 on 2' predict --threads 2 --model llama-3.1-70b --gpu h100-sxm --precision fp8 --tp 2 --concurrency 4 --isl 64 --osl 8
expect 0 '"ttft_ms"' predict --model llama-3.1-8b --gpu h100-sxm --tp 1 --isl 512 --osl 128 --rate 2 --json

for what in models gpus nodes mig prices engines; do expect 0 "" catalog list $what; done
expect 0 "70553706496" catalog show llama-3.1-70b
expect 0 "no price known" catalog show gb200
expect 2 "did you mean llama-3.1-70b?" catalog show llama-3.1-70
cat >"$work/my-model.json" <<'J'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "intermediate_size": 4096,
 "num_attention_heads": 16, "num_hidden_layers": 12, "num_key_value_heads": 4, "vocab_size": 32000,
 "max_position_embeddings": 4096, "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
J
expect 0 "Added" catalog add "$work/my-model.json"
expect 0 "tp" plan --model my-model --gpu l4
expect 0 "tp" plan --model "$work/my-model.json" --gpu l4


# Measured rows and start-up logs.
printf 'engine,engine_version,model_key,gpu_key,precision,mode,load_kind,tp,isl,osl,concurrency_or_batch,tpot_ms\nvLLM,0.12.0,qwen3-32b,h100-sxm,bf16,agg,concurrency,2,1024,1024,8,15.9\nvLLM,0.12.0,bert,h100-sxm,bf16,agg,concurrency,2,1024,1024,8,15.9\n' >"$work/rows.csv"
expect 0 "1 of 2 rows" validate --measured "$work/rows.csv" --out "$work/validate"
expect 0 '"expressible": 1' validate --measured "$work/rows.csv" --json
[ -s "$work/validate/validate.html" ] && [ -s "$work/validate/rows.csv" ] || complain "validate --out wrote no page"
printf 'Model loading took 14.99 GiB memory and 3 seconds\nGPU KV cache size: 476,016 tokens\n' >"$work/start.log"
expect 0 "29,751" calibrate --startup-log "$work/start.log" --model llama-3.1-8b --gpu h100-sxm --out "$work/calibration"
grep -q "kv_blocks: 29751" "$work/calibration/calibration.yaml" || complain "calibrate wrote no blocks"

finish
