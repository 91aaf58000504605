// What a grammar costs at the released vocabulary: compiling it, and the mask of each step along
// answers, in microseconds on one core. With the released tokenizer.json as the first argument or
// in build/real, else with as many made tokens.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mapped_file.h"
#include "grammar/calls.h"
#include "grammar/ebnf.h"
#include "grammar/json_schema.h"
#include "grammar/matcher.h"
#include "grammar/regex.h"
#include "tokenizer/tokenizer.h"

namespace stoker::grammar {
namespace {

constexpr size_t kVocab = 129280;
constexpr size_t kMaxFileBytes = size_t{64} << 20;
constexpr int kAnswers = 20;
constexpr int kTokens = 200;  // of an answer at most

// Of this thread alone, so that what else runs does not count.
double now_us() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

// Words of Latin and of CJK characters, with and without a blank in front, runs of punctuation,
// digits and blanks, single bytes: as many of each kind as in a large vocabulary, roughly.
std::vector<std::string> made_tokens() {
  std::mt19937 random(11);
  std::vector<std::string> tokens = {"<end>"};
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (int i = 0; i < 1000; ++i) tokens.push_back(std::to_string(i));
  for (size_t i = 2; i <= 80; ++i) tokens.emplace_back(i, ' ');
  const std::string marks = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\n\t ";
  while (tokens.size() < kVocab) {
    std::string token;
    const uint32_t kind = random() % 100;
    const size_t length = 1 + random() % 9;
    if (kind < 55) {
      if (random() % 2 == 0) token = " ";
      for (size_t i = 0; i < length; ++i)
        token.push_back(static_cast<char>("etaoinshrdlucmfwypvbgkjqxz"[random() % (8 + i * 2)]));
    } else if (kind < 90) {
      for (size_t i = 0; i < 1 + length / 3; ++i) {
        const uint32_t c = 0x4E00 + random() % 3000;
        token.push_back(static_cast<char>(0xE0 | (c >> 12)));
        token.push_back(static_cast<char>(0x80 | ((c >> 6) & 63)));
        token.push_back(static_cast<char>(0x80 | (c & 63)));
      }
    } else if (kind < 96) {
      for (size_t i = 0; i < 1 + length / 2; ++i) token.push_back(marks[random() % marks.size()]);
      if (random() % 3 == 0) token += "ab";
    } else {
      token = "\xE4\xB8\xAD";
      token.resize(1 + random() % 2);
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::shared_ptr<const Vocabulary> made_vocabulary() {
  const int32_t ends[] = {0};
  return std::make_shared<const Vocabulary>(made_tokens(), std::vector<int32_t>{}, ends);
}

std::shared_ptr<const Vocabulary> vocabulary_of(const std::string& path) {
  const auto text = read_file(path, kMaxFileBytes);
  if (!text) return nullptr;
  const auto tokenizer = Tokenizer::parse(*text);
  CHECK(tokenizer.has_value(), "the tokenizer is read");
  std::vector<std::string> tokens;
  std::vector<int32_t> never;
  for (int32_t id = 0; id < tokenizer->size(); ++id) {
    tokens.emplace_back(tokenizer->bytes(id));
    if (tokenizer->is_special(id)) never.push_back(id);
  }
  const int32_t ends[] = {tokenizer->added_token("<｜end▁of▁sentence｜>").value_or(0)};
  return std::make_shared<const Vocabulary>(std::move(tokens), never, ends);
}

Grammar schema(const std::string& text) {
  const auto json = Json::parse(text);
  CHECK(json.has_value(), "the schema is JSON");
  auto grammar = from_json_schema(*json);
  CHECK(grammar.has_value(), "the schema is supported");
  return *std::move(grammar);
}

std::string wide_schema(int num_properties) {
  std::string text = R"({"type": "object", "required": ["field_3"], "properties": {)";
  const char* const kinds[] = {R"({"type": "string"})", R"({"type": "integer", "minimum": 0})",
                               R"({"type": "array", "items": {"type": "string", "maxLength": 40}})",
                               R"({"enum": ["red", "green", null]})", R"({"type": "number"})"};
  for (int i = 0; i < num_properties; ++i) {
    text += (i > 0 ? ", \"field_" : "\"field_") + std::to_string(i) + "\": " + kinds[i % 5];
  }
  return text + "}}";
}

Grammar calls(CallForm form) {
  const Json weather = *Json::parse(
      R"({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
          "unit": {"enum": ["C", "F"]}}, "required": ["city"], "additionalProperties": false})");
  const Json search = *Json::parse(
      R"({"type": "object", "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "maximum": 50},
          "filters": {"type": "object", "additionalProperties": {"type": "string"}}}, "required": ["query"]})");
  const std::vector<Tool> tools = {{"weather", &weather}, {"search", &search}, {"now", nullptr}};
  auto grammar = from_calls(tools, {.form = form});
  CHECK(grammar.has_value(), "the tools are supported");
  return *std::move(grammar);
}

struct Named {
  std::string name;
  Grammar grammar;
};

