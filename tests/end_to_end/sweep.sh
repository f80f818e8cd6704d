# A sweep that is interrupted and resumed, or sharded and merged, gives the byte-same table as one run of another number of
# threads; changed inputs, missing points and unknown paths are refused.
. "$(dirname "$0")/lib.sh"

cat >"$work/fleet.yaml" <<'Y'
fleet: chat
pools:
  - {name: chat, model: llama-3.1-8b, engine: vllm@0.19, gpu: h100-sxm, replicas: {initial: 2}, zones: [a]}
classes:
  - {name: interactive, rank: 0, slo: {ttft_p95_ms: 2000}}
Y
sweep() { expect "$1" "$2" sweep "$work/fleet.yaml" --profile "$root/examples/profiles/azure-conv.yaml" --scale 0.2,1 --seeds 1..2 \
  --set pools.chat.replicas.initial=1..3 --set routing.policy=least-work,round-robin "${@:3}"; }

sweep 0 "12 variants" --threads 1 --out "$work/whole"
[ "$(wc -l <"$work/whole/points.jsonl")" -eq 25 ] || complain "points.jsonl has not one line a point and a head"
[ "$(wc -l <"$work/whole/sweep.csv")" -eq 13 ] || complain "sweep.csv has not one line a variant and a heading"
for file in sweep.json sweep.html; do [ -s "$work/whole/$file" ] || complain "$file was not written"; done
grep -qE '(src|href)="https?:' "$work/whole/sweep.html" && complain "sweep.html loads something from the network"
same() { for file in sweep.csv sweep.json sweep.html; do cmp -s "$work/whole/$file" "$1/$file" || complain "$1: another $file"; done; }

# Killed while it writes: half a line stays behind.
mkdir "$work/cut" && head -c 9000 "$work/whole/points.jsonl" >"$work/cut/points.jsonl"
sweep 0 "points are there already" --threads 2 --out "$work/cut"
same "$work/cut"
# Killed for real, at whatever point it has reached; what is there is kept.
mkdir "$work/killed"
"$muster" sweep "$work/fleet.yaml" --profile "$root/examples/profiles/azure-conv.yaml" --scale 0.2,1 --seeds 1..2 \
  --set pools.chat.replicas.initial=1..3 --set routing.policy=least-work,round-robin --threads 2 --out "$work/killed" >/dev/null 2>&1 &
until [ "$(wc -l 2>/dev/null <"$work/killed/points.jsonl" || echo 0)" -ge 4 ] || ! kill -0 $! 2>/dev/null; do :; done
kill -9 $! 2>/dev/null
wait $! 2>/dev/null
sweep 0 "12 variants" --threads 2 --out "$work/killed"
same "$work/killed"

# Three shards, two folders.
sweep 0 "8 of 24 points" --shard 1/3 --threads 2 --out "$work/shards"
sweep 0 "8 of 24 points" --shard 3/3 --threads 1 --out "$work/shards"
expect 1 "8 of 24 points are missing of shard 2 of 3" sweep --merge "$work/shards"
[ ! -e "$work/shards/sweep.csv" ] || complain "an incomplete sweep was written"
sweep 0 "8 of 24 points" --shard 2/3 --out "$work/elsewhere"
expect 0 "12 variants" sweep --merge "$work/shards" "$work/elsewhere" --out "$work/merged"
same "$work/merged"

# What does not belong together.
sed -i 's/ttft_p95_ms: 2000/ttft_p95_ms: 2001/' "$work/fleet.yaml"
sweep 2 "has changed" --out "$work/whole"
sweep 0 "8 of 24" --shard 2/3 --out "$work/other"
expect 2 "different sweeps" sweep --merge "$work/shards" "$work/other"
more() { expect "$1" "$2" sweep "$work/fleet.yaml" --profile "$root/examples/profiles/azure-conv.yaml" --out "$work/more" "${@:3}"; }
more 2 "did you mean initial?" --set pools.0.replicas.inital=1..3
more 2 "did you mean chat?" --set pools.chatt.replicas.initial=1..3
more 2 "did you mean round-robin?" --set routing.policy=round-robbin
more 2 "given twice" --set pools.0.replicas.initial=1,1
more 2 "a step above 0" --set pools.0.replicas.initial=1..3:0
more 2 "PATH=VALUES" --set pools.0.replicas.initial
more 2 "--shard 4/3" --shard 4/3
expect 2 "--out" sweep "$work/fleet.yaml" --profile "$root/examples/profiles/azure-conv.yaml"
expect 2 "no points*.jsonl" sweep --merge "$work"

finish
