// A conversation from standard input, a line a turn; each answer is printed as it comes:
// chat_stream MODEL
#include <iostream>
#include <string>

#include "stoker/llm.h"

namespace {

int fail(const stoker::Error& error) {
  std::cerr << error.message << "\n";
  return stoker::error_code_info(error.code).exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: chat_stream MODEL <LINES\n";
    return 2;
  }
  auto llm = stoker::LLM::open(argv[1]);
  if (!llm) return fail(llm.error());

  stoker::Watch watch;
  watch.on_event = [](size_t, const stoker::Event& event) {
    std::cout << event.text << std::flush;
    return true;
  };
  stoker::Request like;
  like.sampling.temperature = 0;
  like.max_tokens = 200;
  stoker::ChatPrompt conversation;
  conversation.thinking = "disabled";
  for (std::string line; std::getline(std::cin, line);) {
    conversation.messages.push_back({"user", {line}, ""});
    const auto answer = llm->chat(conversation, like, watch);
    if (!answer) return fail(answer.error());
    std::cout << "\n";
    conversation.messages.push_back({"assistant", {answer->text}, answer->reasoning});
  }
  return 0;
}
