# What simulate writes beside its result: a line per request, trace events, the time series, the pipeline's bubbles.
. "$(dirname "$0")/lib.sh"

fleet=$root/examples/pipeline-70b.yaml
"$muster" trace synth "$root/examples/profiles/azure-conv.yaml" --duration 60 --rate 4 --out "$work/made.csv" >/dev/null
made=$(($(wc -l <"$work/made.csv") - 1))

expect 0 "bubbles" simulate "$fleet" --trace "$work/made.csv" --out "$work/out" --requests "$work/r.jsonl" \
  --trace-events "$work/t.json.gz" --trace-window 20s..30s --trace-replicas 1 --series "$work/s.csv" --resolution 5
[ "$(wc -l <"$work/r.jsonl")" -eq "$made" ] || complain "not a line per request"
grep -q '"ttft_ms":[0-9]' "$work/r.jsonl" || complain "the lines have no ttft_ms"
gzip -dc "$work/t.json.gz" | grep -q '"ph":"X","cat":"step".*"pid":101,"tid":4' || complain "no steps of replica 1's last stage"
gzip -dc "$work/t.json.gz" | grep -q '"pid":100' && complain "replica 0 is in the trace events"
grep -q '^10,' "$work/s.csv" || complain "no sample at 10 s"
grep -q 'id="pipeline"' "$work/out/report.html" || complain "the report shows no pipeline"
grep -q '"bubble_share": 0.[0-9]' "$work/out/result.json" || complain "no bubble_share"
expect 0 '"digest": "'"$(sed -n 's/.*"digest": "\(.*\)".*/\1/p' "$work/out/result.json")" simulate "$fleet" --trace "$work/made.csv" --json

expect 2 "a begin and an end" simulate "$fleet" --trace "$work/made.csv" --trace-events "$work/x.json" --trace-window 20s
expect 2 "replicas from 0 to 1 are needed" simulate "$fleet" --trace "$work/made.csv" --trace-events "$work/x.json" --trace-replicas 7
expect 2 "is missing" simulate "$fleet" --trace "$work/made.csv" --trace-window 1s..2s
expect 2 "cannot be written" simulate "$fleet" --trace "$work/made.csv" --requests "$work"
[ -e "$work/x.json" ] && complain "a refused run left a file"

for scheduler in sglang static; do
  sed "s/engine: vllm@0.19/&\n    scheduler: $scheduler/" "$fleet" >"$work/$scheduler.yaml"
  expect 0 "Run" simulate "$work/$scheduler.yaml" --trace "$work/made.csv"
done
cmp -s <("$muster" simulate "$work/sglang.yaml" --trace "$work/made.csv" --json | grep '"digest"') \
  <("$muster" simulate "$work/static.yaml" --trace "$work/made.csv" --json | grep '"digest"') && complain "scheduler: changes nothing"

finish
