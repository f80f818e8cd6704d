# Sourced by the end-to-end tests. Usage of a test: NAME.sh BINARY ROOT
set -u
muster=$1
root=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export MUSTER_CATALOG=$work/catalog NO_COLOR=1
failures=0

complain() { failures=$((failures + 1)); printf 'FAILED: %s\n' "$*"; }

# expect CODE TEXT ARGUMENT...: muster ARGUMENT... exits with CODE and says TEXT on stdout or stderr.
expect() {
  local code=$1 text=$2
  shift 2
  "$muster" "$@" >"$work/stdout" 2>"$work/stderr" </dev/null
  local got=$?
  [ "$got" -eq "$code" ] || complain "muster $*: exit $got, wanted $code: $(head -c 600 "$work/stderr")"
  cat "$work/stdout" "$work/stderr" | grep -qF -- "$text" || complain "muster $*: does not say '$text': $(head -c 600 "$work/stderr")"
}

finish() {
  [ "$failures" -eq 0 ] && echo "all expectations hold" && exit 0
  echo "$failures expectations failed"
  exit 1
}
