// The smallest program over the door: asks a model one question and prints the answer as it comes.
#include <chrono>
#include <iostream>

#include "stoker/engine.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: ask MODEL QUESTION\n";
    return 2;
  }
  auto engine = stoker::Engine::open(argv[1]);
  if (!engine) {
    std::cerr << engine.error().message << "\n";
    return stoker::error_code_info(engine.error().code).exit_code;
  }

  stoker::ChatPrompt prompt;
  prompt.messages = {{.role = "user", .content = {argv[2]}, .reasoning_content = ""}};
  prompt.thinking = "disabled";
  stoker::Request request;
  request.prompt = prompt;
  request.sampling.temperature = 0.0f;
  auto stream = (*engine)->submit(request);
  if (!stream) {
    std::cerr << stream.error().message << "\n";
    return stoker::error_code_info(stream.error().code).exit_code;
  }

  while (true) {
    const auto event = (*stream)->wait(std::chrono::seconds(10));
    if (!event) continue;
    std::cout << event->text << std::flush;
    if (event->finish) break;
  }
  std::cout << "\n";
}
