// The offline door over Engine. A call keeps a window of requests in the engine, reads their
// streams on the caller's thread, and sleeps until one of them has news.
#include "stoker/llm.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <utility>

#include "api/news.h"

namespace stoker {
namespace {

using Results = std::vector<Result<Generation>>;

using Clock = std::chrono::steady_clock;

// Requests in the engine for each that it runs at a time: where all end in one step, as many wait.
constexpr size_t kInFlightPerSequence = 2;

// How long nothing may come before the engine's health is looked at.
constexpr std::chrono::milliseconds kLookAgain{200};

// How soon a full queue is tried again where nothing tells of room in it; doubled each time, up to
// kLookAgain, since each time turns the prompt into ids.
constexpr std::chrono::milliseconds kTryAgain{1};

Error fault() {
  return {ErrorCode::kInternal, "the engine has ended in a fault: it must be opened again", ""};
}

// One call of generate().
class Call {
 public:
  Call(Engine& engine, size_t max_in_flight, std::vector<Request> requests, const Watch& watch)
      : engine_(engine),
        max_in_flight_(max_in_flight),
        watch_(watch),
        requests_(std::move(requests)),
        results_(requests_.size(), not_begun()) {}

  Results run() {
    while (!has_ended()) {
      const size_t num_finished = num_finished_;
      submit_more();
      if (read(Which::kThoseWithNews) || num_finished_ != num_finished) {
        tell_progress();
      } else {
        news_.wait(full_until_ ? try_again_ : kLookAgain);
      }
      if (!has_ended() && !engine_.healthy()) end_all_with_fault();
    }
    return std::move(results_);
  }

 private:
  // A request that the engine has.
  struct Active {
    size_t index = 0;
    Generation answer;
    std::vector<CollectedCalls> calls;  // of each choice
    std::atomic<bool> has_news{false};  // set by the engine's thread
    int32_t num_running = 0;            // of its choices
    std::unique_ptr<Stream> stream;     // null once all have ended
  };

  enum class Which { kThoseWithNews, kAll };

  // What a request is that a stop kept from beginning.
  static Generation not_begun() {
    Generation generation;
    generation.finish.reason = FinishReason::kCancelled;
    return generation;
  }

  bool has_ended() const { return next_ == requests_.size() && active_.empty(); }

  void submit_more() {
    if (full_until_ && Clock::now() < *full_until_) return;
    full_until_.reset();
    while (next_ < requests_.size() && active_.size() < max_in_flight_) {
      auto active = std::make_unique<Active>();
      active->index = next_;
      const auto ready = [this, has_news = &active->has_news] {
        has_news->store(true);
        news_.set();
      };
      auto stream =
          engine_.submit(requests_[next_], ready);  // a copy: it may have to be tried again
      if (stream) {
        active->stream = *std::move(stream);
        active->answer.prompt_ids = active->stream->prompt_ids();
        active->answer.seed = active->stream->seed();
        active->num_running = active->stream->num_choices();
        active->answer.others.resize(static_cast<size_t>(active->num_running) - 1);
        active->calls.resize(static_cast<size_t>(active->num_running));
        active_.push_back(std::move(active));
        try_again_ = kTryAgain;
      } else if (stream.error().code == ErrorCode::kOverloaded) {
        full_until_ = Clock::now() + try_again_;
        try_again_ = std::min(2 * try_again_, kLookAgain);
        return;
      } else if (!engine_.healthy()) {
        return;  // run() ends it with the others
      } else {
        end(next_, std::move(stream).error());
      }
      requests_[next_++] = {};
    }
  }

  // Takes what is ready of these streams; whether there was something.
  bool read(Which which) {
    bool has_news = false;
    for (const auto& active : active_) {
      if (!active->has_news.exchange(false) && which == Which::kThoseWithNews) continue;
      while (active->stream != nullptr) {
        auto event = active->stream->poll();
        if (!event) break;
        has_news = true;
        take(*active, *event);
      }
    }
    std::erase_if(active_, [](const auto& active) { return active->stream == nullptr; });
    return has_news;
  }

  void take(Active& active, Event& event) {
    Generation& answer = active.answer;
    Choice& choice =
        event.choice == 0 ? answer : answer.others[static_cast<size_t>(event.choice) - 1];
    // The first event of one that waited, or an end: somebody has left the queue or will.
    if (choice.ids.empty() || event.finish) full_until_.reset();
    num_tokens_ += static_cast<int64_t>(event.ids.size());
    choice.ids.insert(choice.ids.end(), event.ids.begin(), event.ids.end());
    choice.details.insert(choice.details.end(), event.details.begin(), event.details.end());
    choice.num_shown = event.num_shown;
    choice.text += event.text;
    choice.reasoning += event.reasoning;
    CollectedCalls& calls = active.calls[static_cast<size_t>(event.choice)];
    calls.add(event.calls);
    answer.prompt_logprobs.insert(answer.prompt_logprobs.end(), event.prompt_logprobs.begin(),
                                  event.prompt_logprobs.end());
    const bool goes_on =
        is_stopped_ || !watch_.on_event || watch_.on_event(active.index, std::as_const(event));
    if (event.finish) {
      choice.text += calls.finish(*event.finish);
      choice.calls = std::move(calls.calls);
      for (size_t i = 0; i < choice.calls.size(); ++i)
        choice.calls[i].id = "call_" + std::to_string(i);
      choice.finish = *std::move(event.finish);
      finish(active, choice.finish);
    }
    if (!goes_on) stop();
  }

