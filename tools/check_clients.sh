#!/usr/bin/env bash
# Clients that are too large for the tests, unmodified, against a server of the demo: see usage below.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/shell.sh

usage() {
  cat <<'END'
usage: tools/check_clients.sh [guidellm]

Builds build/release, serves the demo model, and lets others talk to it:
  lm-eval     its local-completions model on a task of 50 questions, with the server's tokenizer: all right
  Prometheus  scrapes /metrics, and every query of vLLM's example dashboard has data
Installs lm-eval from PyPI into build/clients-venv, and Debian's prometheus. Some minutes; exit code 0 if all is well.

With the argument guidellm: the vLLM project's benchmark client instead, 40 chats, 4 at a time, which all succeed. Its packages take 6 GB.
END
}

if (($#)) && [[ $* != guidellm ]]; then
  usage
  [[ $1 == -h || $1 == --help ]] && exit 0
  exit 2
fi

# install VENV PROGRAM PACKAGE: from PyPI.
install() {
  [[ -x $1/bin/$2 ]] || { python3 -m venv "$1" && "$1/bin/pip" install --quiet "$3"; }
}

need_packages "${packages_to_run[@]}" python3 python3-venv
build_preset release stoker

work=$(mktemp -d)
server= scraper=
finish() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  [[ -z $scraper ]] || kill "$scraper" 2>/dev/null || true
  wait
  rm -rf "$work"
}
trap finish EXIT

check_guidellm() {
  say "GuideLLM: 40 chats"
  venv=build/guidellm-venv
  install "$venv" guidellm guidellm==0.8.1
  start_server "$work/server.log" demo
  for i in {1..40}; do
    echo "{\"prompt\": \"What is the capital of France? $i\", \"output_tokens_count\": 16}"
  done >"$work/prompts.jsonl"
  HF_HUB_OFFLINE=1 "$venv/bin/guidellm" run --backend "kind=openai_http,target=$url,model=demo" --profile kind=concurrent,streams=4 \
    --constraint kind=max_requests,count=40 --tokenizer "kind=hf_auto,model=$PWD/models/demo" \
    --data "kind=json_file,path=$work/prompts.jsonl" --output "kind=json,path=$work/report.json" --disable-progress ||
    fail "guidellm failed"
  python3 - "$work/report.json" <<'END'
import json, sys
(benchmark,) = json.load(open(sys.argv[1]))["benchmarks"]
totals = benchmark["metrics"]["request_totals"]
print(totals)
sys.exit(totals["successful"] != 40 or totals["total"] != 40)
END
}

if [[ $* == guidellm ]]; then
  check_guidellm
  say "All is well"
  exit
fi

need_packages prometheus
venv=build/clients-venv
install "$venv" lm_eval 'lm-eval[api]==0.4.13'
start_server "$work/server.log" demo --enable-tokenizer-info-endpoint

cat >"$work/prometheus.yml" <<END
scrape_configs:
  - job_name: stoker
    scrape_interval: 1s
    static_configs: [{targets: ["${url#http://}"]}]
END
port=$((20000 + RANDOM % 20000))
prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/tsdb" --web.listen-address="127.0.0.1:$port" \
  2>"$work/prometheus.log" &
scraper=$!

say "lm-eval: 50 questions"
python3 tests/clients/capitals.py "$work"
HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 HF_HOME="$work/cache" "$venv/bin/lm_eval" --model local-completions \
  --model_args "model=demo,base_url=$url/v1/completions,tokenizer_backend=remote,tokenized_requests=True,num_concurrent=4" \
  --tasks stoker_capitals --include_path "$work" --output_path "$work/results" >"$work/lm_eval.log" 2>&1 ||
  { tail -30 "$work/lm_eval.log" >&2 && fail "lm-eval failed"; }
python3 - "$work/results" <<'END'
import json, pathlib, sys
(file,) = pathlib.Path(sys.argv[1]).rglob("results_*.json")
found = json.loads(file.read_text())["results"]["stoker_capitals"]["acc,none"]
print(f"right: {found:.2f}")
sys.exit(found < 0.98)
END

say "Prometheus: the queries of vLLM's dashboard"
python3 tests/clients/dashboard.py "http://127.0.0.1:$port" demo
say "All is well"
