# Replications and comparisons: a replication is the run of its seed, nothing depends on the number of threads, a fleet does
# not differ from itself, and the better of two is named.
. "$(dirname "$0")/lib.sh"

fleet() { cat >"$work/$1.yaml" <<Y
fleet: $1
pools:
  - {name: chat, model: llama-3.1-8b, engine: vllm@0.19, gpu: h100-sxm, replicas: {initial: $2}, zones: [a, b]}
classes:
  - {name: interactive, rank: 0, slo: {e2e_p95_ms: $3}}
Y
}
fleet small 1 60000
fleet large 2 60000
fleet strict 1 5
traffic="--profile $root/examples/profiles/azure-conv.yaml --scale 2"
strip() { grep -v 'wall_s"'; }

# shellcheck disable=SC2086
{
  one=$("$muster" simulate "$work/small.yaml" $traffic --replications 3 --threads 1 --json 2>/dev/null | strip)
  two=$("$muster" simulate "$work/small.yaml" $traffic --replications 3 --threads 3 --json 2>/dev/null | strip)
  [ -n "$one" ] && [ "$one" = "$two" ] || complain "replications depend on the number of threads"
  third=$("$muster" simulate "$work/small.yaml" $traffic --seed 3 --json 2>/dev/null | grep -m1 '"digest"' | grep -oE '[0-9a-f]{16}')
  case $one in *"$third"*) ;; *) complain "replication 3 is not the run of seed 3" ;; esac
  for name in uncertainty replications_in_slo warm_up estimates ttft_ms.p95 '"Student t"'; do
    case $one in *"$name"*) ;; *) complain "the document lacks $name" ;; esac
  done
  expect 0 "95 % intervals of this run" simulate "$work/small.yaml" $traffic
  expect 0 "MSER-5" simulate "$work/small.yaml" $traffic --warm-up auto
  expect 0 "the first 5 min do not count" simulate "$work/small.yaml" $traffic --warm-up-s 300
  expect 2 "seconds (0 or more) or auto" simulate "$work/small.yaml" $traffic --warm-up soon
  expect 1 "0 of 2 replications" simulate "$work/strict.yaml" $traffic --replications 2

  expect 0 "No deciding figure" simulate "$work/small.yaml" --versus "$work/small.yaml" $traffic
  expect 0 "B is better" simulate "$work/small.yaml" --versus "$work/large.yaml" $traffic --out "$work/versus"
  grep -q "Request by request" "$work/versus/report.html" || complain "the page of a comparison lacks its pairs"
  expect 0 "A is better" simulate "$work/large.yaml" --versus "$work/small.yaml" $traffic --replications 3
  awk 'length > 80 { exit 1 }' "$work/stdout" || complain "the comparison is wider than 80 columns"
  expect 0 '"comparison"' simulate "$work/large.yaml" --versus "$work/small.yaml" $traffic --replications 2 --json
}

finish