  // One of its choices has ended; the first that fails is what the request comes to.
  void finish(Active& active, const Finish& finish) {
    const bool is_fault =
        finish.reason == FinishReason::kCancelled && !is_stopped_ && !engine_.healthy();
    if (finish.reason == FinishReason::kError) {
      active.stream.reset();
      end(active.index,
          finish.error.value_or(Error{ErrorCode::kInternal, "the request failed", ""}));
    } else if (is_fault) {
      active.stream.reset();
      end(active.index, fault());
    } else if (--active.num_running == 0) {
      active.stream.reset();
      end(active.index, std::move(active.answer));
    }
  }

  void end(size_t index, Result<Generation> result) {
    results_[index] = std::move(result);
    ++num_finished_;
  }

  void tell_progress() {
    if (is_stopped_ || !watch_.on_progress) return;
    if (!watch_.on_progress({num_finished_, results_.size(), num_tokens_})) stop();
  }

  // What runs still gives its last events; what was not submitted has its result already.
  void stop() {
    is_stopped_ = true;
    next_ = requests_.size();
    for (const auto& active : active_) {
      if (active->stream) active->stream->cancel();
    }
  }

  void end_all_with_fault() {
    read(Which::kAll);  // those that ended with an error of their own keep it
    for (const auto& active : active_) end(active->index, fault());
    active_.clear();
    for (; next_ < requests_.size(); ++next_) end(next_, fault());
    tell_progress();
  }

  Engine& engine_;
  const size_t max_in_flight_;
  const Watch& watch_;
  std::vector<Request> requests_;  // those before next_ are emptied
  Results results_;
  News news_;  // before the streams, which set it
  std::vector<std::unique_ptr<Active>> active_;
  size_t next_ = 0;
  std::optional<Clock::time_point> full_until_;  // the engine's queue is taken to be full
  std::chrono::milliseconds try_again_ = kTryAgain;
  bool is_stopped_ = false;
  size_t num_finished_ = 0;
  int64_t num_tokens_ = 0;
};

// A request like `like` for each prompt; `wrap` makes of it what a request holds.
template <class Prompt, class Wrap>
std::vector<Request> requests_like(const Request& like, std::vector<Prompt> prompts, Wrap wrap) {
  std::vector<Request> requests;
  requests.reserve(prompts.size());
  for (Prompt& prompt : prompts) {
    requests.push_back(like);
    requests.back().prompt = wrap(std::move(prompt));
  }
  return requests;
}

}  // namespace

Result<LLM> LLM::open(const std::string& model, EngineOptions options) {
  if (options.max_queue == 0) options.max_queue = 1;  // nothing would ever be taken
  auto engine = Engine::open(model, options);
  if (!engine) return std::move(engine).error();
  return LLM(*std::move(engine), static_cast<size_t>(options.max_num_seqs) * kInFlightPerSequence);
}

LLM::LLM(std::unique_ptr<Engine> engine, size_t max_in_flight)
    : engine_(std::move(engine)), max_in_flight_(std::max<size_t>(max_in_flight, 1)) {}

Results LLM::generate(std::vector<Request> requests, const Watch& watch) {
  return Call(*engine_, max_in_flight_, std::move(requests), watch).run();
}

Results LLM::generate_texts(std::vector<std::string> texts, const Request& like,
                            const Watch& watch) {
  const auto wrap = [](std::string&& text) {
    return TextPrompt{std::move(text), /*add_bos=*/true};
  };
  return generate(requests_like(like, std::move(texts), wrap), watch);
}

Results LLM::generate_ids(std::vector<std::vector<int32_t>> prompts, const Request& like,
                          const Watch& watch) {
  const auto wrap = [](std::vector<int32_t>&& ids) { return TokenPrompt{std::move(ids)}; };
  return generate(requests_like(like, std::move(prompts), wrap), watch);
}

Results LLM::chat(std::vector<ChatPrompt> conversations, const Request& like, const Watch& watch) {
  const auto wrap = [](ChatPrompt&& conversation) { return std::move(conversation); };
  return generate(requests_like(like, std::move(conversations), wrap), watch);
}

Result<Generation> LLM::chat(ChatPrompt conversation, const Request& like, const Watch& watch) {
  std::vector<ChatPrompt> one;
  one.push_back(std::move(conversation));
  return std::move(chat(std::move(one), like, watch)[0]);
}

}  // namespace stoker
