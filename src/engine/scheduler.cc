#include "engine/scheduler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace stoker::engine {
namespace {

// Logits of all rows of a chunk are kept where log-probabilities of the prompt are asked for.
constexpr int64_t kMaxLogprobRows = 64;

// The last block boundary at or before a position.
int64_t boundary(int64_t position) {
  return position / kBlockTokens * kBlockTokens;
}

Error no_prefix_cache() {
  return {ErrorCode::kUnsupported, "expected an engine with a prefix cache, found none", ""};
}

// Without a word of what was asked or answered.
std::string line_of(const Sequence& sequence, const char* state, Clock::time_point now) {
  const auto& held = sequence.state;
  return std::string("event=sequence state=") + state +
         " arrival=" + std::to_string(sequence.key.arrival) +
         " priority=" + std::to_string(sequence.key.priority) +
         " age_ms=" + std::to_string(std::llround(seconds_between(sequence.submitted, now) * 1e3)) +
         " prompt_tokens=" + std::to_string(sequence.num_prompt) +
         " chosen_tokens=" + std::to_string(sequence.num_chosen()) +
         " max_tokens=" + std::to_string(sequence.request.max_tokens) +
         " state_tokens=" + std::to_string(held ? held->length() : 0) +
         " blocks=" + std::to_string(held ? held->blocks().size() : 0) +
         " cached_tokens=" + std::to_string(sequence.num_cached) +
         " preemptions=" + std::to_string(sequence.work.num_preemptions);
}

bool is_earlier(const std::unique_ptr<Sequence>& a, const std::unique_ptr<Sequence>& b) {
  return a->key < b->key;
}

}  // namespace

Scheduler::Scheduler(KvStore& store, const SchedulerOptions& options, Metrics& metrics)
    : store_(store), options_(options), metrics_(metrics) {
  if (options.prefix_cache) cache_.emplace(store, options.replay.num_kept_rows);
  running_.reserve(static_cast<size_t>(store.plan().num_slots));
  shares_.reserve(static_cast<size_t>(store.plan().num_slots));
}

Scheduler::~Scheduler() {
  for (const auto& sequence : running_) leave(*sequence);
  for (const auto& [key, sequence] : waiting_) leave(*sequence);
}

// --- Waiting ---

void Scheduler::enqueue(std::unique_ptr<Sequence> sequence) {
  if (sequence->request.deadline) deadlines_.emplace(*sequence->request.deadline, sequence->key);
  waiting_.emplace(sequence->key, std::move(sequence));
}

void Scheduler::end(const SequenceKey& key, End end, std::optional<Error> error) {
  const auto waiting = waiting_.find(key);
  if (waiting != waiting_.end()) {
    Sequence& sequence = *waiting->second;
    if (sequence.has_started) {
      --num_requeued_;
    } else {
      sequence.stream->leave_queue();
    }
    metrics_.count_end(end);
    sequence.finish(end, std::move(error));
    leave(sequence);
    forget_deadline(sequence);
    waiting_.erase(waiting);
    return;
  }
  for (const auto& sequence : running_) {
    if (sequence->key != key || sequence->finished) continue;
    metrics_.count_end(end);
    sequence->finish(end, std::move(error));
    drop_finished();
    break;
  }
}

void Scheduler::expire(Clock::time_point now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const SequenceKey key = deadlines_.begin()->second;
    deadlines_.erase(deadlines_.begin());
    end(key, End::kError,
        Error{ErrorCode::kDeadlineExceeded, "the request's time was over before its answer", ""});
  }
}

void Scheduler::end_running(End end, const std::optional<Error>& error) {
  drop_finished();
  while (!running_.empty()) this->end(running_.back()->key, end, error);
}

void Scheduler::end_all(End end, const std::optional<Error>& error) {
  end_running(end, error);
  while (!waiting_.empty()) this->end(waiting_.begin()->first, end, error);
}

