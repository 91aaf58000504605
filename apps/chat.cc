// stoker chat: a conversation in the terminal, or one read line by line from a pipe.
#include <charconv>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "commands.h"
#include "common.h"
#include "json_text.h"
#include "line_editor.h"
#include "output.h"
#include "stoker/session.h"
#include "texts.h"

namespace stoker {
namespace {

constexpr const char* kChatExamples =
    "  stoker chat demo\n"
    "  stoker chat demo --system 'Answer in one word.'\n"
    "  echo 'What is the capital of France?' | stoker chat demo\n"
    "  printf '/load trip\\nAnd where next?\\n/keep trip\\n' | stoker chat demo\n";

constexpr const char* kCommandHelp =
    "/system TEXT  what the model should know beforehand; without a text: nothing\n"
    "/think N      think first, with effort 1 to 100\n"
    "/think off    answer at once\n"
    "/reset        forget the conversation\n"
    "/save FILE    write the conversation as JSON, the body of a chat completion\n"
    "/keep NAME    keep it in your store, with what the model has read of it\n"
    "/load NAME    go on with a kept one, without reading it again\n"
    "/kept         list them\n"
    "/forget NAME  remove one\n"
    "/quit         leave; so does Ctrl-D\n"
    "Everything else is said to the model; a line that starts with a space, too. Ctrl-C stops an "
    "answer.\n";

struct ChatOptions {
  std::string model;
  std::optional<std::string> system;
  GenerationOptions generation;
};

std::string message_json(const Message& message) {
  JsonObject object;
  object.add("role", json_string(message.role));
  object.add("content", json_string(message.content.empty() ? "" : message.content.front()));
  if (!message.reasoning_content.empty())
    object.add("reasoning_content", json_string(message.reasoning_content));
  return object.text();
}

/// The conversation and what its commands do. `failure` of the class: the exit code of the first
/// thing that went wrong.
class Conversation {
 public:
  Conversation(Engine& engine, const ChatOptions& options, InterruptGuard* guard)
      : engine_(engine), options_(options), guard_(guard) {
    if (options.system) set_system(*options.system);
  }

  /// Handles a line. False: the conversation is over.
  bool handle(const std::string& line);

  int failure() const { return failure_; }

 private:
  bool handle_kept(const std::string& command, const std::string& value);
  void say(const std::string& text);
  void answer(Stream& stream);
  void keep(Message reply, const Finish& finish);
  void set_system(const std::string& text);
  void set_thinking(const std::string& value);
  void reset();
  void save(const std::string& path);
  void keep_as(const std::string& name);
  void load(const std::string& name);
  void list_kept();
  void forget(const std::string& name);
  const std::string& store() const { return options_.generation.weights.store; }
  std::vector<Message> all_messages() const;
  void fail(const Error& error);

