#!/usr/bin/env bash
# Requests that a machine makes from /openapi.json, good and bad ones, against a server: see usage below.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/shell.sh

usage() {
  cat <<'END'
usage: tools/check_openapi.sh [MAX_EXAMPLES [SEED]]

Builds build/release, serves tests/data/small/checkpoint with all routes but those of administrators, and lets Schemathesis make up to
MAX_EXAMPLES [50] random requests of each operation, beside those at the edges of its schemas. No answer may be a fault of the server, and
each has a status and a media type that the document has. Installs tools/check_openapi_requirements.txt from PyPI into build/openapi-venv.
Some minutes; exit code 0 if all is well.
END
}

if (($# > 2)) || [[ ${1:-} == -* ]]; then
  usage
  [[ ${1:-} == -h || ${1:-} == --help ]] && exit 0
  exit 2
fi
examples=${1:-50} seed=${2:-1}

need_packages "${packages_to_run[@]}" python3 python3-venv
build_preset release stoker
venv=build/openapi-venv
[[ -x $venv/bin/schemathesis ]] ||
  { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet -r tools/check_openapi_requirements.txt; }

work=$(mktemp -d)
server=
finish() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  wait
  rm -rf "$work"
}
trap finish EXIT

start_server "$work/server.log" tests/data/small/checkpoint --max-model-len 128 --batch-dir "$work/batches" \
  --enable-tokenizer-info-endpoint

schemathesis=$PWD/$venv/bin/schemathesis
cd "$work"  # it keeps notes where it runs
"$schemathesis" run "$url/openapi.json" --max-examples "$examples" --seed "$seed" --phases coverage,fuzzing \
  --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
  --continue-on-failure --request-timeout 60 --suppress-health-check all
kill -0 "$server" 2>/dev/null || fail "the server ended"
say "All is well"
