#include "server/engine_families.h"

#include <limits>
#include <utility>

namespace stoker {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

ClientMetric gauge_of(double value, Labels labels = {}) {
  ClientMetric metric;
  metric.gauge.value = value;
  metric.label = std::move(labels);
  return metric;
}

ClientMetric counter_of(int64_t value, Labels labels = {}) {
  ClientMetric metric;
  metric.counter.value = static_cast<double>(value);
  metric.label = std::move(labels);
  return metric;
}

ClientMetric histogram_of(const Histogram& histogram) {
  ClientMetric metric;
  uint64_t so_far = 0;
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    so_far += static_cast<uint64_t>(histogram.counts[i]);
    const double bound =
        i < histogram.bounds.size() ? histogram.bounds[i] : std::numeric_limits<double>::infinity();
    metric.histogram.bucket.push_back({so_far, bound});
  }
  metric.histogram.sample_count = so_far;
  metric.histogram.sample_sum = histogram.sum;
  return metric;
}

// Collects the families of one answer.
class Families {
 public:
  explicit Families(const std::string& model_name) : model_name_(model_name) {}

  void gauge(const char* name, const char* help, double value) {
    append_family(out_, name, help, MetricType::Gauge, {gauge_of(value)}, model_name_);
  }
  void counter(const char* name, const char* help, int64_t value) {
    append_family(out_, name, help, MetricType::Counter, {counter_of(value)}, model_name_);
  }
  void counters(const char* name, const char* help, std::vector<ClientMetric> metrics) {
    append_family(out_, name, help, MetricType::Counter, std::move(metrics), model_name_);
  }
  void gauges(const char* name, const char* help, std::vector<ClientMetric> metrics) {
    append_family(out_, name, help, MetricType::Gauge, std::move(metrics), model_name_);
  }
  void info(const char* name, const char* help, Labels labels) {
    gauges(name, help, {gauge_of(1, std::move(labels))});
  }
  void histogram(const char* name, const char* help, const Histogram& histogram) {
    append_family(out_, name, help, MetricType::Histogram, {histogram_of(histogram)}, model_name_);
  }
  std::vector<MetricFamily> take() { return std::move(out_); }

 private:
  const std::string& model_name_;
  std::vector<MetricFamily> out_;
};

void add_requests(const EngineStats& s, Families& out) {
  out.gauge("num_requests_running", "Sequences that run.", static_cast<double>(s.num_running));
  out.gauge("num_requests_waiting", "Sequences that wait.", static_cast<double>(s.num_waiting));
  out.gauges("num_requests_waiting_by_reason", "Sequences that wait, by what for.",
             {gauge_of(static_cast<double>(s.num_waiting), {{"reason", "capacity"}})});
  out.counters("request_success_total", "Sequences that ended, by reason.",
               {counter_of(s.total_stopped, {{"finished_reason", "stop"}}),
                counter_of(s.total_repeated, {{"finished_reason", "repetition"}}),
                counter_of(s.total_length, {{"finished_reason", "length"}}),
                counter_of(s.total_cancelled, {{"finished_reason", "abort"}}),
                counter_of(s.total_failed, {{"finished_reason", "error"}})});
  out.histogram("request_prompt_tokens", "Prompt tokens of a sequence.", s.request_prompt_tokens);
  out.histogram("request_generation_tokens", "Tokens chosen for a sequence.", s.request_tokens);
  out.histogram("request_max_num_generation_tokens", "The most that it could have come to.",
                s.request_max_tokens);
  out.histogram("request_params_max_tokens", "The most that it could have come to.",
                s.request_max_tokens);
}

void add_tokens(const EngineStats& s, Families& out) {
  out.counter("prompt_tokens_total", "Prompt tokens of sequences that began.",
              s.total_prompt_tokens);
  out.counter("generation_tokens_total", "Tokens chosen.", s.total_tokens);
  out.counters(
      "prompt_tokens_by_source_total", "Prompt tokens, by where their state came from.",
      {counter_of(s.total_prompt_tokens - s.total_cached_tokens, {{"source", "local_compute"}}),
       counter_of(s.total_cached_tokens, {{"source", "local_cache_hit"}}),
       counter_of(0, {{"source", "external_kv_transfer"}})});
  out.counter("prompt_tokens_cached_total", "Prompt tokens taken from the prefix cache.",
              s.total_cached_tokens);
  out.counter("prefix_cache_queries_total", "Tokens looked for in the prefix cache.",
              s.total_prompt_tokens);
  out.counter("prefix_cache_hits_total", "Of these, found.", s.total_cached_tokens);
  out.counter("num_preemptions_total", "Times that a sequence gave its state to others.",
              s.total_preemptions);
  out.histogram("iteration_tokens_total", "Rows of a step.", s.step_rows);
}