  Engine& engine_;
  const ChatOptions& options_;
  InterruptGuard* guard_;  ///< may be null
  std::optional<Message> system_;
  std::vector<Message> messages_;  ///< without the system message
  std::optional<std::string> thinking_, effort_;
  int failure_ = 0;
};

bool Conversation::handle(const std::string& line) {
  if (line.find_first_not_of(" \t\r") == std::string::npos) return true;
  if (line.front() != '/') {
    say(line);
    return true;
  }
  const size_t space = line.find(' ');
  const std::string command = line.substr(0, space);
  const std::string value = space == std::string::npos ? "" : line.substr(space + 1);
  if (command == "/quit") return false;
  if (command == "/help") {
    std::fputs(kCommandHelp, stderr);
  } else if (command == "/system") {
    set_system(value);
  } else if (command == "/think") {
    set_thinking(value);
  } else if (command == "/reset") {
    reset();
  } else if (command == "/save") {
    save(value);
  } else if (!handle_kept(command, value)) {
    fail({ErrorCode::kInvalidArgument,
          "expected /system, /think, /reset, /save, /keep, /load, /kept, /forget, /quit or /help, "
          "found '" +
              command + "' (a line that starts with a space is said to the model)",
          ""});
  }
  return true;
}

/// The commands about kept conversations. False: it is none of them.
bool Conversation::handle_kept(const std::string& command, const std::string& value) {
  if (command == "/keep") {
    keep_as(value);
  } else if (command == "/load") {
    load(value);
  } else if (command == "/kept") {
    list_kept();
  } else if (command == "/forget") {
    forget(value);
  } else {
    return false;
  }
  return true;
}

void Conversation::say(const std::string& text) {
  messages_.push_back({"user", {text}, ""});
  Request request;
  request.prompt = ChatPrompt{all_messages(), thinking_, effort_};
  request.sampling = options_.generation.sampling;
  request.max_tokens = options_.generation.max_tokens;
  const Result<std::unique_ptr<Stream>> stream = engine_.submit(std::move(request));
  if (!stream) {
    messages_.pop_back();
    const bool is_full = messages_.size() > 1 && stream.error().code == ErrorCode::kInvalidArgument;
    fail(stream.error());
    if (is_full)
      std::fputs("(/reset starts a new conversation, /save FILE keeps this one)\n", stderr);
    return;
  }
  answer(**stream);
}

void Conversation::answer(Stream& stream) {
  Output out;
  Message reply{"assistant", {""}, ""};
  const std::vector<Finish> finishes = run_to_end(stream, guard_, [&](const Event& event) {
    out.write_dimmed(event.reasoning);
    reply.reasoning_content += event.reasoning;
    if (reply.content.front().empty() && !event.text.empty() && !reply.reasoning_content.empty()) {
      out.end_line();
      out.write("\n");
    }
    out.write(event.text);
    reply.content.front() += event.text;
  });
  out.end_line();
  if (const Result<void> written = out.result(); !written) fail(written.error());
  keep(std::move(reply), finishes.front());
}

/// An answer without a word of text (stopped while thinking, or failed) takes its question with it.
void Conversation::keep(Message reply, const Finish& finish) {
  if (finish.reason == FinishReason::kError && finish.error) fail(*finish.error);
  if (finish.reason == FinishReason::kCancelled) std::fputs("(stopped)\n", stderr);
  if (finish.reason == FinishReason::kLength) {
    std::fputs(options_.generation.max_tokens
                   ? "(cut at --max-tokens, or the context is full)\n"
                   : "(cut: the context is full; /reset starts a new conversation)\n",
               stderr);
  }
  if (!reply.content.front().empty()) {
    messages_.push_back(std::move(reply));
    return;
  }
  if (finish.reason == FinishReason::kStop) {
    std::fputs("(an empty answer)\n", stderr);
    messages_.push_back(std::move(reply));
    return;
  }
  messages_.pop_back();
}

void Conversation::set_system(const std::string& text) {
  system_.reset();
  if (!text.empty()) system_ = Message{"system", {text}, ""};
}

void Conversation::set_thinking(const std::string& value) {
  if (value == "off") {
    thinking_ = "disabled";
    effort_.reset();
    return;
  }
  int effort = 0;
  const auto [stop, code] = std::from_chars(value.data(), value.data() + value.size(), effort);
  if (code != std::errc() || stop != value.data() + value.size() || effort < 1 || effort > 100) {
    fail({ErrorCode::kInvalidArgument,
          "/think: expected off or a number from 1 to 100, found '" + value + "'", ""});
    return;
  }
  thinking_ = "enabled";
  effort_ = std::to_string(effort);
}

void Conversation::reset() {
  messages_.clear();
  std::fputs(system_ ? "(a new conversation; /system stays)\n" : "(a new conversation)\n", stderr);
}

void Conversation::save(const std::string& path) {
  if (path.empty())
    return fail({ErrorCode::kInvalidArgument, "/save: expected the name of a file", ""});
  std::vector<std::string> messages;
  for (const Message& message : all_messages()) messages.push_back(message_json(message));
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << JsonObject().add("messages", json_array(messages)).text() << "\n";
  file.close();
  if (!file) return fail({ErrorCode::kIo, "/save: " + path + " cannot be written", ""});
  std::fprintf(stderr, "(%zu messages in %s)\n", messages.size(), path.c_str());
}

void Conversation::keep_as(const std::string& name) {
  const auto kept = keep_session(engine_, {name, all_messages(), thinking_, effort_}, store());
  if (!kept) return fail(kept.error().with("/keep"));
  std::fprintf(stderr, "(kept: %lld messages and %lld tokens in %s)\n",
               static_cast<long long>(kept->num_messages), static_cast<long long>(kept->num_tokens),
               size_text(kept->num_bytes).c_str());
}

void Conversation::load(const std::string& name) {
  auto loaded = load_session(engine_, name, store());
  if (!loaded) return fail(loaded.error().with("/load"));
  if (loaded->why_not) {
    std::fprintf(stderr, "(the messages alone, which are read again: %s)\n",
                 loaded->why_not->message.c_str());
  }
  Session& session = loaded->session;
  system_.reset();
  if (!session.messages.empty() && session.messages.front().role == "system") {
    system_ = std::move(session.messages.front());
    session.messages.erase(session.messages.begin());
  }
  messages_ = std::move(session.messages);
  thinking_ = std::move(session.thinking);
  effort_ = std::move(session.reasoning_effort);
  std::fprintf(stderr, "(loaded: %zu messages and %lld tokens)\n", all_messages().size(),
               static_cast<long long>(loaded->num_tokens));
}

void Conversation::list_kept() {
  const auto kept = kept_sessions(engine_, store());
  if (!kept) return fail(kept.error().with("/kept"));
  for (const KeptSession& session : *kept) {
    std::fprintf(stderr, "%-20s %lld messages, %lld tokens, %s%s\n", session.name.c_str(),
                 static_cast<long long>(session.num_messages),
                 static_cast<long long>(session.num_tokens), size_text(session.num_bytes).c_str(),
                 session.is_of_model ? "" : (", of another model: " + session.model).c_str());
  }
  if (kept->empty()) std::fputs("(none)\n", stderr);
}

void Conversation::forget(const std::string& name) {
  const auto forgotten = forget_session(engine_, name, store());
  if (!forgotten) return fail(forgotten.error().with("/forget"));
  std::fprintf(stderr, "(forgot %s)\n", name.c_str());
}

std::vector<Message> Conversation::all_messages() const {
  std::vector<Message> all;
  if (system_) all.push_back(*system_);
  all.insert(all.end(), messages_.begin(), messages_.end());
  return all;
}

void Conversation::fail(const Error& error) {
  const int code = report(error);
  if (failure_ == 0) failure_ = code;
}

/// A person's mistakes do not end in an exit code; a script's do.
int converse(Engine& engine, const ChatOptions& options) {
  LineEditor lines("> ");
  if (!lines.is_interactive()) {
    Conversation conversation(engine, options, nullptr);
    while (const auto line = lines.read(nullptr).text) {
      if (!conversation.handle(*line)) break;
    }
    return conversation.failure();
  }
  InterruptGuard guard(InterruptGuard::Second::kIsNoted);
  Conversation conversation(engine, options, &guard);
  std::printf("%s: /help tells what can be typed here, Ctrl-D leaves\n",
              engine.model().name.c_str());
  while (true) {
    const LineEditor::Line line = lines.read(&guard);
    if (!line.text && line.ending == LineEditor::Ending::kEndOfInput) return 0;
    if (line.text && !conversation.handle(*line.text)) return 0;
  }
}

}  // namespace

int chat_command(const Arguments& arguments) {
  ChatOptions options;
  OptionParser parser(
      "chat",
      "A conversation: what you type is answered, with all of it in mind. Lines that begin "
      "with / are commands: /keep NAME and /load NAME take it up another day, /help lists all.",
      kChatExamples);
  parser.positional("MODEL", &options.model, kModelHelp);
  parser.option("--system", "TEXT", &options.system, "What the model should know beforehand");
  add_generation_options(parser, &options.generation);
  if (const auto code = parser.parse(arguments)) return *code;

  EngineOptions engine_options;
  engine_options.num_threads = options.generation.num_threads;
  engine_options.weights = options.generation.weights;
  engine_options.speculation = options.generation.speculation;
  engine_options.max_num_seqs = 1;
  const Result<std::unique_ptr<Engine>> engine = open_engine(options.model, engine_options);
  if (!engine) return report(engine.error());
  if (!(*engine)->model().has_chat) {
    return report(
        {ErrorCode::kUnsupported,
         options.model +
             ": expected a model with a tokenizer and the control tokens of the chat format; "
             "stoker generate runs it",
         ""});
  }
  return converse(**engine, options);
}

}  // namespace stoker