std::vector<Named> cases() {
  const std::string person = R"({"type": "object", "properties": {
      "name": {"type": "string", "minLength": 1, "maxLength": 100}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
      "email": {"type": "string", "format": "email"}, "born": {"type": "string", "format": "date"},
      "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 5},
      "address": {"type": "object", "properties": {"street": {"type": "string"}, "zip": {"type": "string", "pattern": "^[0-9]{5}$"}},
                  "required": ["street", "zip"], "additionalProperties": false}},
      "required": ["name", "age", "address"], "additionalProperties": false})";
  const std::string tree =
      R"({"$defs": {"node": {"type": "object", "properties": {"text": {"type": "string"},
      "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["text", "children"],
      "additionalProperties": false}}, "$ref": "#/$defs/node"})";
  const std::string expression =
      "root ::= sum\nsum ::= product ((\"+\" | \"-\") product)*\nproduct ::= atom ((\"*\" | \"/\") "
      "atom)*\n"
      "atom ::= [0-9]+ | [a-z]+ | \"(\" sum \")\"";
  return {
      {"json_object", *from_json_object()},
      {"person", schema(person)},
      {"tree", schema(tree)},
      {"wide_40", schema(wide_schema(40))},
      {"wide_200", schema(wide_schema(200))},
      {"long_string",
       schema(R"({"type": "object", "properties": {"text": {"type": "string", "maxLength": 4000}},
                                     "required": ["text"], "additionalProperties": false})")},
      {"regex", *from_regex("[\\w.]+@[\\w.]+\\.[a-z]{2,6}( [A-Z].{0,40})?")},
      {"ebnf", *from_ebnf(expression)},
      {"calls", calls(CallForm::kBlock)},
      {"triggered", calls(CallForm::kTriggered)}};
}

void compile(benchmark::State& state, const Named& one,
             const std::shared_ptr<const Vocabulary>& vocabulary) {
  std::shared_ptr<const Program> program;
  for (auto _ : state) program = *Program::compile(one.grammar, vocabulary);
  state.counters["states"] = static_cast<double>(program->automaton().num_states());
  state.counters["masks"] = static_cast<double>(program->num_masks());
  state.counters["extensions"] = static_cast<double>(program->num_extensions());
  state.counters["made"] = static_cast<double>(program->num_masks_made());
  state.counters["MiB"] = static_cast<double>(program->memory_bytes()) / (1 << 20);
}

// A random allowed id; an end only now and then, so that answers have some length.
std::optional<int32_t> choose(const std::vector<uint64_t>& mask, const Vocabulary& vocabulary,
                              std::mt19937& random) {
  std::vector<int32_t> allowed;
  for (size_t i = 0; i < mask.size(); ++i)
    for (uint64_t word = mask[i]; word != 0; word &= word - 1)
      allowed.push_back(static_cast<int32_t>(i * 64) + __builtin_ctzll(word));
  if (allowed.empty()) return std::nullopt;
  // Short tokens half the time: they leave places that words would stay in.
  for (int tries = 0; tries < 50; ++tries) {
    const int32_t id = allowed[random() % allowed.size()];
    if (tries % 2 == 0 || vocabulary.bytes(id).size() <= 2) return id;
  }
  return allowed[0];
}

void fill(benchmark::State& state, const Named& one,
          const std::shared_ptr<const Vocabulary>& vocabulary) {
  const auto program = *Program::compile(one.grammar, vocabulary);
  std::vector<uint64_t> mask(vocabulary->num_words());
  std::vector<double> times;
  std::vector<double> accepts;
  std::mt19937 random(5);
  for (auto _ : state) {
    for (int answer = 0; answer < kAnswers; ++answer) {
      Matcher matcher(program);
      for (int i = 0; i < kTokens; ++i) {
        double begin = now_us();
        CHECK(matcher.fill(mask), "no grammar here is too ambiguous");
        times.push_back(now_us() - begin);
        const auto id = choose(mask, *vocabulary, random);
        CHECK(id.has_value(), "every text can be completed");
        begin = now_us();
        CHECK(matcher.accept(*id), "what is allowed is accepted");
        accepts.push_back(now_us() - begin);
        if (matcher.ended()) break;
      }
    }
  }
  const auto mean = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  };
  state.counters["mean_us"] = mean(times);
  state.counters["accept_us"] = mean(accepts);
  std::sort(times.begin(), times.end());
  state.counters["p50_us"] = times[times.size() / 2];
  state.counters["p99_us"] = times[times.size() * 99 / 100];
  state.counters["max_us"] = times.back();
}

void add_all(const std::shared_ptr<const Vocabulary>& vocabulary) {
  for (const Named& one : cases()) {
    benchmark::RegisterBenchmark(
        ("compile/" + one.name).c_str(),
        [one, vocabulary](benchmark::State& state) { compile(state, one, vocabulary); })
        ->Unit(benchmark::kMillisecond)
        ->Iterations(3);
    benchmark::RegisterBenchmark(
        ("fill/" + one.name).c_str(),
        [one, vocabulary](benchmark::State& state) { fill(state, one, vocabulary); })
        ->Unit(benchmark::kMillisecond)
        ->Iterations(3);
  }
}

}  // namespace
}  // namespace stoker::grammar

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  using namespace stoker::grammar;  // NOLINT(google-build-using-namespace): the entry point alone
  const std::string path = argc > 1 ? argv[1] : STOKER_SOURCE_DIR "/build/real/tokenizer.json";
  auto vocabulary = vocabulary_of(path);
  std::printf("vocabulary: %s\n", vocabulary != nullptr ? path.c_str() : "made");
  add_all(vocabulary != nullptr ? vocabulary : made_vocabulary());
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
