# Every engine's pool runs its own scheduler, and jumping over alike steps gives what stepping gives.
. "$(dirname "$0")/lib.sh"

digests=
for engine in vllm sglang tensorrt-llm llama.cpp muster; do
  cat >"$work/$engine.yaml" <<Y
fleet: schedulers
pools:
  - name: chat
    model: llama-3.1-8b
    engine: $engine
    gpu: h100-sxm
    precision: bf16
    parallel: {tp: 1, pp: 1}
    replicas: {initial: 2}
    zones: [a]
classes:
  - {name: interactive, rank: 0, slo: {ttft_p95_ms: 2000, tpot_p95_ms: 40}}
Y
  simulate() { "$muster" simulate "$work/$engine.yaml" --profile "$root/examples/profiles/azure-conv.yaml" --scale 2 --json "$@" 2>"$work/stderr"; }
  digest() { grep '"digest"' | head -1; }
  jumping=$(simulate | digest)
  [ -n "$jumping" ] || complain "$engine: no digest: $(head -c 600 "$work/stderr")"
  [ "$jumping" = "$(simulate --step-by-step | digest)" ] || complain "$engine: jumping over alike steps changes the result"
  case $digests in *"$jumping"*) complain "$engine: the same run as another engine" ;; esac
  digests="$digests $jumping"
done

finish