void Scheduler::forget_deadline(const Sequence& sequence) {
  if (sequence.request.deadline) deadlines_.erase({*sequence.request.deadline, sequence.key});
}

void Scheduler::start_waiting() {
  while (!waiting_.empty() && can_start(*waiting_.begin()->second)) {
    auto node = waiting_.extract(waiting_.begin());
    start(std::move(node.mapped()));
  }
}

// Whether there is a slot, and blocks for all tokens of the sequence that are not in the cache,
// beside those that are promised and one more for each that runs: starting somebody only to preempt
// him soon would be work for nothing. Always, if none runs and its tokens fit the store.
bool Scheduler::can_start(Sequence& sequence) {
  if (store_.num_free_slots() == 0) return false;
  int64_t needed = blocks_for(sequence.num_tokens());
  int64_t available = store_.num_free_blocks();
  if (cache_) {
    available += cache_->num_unused();
    if (uses_cache(sequence)) {
      if (sequence.path.root < 0) cache_->open(sequence.path, sequence.request.cache_salt);
      const auto found =
          cache_->match(sequence.path, sequence.tokens, sequence.max_shared_blocks());
      needed -= found.num_blocks;
      available -= found.unused;
    }
  }
  for (const auto& other : running_) {
    const int64_t missing = other->is_attached ? other->state->blocks_missing(other->num_tokens())
                                               : other->num_promised;
    available -= 1 + std::max<int64_t>(0, missing);
  }
  sequence.num_promised = needed;
  return needed <= available;
}

void Scheduler::start(std::unique_ptr<Sequence> sequence) {
  const int64_t max_blocks = blocks_for(sequence->max_tokens());
  sequence->state = SequenceState::create(store_, max_blocks);
  CHECK(sequence->state, "can_start() saw a free slot");
  sequence->path.nodes.reserve(static_cast<size_t>(max_blocks));
  sequence->path.hashes.reserve(static_cast<size_t>(max_blocks));
  if (std::exchange(sequence->has_started, true)) {
    --num_requeued_;
  } else {
    sequence->stream->leave_queue();
  }
  running_.insert(std::upper_bound(running_.begin(), running_.end(), sequence, is_earlier),
                  std::move(sequence));
}

// --- A step's rows ---

std::span<Share> Scheduler::plan(int64_t max_prefill_rows) {
  start_waiting();
  shares_.clear();
  int64_t prefill_rows_left = max_prefill_rows;
  for (size_t at = 0; at < running_.size(); ++at) {
    Sequence& sequence = *running_[at];
    const int64_t rows = rows_for(sequence, prefill_rows_left);
    if (rows == 0) continue;  // a later step's
    if (!reserve_or_preempt(at, rows)) break;
    if (sequence.num_behind() > 1) prefill_rows_left -= rows;
    const bool is_decode = sequence.num_behind() == 1 && sequence.num_chosen() > 0;
    shares_.push_back({&sequence, rows, is_decode, 0, {}, {}});
  }
  return shares_;
}

int64_t Scheduler::add_drafts(Share& share, int64_t drafts) {
  SequenceState& state = *share.sequence->state;
  const int64_t length = state.length() + share.rows;
  if (cache_) cache_->make_room(state.blocks_missing(length + drafts));
  if (!state.reserve(length + drafts))
    drafts = static_cast<int64_t>(state.blocks().size()) * kBlockTokens - length;
  share.rows += drafts;
  share.num_drafts = drafts;
  return drafts;
}

void Scheduler::plan_images() {
  for (Share& share : shares_) plan_images_of(share);
}

int64_t Scheduler::rows_for(Sequence& sequence, int64_t prefill_rows_left) {
  if (!sequence.is_attached) {
    if (prefill_rows_left == 0 || must_wait_for_another(sequence)) return 0;
    attach(sequence);
  }
  const int64_t behind = sequence.num_behind();
  if (behind == 1) return 1;
  if (sequence.request.prompt_logprobs)
    prefill_rows_left = std::min(prefill_rows_left, kMaxLogprobRows);
  return std::min(behind, prefill_rows_left);
}

