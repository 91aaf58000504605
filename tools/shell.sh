# What ./run, ./test and .ci/run share: where output goes, and Debian packages. Sourced by bash, with the repository as the
# current directory.

say() { printf '\n==> %s\n' "$*"; }

fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 2
}

# Debian packages by purpose. README.md has the reason of each library.
packages_to_run=(g++ cmake ninja-build curl ca-certificates nlohmann-json3-dev libutf8proc-dev libboost1.81-dev libedit-dev
                 libcli11-dev libxxhash-dev libssl-dev prometheus-cpp-dev libyaml-cpp-dev)
packages_to_test=(git libgtest-dev libgmock-dev python3 python3-venv)
packages_to_bench=(libbenchmark-dev)
packages_to_check=(clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14 valgrind chromium)

# Prints those of the given packages that are not installed.
missing_packages() {
  local package
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null) == i* ]] || printf '%s\n' "$package"
  done
}

# Installs what is missing of the given packages: nothing to do needs neither a network nor rights.
need_packages() {
  local missing as_root=()
  if ! command -v dpkg-query >/dev/null; then
    say "This is no Debian system; going on, as if these were installed: $*"
    return
  fi
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  say "Installing Debian packages: ${missing[*]}"
  if ((EUID != 0)); then
    command -v sudo >/dev/null || fail "these Debian packages are missing, and there is no sudo: as root, run
  apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}

# start_server LOG ARGUMENTS...: `stoker serve` of build/release on a free port. Sets $server to its process, and $url once it is ready.
start_server() {
  local log=$1
  build/release/stoker serve "${@:2}" --port 0 2>"$log" &
  server=$!
  url=
  for _ in $(seq 300); do
    url=$(sed -n 's/.*stoker: ready; .* at \(http:[^ ]*\).*/\1/p' "$log")
    [[ -z $url ]] || return 0
    kill -0 "$server" 2>/dev/null || { cat "$log" >&2 && fail "the server ended"; }
    sleep 0.2
  done
  fail "the server did not get ready"
}

# Configures build/PRESET and builds the given targets (all, if none), with the options of cmake in $configure.
configure=()
build_preset() {
  local preset=$1 targets=("${@:2}")
  cmake --preset "$preset" "${configure[@]}" --log-level=WARNING &&
    cmake --build --preset "$preset" ${targets[@]:+--target "${targets[@]}"}
}