void add_times(const EngineStats& s, Families& out) {
  out.histogram("time_to_first_token_seconds", "From submission to the first token.",
                s.first_token_seconds);
  out.histogram("inter_token_latency_seconds", "Between two tokens of a sequence.",
                s.token_seconds);
  out.histogram("request_time_per_output_token_seconds", "Mean of it over a sequence.",
                s.request_token_seconds);
  out.histogram("e2e_request_latency_seconds", "From submission to the last token.",
                s.request_seconds);
  out.histogram("request_queue_time_seconds", "From submission to the first step.",
                s.queue_seconds);
  out.histogram("request_prefill_time_seconds", "From the first step to the first token.",
                s.request_prefill_seconds);
  out.histogram("request_decode_time_seconds", "From the first token to the last.",
                s.request_decode_seconds);
  out.histogram("request_inference_time_seconds", "From the first step to the last token.",
                s.request_inference_seconds);
}

// The states and their words are vLLM's; there, too, several are 1 at a time.
void add_sleep(const EngineStats& s, Families& out) {
  const auto state = [](const char* name, bool is_so) {
    return gauge_of(is_so ? 1 : 0, {{"sleep_state", name}});
  };
  out.gauges("engine_sleep_state", "Whether the engine is awake, and what it gives back if not.",
             {state("awake", s.sleep_level < 0), state("weights_offloaded", s.sleep_level == 1),
              state("discard_all", s.sleep_level == 2)});
}

void add_memory(const EngineStats& s, Families& out) {
  const auto blocks = static_cast<double>(s.num_blocks);
  out.gauge("kv_cache_usage_perc", "Share of the blocks for state that sequences use, 0 to 1.",
            s.num_blocks > 0 ? static_cast<double>(s.num_blocks_used) / blocks : 0);
  out.info("cache_config_info", "How the memory for state is cut.",
           {{"block_size", std::to_string(s.block_tokens)},
            {"num_gpu_blocks", "0"},
            {"num_cpu_blocks", std::to_string(s.num_blocks)}});
}

void add_drafts(const EngineStats& s, Families& out) {
  out.counter("spec_decode_num_drafts_total", "Draft rounds.", s.total_draft_rounds);
  out.counter("spec_decode_num_draft_tokens_total", "Drafted tokens that steps verified.",
              s.total_verified_tokens);
  out.counter("spec_decode_num_accepted_tokens_total", "Of these, chosen.",
              s.total_accepted_tokens);
  std::vector<ClientMetric> positions;
  for (size_t i = 0; i < s.accepted_at.size(); ++i)
    positions.push_back(counter_of(s.accepted_at[i], {{"position", std::to_string(i)}}));
  if (!positions.empty())
    out.counters("spec_decode_num_accepted_tokens_per_pos_total",
                 "Of these, by their place in the round.", std::move(positions));
}

}  // namespace

void append_family(std::vector<MetricFamily>& families, const std::string& name,
                   const std::string& help, MetricType type, std::vector<ClientMetric> metrics,
                   const std::string& model_name) {
  for (ClientMetric& metric : metrics) {
    metric.label.push_back({"model_name", model_name});
    metric.label.push_back({"engine", "0"});
  }
  for (const char* prefix : {"vllm:", "stoker_"}) {
    MetricFamily family;
    family.name = prefix + name;
    family.help = help;
    family.type = type;
    family.metric = metrics;
    families.push_back(std::move(family));
  }
}

std::vector<MetricFamily> engine_families(const EngineStats& stats, const std::string& model_name) {
  Families out(model_name);
  add_requests(stats, out);
  add_tokens(stats, out);
  add_times(stats, out);
  add_memory(stats, out);
  add_drafts(stats, out);
  add_sleep(stats, out);
  return out.take();
}

}  // namespace stoker
