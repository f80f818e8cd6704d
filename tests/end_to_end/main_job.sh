# The main job, small: size writes three files, the answer repeats to the last bit whatever the number of threads, and the
# fleet file that it wrote simulates and keeps its targets.
. "$(dirname "$0")/lib.sh"

cat >"$work/size.yaml" <<Y
fleet: chat
model: llama-3.1-8b
engine: vllm@0.19
gpu: h100-sxm
zones: [a, b]
traffic: {profile: $root/examples/profiles/azure-conv.yaml, scale: 10, peak_window_s: 60}
slo: {ttft_p95_ms: 2000, e2e_p95_ms: 20000}
Y
expect 0 "Wrote" size "$work/size.yaml" --out "$work/one" --seeds 3 --threads 1
expect 0 '"replicas"' size "$work/size.yaml" --out "$work/two" --seeds 3 --threads 2 --json
for file in fleet.yaml report.html result.json; do [ -s "$work/one/$file" ] || complain "$file was not written"; done
strip() { grep -vE 'wall_s"|"fleet_file"' "$1"; }
[ "$(strip "$work/one/result.json")" = "$(strip "$work/two/result.json")" ] || complain "the answer depends on the number of threads"
cmp -s "$work/stdout" "$work/two/result.json" || complain "--json prints something else than result.json"
cmp -s "$work/one/fleet.yaml" "$work/two/fleet.yaml" || complain "fleet.yaml differs between two runs"
for name in replicas standby gpus layout zones headroom usd_h binding relax confidence replicas_at_95 evidence at_n at_n_minus_1 \
  zone_loss fleet_file; do
  grep -q "\"$name\"" "$work/one/result.json" || complain "result.json lacks $name"
done
grep -qE '(src|href)="https?:' "$work/one/report.html" && complain "report.html loads something from the network"

simulate() { "$muster" simulate "$work/one/fleet.yaml" --profile "$root/examples/profiles/azure-conv.yaml" --scale 10 --json "$@" 2>/dev/null; }
digest() { grep '"digest"' | head -1; }
first=$(simulate | digest)
[ -n "$first" ] || complain "simulate printed no digest"
[ "$first" = "$(simulate | digest)" ] || complain "two runs of one seed differ"
[ "$first" = "$(simulate --step-by-step | digest)" ] || complain "jumping over alike steps changes the result"
[ "$first" != "$(simulate --seed 2 | digest)" ] || complain "another seed gives the same run"
expect 0 "TTFT" simulate "$work/one/fleet.yaml" --profile "$root/examples/profiles/azure-conv.yaml" --scale 10 --out "$work/replay"
[ -s "$work/replay/report.html" ] || complain "simulate wrote no report"

finish
