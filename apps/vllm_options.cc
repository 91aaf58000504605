#include "vllm_options.h"

namespace stoker {
namespace {

enum class Takes {
  kNothing,  ///< a flag
  kValue,
};

struct ForeignOption {
  const char* name;
  Takes takes;
  const char* only;  ///< the one value that is taken, "none" for no value at all; null: any
  const char* why;   ///< it has no effect, or is refused
};

constexpr ForeignOption kForeignOptions[] = {
    {"--api-server-count", Takes::kValue, nullptr, "one process answers"},
    {"--async-scheduling", Takes::kNothing, nullptr, "it is always so"},
    {"--attention-backend", Takes::kValue, nullptr, "kernels are chosen by measurement"},
    {"--block-size", Takes::kValue, "128", "a block of the cache has 128 tokens"},
    {"--chat-template", Takes::kValue, "none", "the chat format is the model's own"},
    {"--compilation-config", Takes::kValue, nullptr, "nothing is compiled at a start"},
    {"--data-parallel-size", Takes::kValue, "1", "one process computes"},
    {"--disable-fastapi-docs", Takes::kNothing, nullptr, "/openapi.json alone is there"},
    {"--disable-log-requests", Takes::kNothing, nullptr, "no request is logged with its text"},
    {"--disable-log-stats", Takes::kNothing, nullptr, "/metrics has them, the log has not"},
    {"--disable-uvicorn-access-log", Takes::kNothing, nullptr, "requests stay in the log"},
    {"--dtype", Takes::kValue, nullptr, "the checkpoint says it"},
    {"--enable-auto-tool-choice", Takes::kNothing, nullptr, "it is always so"},
    {"--enable-chunked-prefill", Takes::kNothing, nullptr, "it is always so"},
    {"--enable-expert-parallel", Takes::kNothing, nullptr, "one process computes"},
    {"--enable-lora", Takes::kNothing, "none", "adapters are not supported"},
    {"--enable-prefix-caching", Takes::kNothing, nullptr, "it is so unless it is turned off"},
    {"--enable-prompt-tokens-details", Takes::kNothing, nullptr, "it is always so"},
    {"--enable-request-id-headers", Takes::kNothing, nullptr, "it is always so"},
    {"--enable-server-load-tracking", Takes::kNothing, nullptr, "it is always so"},
    {"--enforce-eager", Takes::kNothing, nullptr, "there are no graphs"},
    {"--generation-config", Takes::kValue, "auto", "the checkpoint says it"},
    {"--gpu-memory-utilization", Takes::kValue, nullptr, "--kv-budget says it"},
    {"--hf-overrides", Takes::kValue, "none", "config.json is taken as it is"},
    {"--kv-cache-dtype", Takes::kValue, "auto", "the model says it"},
    {"--kv-transfer-config", Takes::kValue, "none", "one process computes"},
    {"--language-model-only", Takes::kNothing, nullptr, "it is always so"},
    {"--load-format", Takes::kValue, "auto", "checkpoints are safetensors"},
    {"--lora-modules", Takes::kValue, "none", "adapters are not supported"},
    {"--max-logprobs", Takes::kValue, "20", "that is the limit"},
    {"--middleware", Takes::kValue, "none", "no code is loaded"},
    {"--moe-backend", Takes::kValue, nullptr, "kernels are chosen by measurement"},
    {"--otlp-traces-endpoint", Takes::kValue, "none", "traces are not supported"},
    {"--override-generation-config", Takes::kValue, "none", "generation_config.json says it"},
    {"--pipeline-parallel-size", Takes::kValue, "1", "one process computes"},
    {"--profiler-config", Takes::kValue, "none", "--profile-dir says where profiles go"},
    {"--quantization", Takes::kValue, "none", "the checkpoint says it"},
    {"--reasoning-parser", Takes::kValue, nullptr, "the chat format is the model's own"},
    {"--revision", Takes::kValue, "none", "nothing is downloaded"},
    {"--root-path", Takes::kValue, "none", "let the proxy take it away"},
    {"--seed", Takes::kValue, nullptr, "a request has its own seed, which its answer tells"},
    {"--ssl-certfile", Takes::kValue, "none", "put a proxy that speaks TLS in front"},
    {"--ssl-keyfile", Takes::kValue, "none", "put a proxy that speaks TLS in front"},
    {"--swap-space", Takes::kValue, nullptr, "nothing is swapped"},
    {"--tensor-parallel-size", Takes::kValue, "1", "one process computes"},
    {"--tokenizer", Takes::kValue, "none", "the checkpoint has it"},
    {"--tokenizer-mode", Takes::kValue, nullptr, "the checkpoint has it"},
    {"--tool-call-parser", Takes::kValue, nullptr, "the chat format is the model's own"},
    {"--trust-remote-code", Takes::kNothing, nullptr, "no code is loaded"},
    {"--uvicorn-log-level", Takes::kValue, nullptr, "there is one level"},
};

// What is wrong with it, or nothing.
std::string take(const ForeignOption& option, const std::string& value,
                 std::vector<std::string>* warnings) {
  if (option.only != nullptr && std::string("none") == option.only)
    return std::string("not taken here: ") + option.why;
  if (option.only != nullptr && value != option.only)
    return std::string("expected ") + option.only + " (" + option.why + "), found '" + value + "'";
  warnings->push_back(std::string(option.name) + " has no effect: " + option.why);
  return {};
}

}  // namespace

void add_vllm_options(OptionParser& parser, std::vector<std::string>* warnings) {
  parser.group("");
  for (const ForeignOption& option : kForeignOptions) {
    const auto take_value = [&option, warnings](const std::string& value) {
      return take(option, value, warnings);
    };
    if (option.takes == Takes::kValue) {
      parser.checked_option(option.name, "VALUE", take_value, option.why);
    } else {
      parser.checked_flag(
          option.name, [take_value] { return take_value(""); }, option.why);
    }
  }
}

}  // namespace stoker