bool Scheduler::uses_cache(const Sequence& sequence) const {
  return cache_ && !sequence.request.prompt_logprobs;
}

// Whether a sequence of this step is about to compute what this one needs too: it then waits, to
// find it in the cache. The other gets on, so this one does.
bool Scheduler::must_wait_for_another(Sequence& sequence) {
  if (!uses_cache(sequence)) return false;
  for (const Share& share : shares_) {
    if (share.sequence->key == sequence.leader)
      return share.sequence->state->length() < sequence.leader_length;
  }
  const int64_t max_blocks = sequence.max_shared_blocks();
  int64_t longest = 0;
  Sequence* leader = nullptr;
  for (const Share& share : shares_) {
    Sequence& other = *share.sequence;
    if (other.num_behind() == 1 || other.request.cache_salt != sequence.request.cache_salt)
      continue;
    const auto end = std::mismatch(other.tokens.begin(), other.tokens.end(),
                                   sequence.tokens.begin(), sequence.tokens.end());
    const int64_t common =
        std::min<int64_t>((end.first - other.tokens.begin()) / kBlockTokens, max_blocks);
    if (common > longest) {
      longest = common;
      leader = &other;
    }
  }
  if (leader == nullptr) return false;
  const int64_t wanted = longest * kBlockTokens;
  if (leader->state->length() >= wanted ||
      cache_->match(sequence.path, sequence.tokens, max_blocks).num_blocks >= longest) {
    return false;
  }
  sequence.leader = leader->key;
  sequence.leader_length = wanted;
  if (!wants_image(*leader, wanted)) leader->image_wishes.push_back(wanted);
  return true;
}

// The first position that runs the late layers. Exact replay may choose: as few rows as give exact
// logits at the last token and, with a cache, exact rings at the boundary before it.
int64_t Scheduler::late_from(const Sequence& sequence) const {
  if (sequence.request.prompt_logprobs) return 0;
  return late_from(sequence.num_prompt, sequence.num_tokens());
}

int64_t Scheduler::late_from(int64_t num_prompt, int64_t num_tokens) const {
  if (options_.replay.mode == ReplayMode::kCompact)
    return options_.replay.late_from(num_prompt - 1);
  const int64_t last = num_tokens - 1;
  const int64_t image = cache_ ? boundary(last) : 0;
  return options_.replay.late_from(image > 0 ? image : last);
}

// Takes up the longest prefix that the cache has.
void Scheduler::attach(Sequence& sequence) {
  const int64_t gate = late_from(sequence);
  sequence.is_attached = true;
  sequence.state->set_late_from(gate);
  if (!uses_cache(sequence)) return;
  const auto start = cache_->attach(sequence.path, *sequence.state, sequence.tokens,
                                    sequence.max_shared_blocks(), gate);
  if (start.is_whole && start.position >= gate) sequence.state->set_late_from(0);
  sequence.num_cached = start.position;
  // Where a prefix ends that somebody else has too, a third may want to start.
  const int64_t branch = sequence.state->shared_until();
  if (branch > start.position) sequence.image_wishes.push_back(branch);
}

// Blocks for `rows` more tokens of the sequence at `at`, taken from those behind it if need be.
// False: it was preempted itself, being the last.
bool Scheduler::reserve_or_preempt(size_t at, int64_t rows) {
  SequenceState& state = *running_[at]->state;
  const int64_t length = state.length() + rows;
  while (true) {
    if (cache_) cache_->make_room(state.blocks_missing(length));
    if (state.reserve(length)) return true;
    const bool is_last = at + 1 == running_.size();
    CHECK(!is_last || at > 0,
          "a request alone fits the store: it was checked when it was submitted");
    preempt_last();
    if (is_last) return false;
  }
}

