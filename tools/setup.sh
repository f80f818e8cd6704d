# Sourced by ./muster and ./check: installs what is missing, configures and builds.
# Debian 12 and Ubuntu 24.04 use the same package names for all of these.
set -euo pipefail

build_packages="g++ cmake ninja-build libfmt-dev libcli11-dev libyaml-cpp-dev nlohmann-json3-dev zlib1g-dev libjs-chart.js"
test_packages="libgtest-dev libgmock-dev"

say() { printf 'muster: %s\n' "$*" >&2; }

# install PACKAGE...: those that are missing, with apt; nothing is asked and nothing else is touched.
install() {
  local missing=() package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  say "installing ${missing[*]}"
  local as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  "${as_root[@]}" apt-get update -qq >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# configure PRESET [ARGUMENT...]: only when the build folder is new or an argument is given.
configure() {
  local preset=$1
  shift
  if [ $# -gt 0 ] || [ ! -f "build/$preset/build.ninja" ]; then
    cmake --preset "$preset" "$@" >"build-$preset.log" 2>&1 || { cat "build-$preset.log" >&2; rm -f "build-$preset.log"; return 1; }
    rm -f "build-$preset.log"
  fi
}
