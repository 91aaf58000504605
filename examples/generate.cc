// Continues texts, all of them in one call: generate MODEL TEXT...
#include <iostream>
#include <string>
#include <vector>

#include "stoker/llm.h"

namespace {

int fail(const stoker::Error& error) {
  std::cerr << error.message << "\n";
  return stoker::error_code_info(error.code).exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: generate MODEL TEXT...\n";
    return 2;
  }
  const std::string model = argv[1];
  const std::vector<std::string> texts(argv + 2, argv + argc);
  stoker::Request like;  // how to sample and when to stop, for each text
  like.sampling.temperature = 0.8;
  like.sampling.seed = 1;
  like.max_tokens = 16;

  auto llm = stoker::LLM::open(model);
  if (!llm) return fail(llm.error());
  for (const auto& answer : llm->generate_texts(texts, like)) {
    if (!answer) return fail(answer.error());
    std::cout << answer->text << "\n";
  }
  return 0;
}