void Scheduler::preempt_last() {
  std::unique_ptr<Sequence> sequence = std::move(running_.back());
  running_.pop_back();
  leave(*sequence);
  ++sequence->work.num_preemptions;
  ++num_requeued_;
  metrics_.total_preemptions.add(1);
  waiting_.emplace(sequence->key, std::move(sequence));
}

void Scheduler::preempt(const Sequence& sequence) {
  const auto is_it = [&sequence](const auto& other) { return other.get() == &sequence; };
  const auto found = std::find_if(running_.begin(), running_.end(), is_it);
  CHECK(found != running_.end(), "the sequence runs");
  std::rotate(found, found + 1, running_.end());
  preempt_last();
}

// Gives back what a sequence holds; what it published stays in the cache.
void Scheduler::leave(Sequence& sequence) {
  sequence.state.reset();
  if (cache_) cache_->release(sequence.path);
  sequence.is_attached = false;
  sequence.image_wishes.clear();
  sequence.rolling_image = 0;
  sequence.leader = {0, -1};
}

// --- Images ---

// Positions whose image stays: in fixed distances, at the end of the prompt (for the same prompt
// again, and for a longer one), and where others asked for one.
bool Scheduler::is_kept(const Sequence& sequence, int64_t position) const {
  return (options_.image_interval > 0 && position % options_.image_interval == 0) ||
         position == boundary(sequence.num_prompt - 1) ||
         position == boundary(sequence.num_prompt) ||
         std::find(sequence.image_wishes.begin(), sequence.image_wishes.end(), position) !=
             sequence.image_wishes.end();
}

// In an answer every boundary, since any may be the last; each replaces the one before.
bool Scheduler::wants_image(const Sequence& sequence, int64_t position) const {
  return position > sequence.num_prompt || is_kept(sequence, position);
}

void Scheduler::plan_images_of(Share& share) {
  Sequence& sequence = *share.sequence;
  if (!uses_cache(sequence)) return;
  const SequenceState& state = *sequence.state;
  const int64_t end = state.length() + share.rows;
  const int64_t last = boundary(sequence.num_tokens());
  for (int64_t position = boundary(state.length()) + kBlockTokens; position <= end;
       position += kBlockTokens) {
    // Of boundaries in an answer that is run again, the last alone can be the end.
    if (!is_kept(sequence, position) && (position <= sequence.num_prompt || position < last))
      continue;
    const bool whole = options_.replay.rings_are_exact(position, state.late_from());
    const bool is_published =
        position / kBlockTokens <= static_cast<int64_t>(sequence.path.nodes.size());
    if (is_published && cache_->has_image(sequence.path, position, whole)) continue;
    const auto image = cache_->take_image(whole);
    if (!image) return;
    share.images.push_back(*image);
    share.captures.push_back({position, cache_->view(*image)});
  }
}

void Scheduler::commit() {
  for (Share& share : shares_) {
    Sequence& sequence = *share.sequence;
    if (!uses_cache(sequence)) continue;
    const int64_t length = sequence.state->length();
    const int64_t full = length / kBlockTokens;
    while (static_cast<int64_t>(sequence.path.nodes.size()) < full)
      cache_->publish(sequence.path, *sequence.state, sequence.tokens);
    for (size_t i = 0; i < share.images.size(); ++i) {
      const int64_t position = share.captures[i].position;
      if (position > length) {  // was made with drafts that were not accepted
        cache_->drop_image(share.images[i]);
        continue;
      }
      cache_->add_image(sequence.path, position, share.images[i]);
      if (position <= sequence.num_prompt) continue;
      if (sequence.rolling_image > 0) cache_->forget_image(sequence.path, sequence.rolling_image);
      sequence.rolling_image = is_kept(sequence, position) ? 0 : position;
    }
    share.images.clear();
  }
}

