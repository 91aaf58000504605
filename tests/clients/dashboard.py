"""Asks a Prometheus what vLLM's example dashboard asks it, and fails where a query has no data. Arguments: its address, the model's name."""
import json
import sys
import time
import urllib.parse
import urllib.request

RATES = [
    "histogram_quantile(0.99, sum by(le) (rate(vllm:e2e_request_latency_seconds_bucket{{{who}}}[1m])))",
    "rate(vllm:e2e_request_latency_seconds_sum{{{who}}}[1m]) / rate(vllm:e2e_request_latency_seconds_count{{{who}}}[1m])",
    "rate(vllm:prompt_tokens_total{{{who}}}[1m])",
    "rate(vllm:generation_tokens_total{{{who}}}[1m])",
    "histogram_quantile(0.9, sum by(le) (rate(vllm:inter_token_latency_seconds_bucket{{{who}}}[1m])))",
    "histogram_quantile(0.5, sum by(le) (rate(vllm:time_to_first_token_seconds_bucket{{{who}}}[1m])))",
    "sum by(le) (increase(vllm:request_prompt_tokens_bucket{{{who}}}[1m]))",
    "sum by(le) (increase(vllm:request_generation_tokens_bucket{{{who}}}[1m]))",
    "sum by(finished_reason) (increase(vllm:request_success_total{{{who}}}[1m]))",
    "rate(vllm:request_queue_time_seconds_sum{{{who}}}[1m])",
    "rate(vllm:request_prefill_time_seconds_sum{{{who}}}[1m])",
    "rate(vllm:request_decode_time_seconds_sum{{{who}}}[1m])",
    "sum by(le) (increase(vllm:request_max_num_generation_tokens_bucket{{{who}}}[1m]))",
]
GAUGES = ["vllm:num_requests_running{{{who}}}", "vllm:num_requests_waiting{{{who}}}", "vllm:kv_cache_usage_perc{{{who}}}"]


def query(address, text):
    with urllib.request.urlopen(f"{address}/api/v1/query?{urllib.parse.urlencode({'query': text})}", timeout=10) as response:
        return json.load(response)["data"]["result"]


def main(address, model):
    who = f'model_name="{model}"'
    missing = [text.format(who=who) for text in RATES + GAUGES]
    for _ in range(60):  # rates need two scrapes
        missing = [text for text in missing if not query(address, text)]
        if not missing:
            print(f"{len(RATES + GAUGES)} queries have data")
            return 0
        time.sleep(1)
    print("no data for:", *missing, sep="\n  ")
    return 1


sys.exit(main(*sys.argv[1:]))
