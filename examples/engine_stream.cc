// The door beneath LLM: asks one question, reads its stream and prints the answer as it comes:
// engine_stream MODEL QUESTION
#include <chrono>
#include <iostream>

#include "stoker/engine.h"

namespace {

int fail(const stoker::Error& error) {
  std::cerr << error.message << "\n";
  return stoker::error_code_info(error.code).exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: engine_stream MODEL QUESTION\n";
    return 2;
  }
  auto engine = stoker::Engine::open(argv[1]);
  if (!engine) return fail(engine.error());

  stoker::ChatPrompt prompt;
  prompt.messages.push_back({"user", {argv[2]}, ""});
  prompt.thinking = "disabled";
  stoker::Request request;
  request.prompt = prompt;
  request.sampling.temperature = 0;
  auto stream = (*engine)->submit(request);
  if (!stream) return fail(stream.error());

  while ((*engine)->healthy()) {
    const auto event = (*stream)->wait(std::chrono::seconds(1));
    if (!event) continue;
    std::cout << event->text << std::flush;
    if (!event->finish) continue;
    std::cout << "\n";
    return event->finish->error ? fail(*event->finish->error) : 0;
  }
  return fail({stoker::ErrorCode::kInternal, "the engine has ended in a fault", ""});
}