void Scheduler::abandon() {
  for (Share& share : shares_) {
    for (const PendingImage& image : share.images) cache_->drop_image(image);
    share.images.clear();
  }
}

void Scheduler::drop_finished() {
  const auto is_finished = [](const std::unique_ptr<Sequence>& sequence) {
    return sequence->finished;
  };
  for (const auto& sequence : running_) {
    if (!sequence->finished) continue;
    forget_deadline(*sequence);
    leave(*sequence);
  }
  std::erase_if(running_, is_finished);
}

void Scheduler::count() const {
  const int64_t cached = cache_ ? cache_->num_unused() : 0;
  metrics_.num_running.set(static_cast<int64_t>(running_.size()));
  metrics_.num_waiting.set(num_requeued_);
  metrics_.num_blocks_cached.set(cached);
  metrics_.num_blocks_used.set(store_.plan().num_blocks - store_.num_free_blocks() - cached);
  metrics_.num_images.set(cache_ ? cache_->num_images() : 0);
}

void Scheduler::reset_cache() {
  if (cache_) cache_->reset();
}

Result<int64_t> Scheduler::save_prefix(std::span<const int32_t> ids, std::vector<uint8_t>& out) {
  if (!cache_) return no_prefix_cache();
  const auto num_tokens = static_cast<int64_t>(ids.size());
  return stoker::save_prefix(*cache_, store_, ids, late_from(num_tokens, num_tokens), out);
}

Result<int64_t> Scheduler::load_prefix(const SavedPrefix& saved,
                                       std::span<const int32_t> token_map) {
  if (!cache_) return no_prefix_cache();
  return stoker::load_prefix(*cache_, store_, saved, token_map);
}

Result<std::vector<std::vector<int32_t>>> Scheduler::cached_prefixes(size_t max) const {
  if (!cache_) return no_prefix_cache();
  return cache_->ends("", max);
}

void Scheduler::give_back_memory() {
  CHECK(running_.empty() && waiting_.empty(), "those who run or wait have memory");
  reset_cache();
  store_.give_back();
  count();
}

void Scheduler::report(const std::function<void(std::string_view line)>& tell) const {
  tell("event=scheduler running=" + std::to_string(running_.size()) + " waiting=" +
       std::to_string(waiting_.size()) + " preempted=" + std::to_string(num_requeued_) +
       " free_slots=" + std::to_string(store_.num_free_slots()) +
       " free_blocks=" + std::to_string(store_.num_free_blocks()) +
       " blocks=" + std::to_string(store_.plan().num_blocks) +
       " cached_blocks=" + std::to_string(cache_ ? cache_->num_unused() : 0));
  const Clock::time_point now = Clock::now();
  size_t num_told = 0;
  for (const auto& sequence : running_) {
    if (num_told++ < kMaxReported) tell(line_of(*sequence, "running", now));
  }
  for (const auto& [key, sequence] : waiting_) {
    if (num_told++ < kMaxReported) tell(line_of(*sequence, "waiting", now));
  }
}

std::string Scheduler::integrity_problem() const {
  std::vector<int32_t> references(static_cast<size_t>(store_.plan().num_blocks), 0);
  std::vector<const PrefixPath*> paths;
  for (const auto& sequence : running_) {
    for (const BlockId block : sequence->state->blocks()) ++references[static_cast<size_t>(block)];
    if (sequence->state->blocks_missing(sequence->state->length()) > 0)
      return "a position without a block";
    paths.push_back(&sequence->path);
  }
  for (const auto& [key, sequence] : waiting_) paths.push_back(&sequence->path);
  const auto num_slots = static_cast<int64_t>(running_.size()) + store_.num_free_slots();
  if (num_slots != store_.plan().num_slots) return "a slot is lost";
  if (cache_) {
    std::string problem = cache_->integrity_problem(paths, references);
    if (!problem.empty()) return problem;
  }
  return store_.integrity_problem(references);
}

}  // namespace stoker::engine
