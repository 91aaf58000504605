#include "grammar/program.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "base/try.h"
#include "grammar/mask_classes.h"

namespace stoker::grammar {
namespace {

constexpr size_t kMaxEagerExtensions = 30'000;
constexpr size_t kEntryBytes = 64;  // of a hash map, about

uint64_t extension_key(uint32_t exits, uint32_t state_class) {
  return (uint64_t{exits} << 32) | state_class;
}

// Which rules a state is in, by where they start, and where each rule returns to.
class RuleMap {
 public:
  explicit RuleMap(const Automaton& automaton) : automaton_(automaton) {
    starts_.resize(automaton.num_states());
    for (StateId s = 0; s < automaton.num_states(); ++s)
      for (const Automaton::Call& call : automaton.calls(s)) returns_[call.start].insert(call.to);
    for (const auto& [start, unused] : returns_) mark(start);
  }

  const std::vector<StateId>& starts_of(StateId state) const { return starts_[state]; }
  /// Null for what is called nowhere.
  const std::set<StateId>* returns(StateId start) const {
    const auto found = returns_.find(start);
    return found != returns_.end() ? &found->second : nullptr;
  }

 private:
  void mark(StateId start) {
    std::vector<StateId> work = {start};
    const auto visit = [&](StateId s) {
      if (s == kDead || (!starts_[s].empty() && starts_[s].back() == start)) return;
      starts_[s].push_back(start);
      work.push_back(s);
    };
    while (!work.empty()) {
      const StateId s = work.back();
      work.pop_back();
      for (int byte = 0; byte < 256; ++byte)
        if (automaton_.first(s)[static_cast<size_t>(byte)])
          visit(automaton_.step(s, static_cast<uint8_t>(byte)));
      for (const Automaton::Call& call : automaton_.calls(s)) visit(call.to);
    }
  }

  const Automaton& automaton_;
  std::vector<std::vector<StateId>> starts_;
  std::map<StateId, std::set<StateId>> returns_;
};

}  // namespace

Result<std::shared_ptr<const Program>> Program::compile(
    const Grammar& grammar, std::shared_ptr<const Vocabulary> vocabulary,
    const ProgramOptions& options) {
  TRY_ASSIGN(Automaton automaton, Automaton::build(grammar, options.limits));
  // make_shared cannot reach the constructor.
  std::shared_ptr<Program> program(
      new Program(std::move(automaton), std::move(vocabulary), options));
  if (Result<void> done = program->make_masks(options.max_eager_work); !done)
    return std::move(done).error();
  return std::shared_ptr<const Program>(std::move(program));
}

Program::Program(Automaton automaton, std::shared_ptr<const Vocabulary> vocabulary,
                 const ProgramOptions& options)
    : automaton_(std::move(automaton)),
      vocabulary_(std::move(vocabulary)),
      max_mask_bytes_(options.max_mask_bytes),
      reach_(plain_reach(automaton_)),
      class_of_(mask_classes(automaton_, vocabulary_->all().max_depth())) {
  for (StateId s = 0; s < class_of_.size(); ++s)
    if (class_of_[s] == example_.size()) example_.push_back(s);
  num_classes_ = example_.size();
  masks_ = std::vector<std::atomic<const TokenMask*>>(num_classes_);
}

Program::~Program() {
  for (const auto& mask : masks_) delete mask.load();
}

Result<void> Program::make_masks(size_t max_work) {
  Chart chart(automaton_);
  TokenWalk walk(*vocabulary_, chart);
  for (uint32_t i = 0; i < num_classes_ && chart.work() < max_work; ++i) {
    TokenMask mask = walk.mask_of(example_[i], reach_[example_[i]]);
    if (!mask.is_complete) {
      return Error{ErrorCode::kInvalidArgument,
                   "grammar too ambiguous: too many readings of the same text stand side by side",
                   {}};
    }
    if (keep(i, mask) == nullptr) return {};
  }
  make_extensions(walk, chart, max_work);
  return {};
}

// For each rule and each exit in it, what goes on where the rule is called from; and what goes on
// behind the end of those in turn.
void Program::make_extensions(TokenWalk& walk, const Chart& chart, size_t max_work) {
  const RuleMap rules(automaton_);
  std::set<std::pair<uint32_t, StateId>> seen;  // a set of exits, the start of the rule it is in
  std::vector<std::pair<uint32_t, StateId>> work;
  const auto visit = [&](uint32_t exits, StateId start) {
    if (exits != TokenMask::kNoExits && exits != TokenMask::kOwnExits &&
        rules.returns(start) != nullptr && seen.emplace(exits, start).second)
      work.emplace_back(exits, start);
  };
  for (StateId s = 0; s < automaton_.num_states(); ++s)
    if (const TokenMask* made = masks_[class_of_[s]].load())
      for (const StateId start : rules.starts_of(s)) visit(made->exits, start);
  for (size_t i = 0; i < work.size(); ++i) {
    const auto [exits, start] = work[i];
    for (const StateId after : *rules.returns(start)) {
      if (chart.work() >= max_work || extensions_.size() >= kMaxEagerExtensions) return;
      const uint64_t key = extension_key(exits, class_of_[after]);
      const auto found = extensions_.find(key);
      const TokenMask* made = found != extensions_.end() ? found->second.get() : nullptr;
      if (made == nullptr) {
        TokenMask mask = walk.extension_of(*exits_[exits - 1], example_[class_of_[after]]);
        made = keep_extension(key, mask);
        if (made == nullptr) return;
      }
      for (const StateId outer : rules.starts_of(after)) visit(made->exits, outer);
    }
  }
}

bool Program::take_memory(size_t bytes) const {
  if (mask_bytes_.fetch_add(bytes) + bytes <= max_mask_bytes_) return true;
  mask_bytes_.fetch_sub(bytes);
  return false;
}

// Gives the exits of a mask a number; false if there is no memory for them.
bool Program::keep_exits(TokenMask& mask) const {
  if (mask.exits != TokenMask::kOwnExits) return true;
  const std::unique_lock lock(mutex_);
  auto found = exit_numbers_.find(mask.own_exits);
  if (found == exit_numbers_.end()) {
    if (!take_memory(sizeof(ExitSet) + mask.own_exits.nodes.size() * sizeof(uint32_t)))
      return false;
    found =
        exit_numbers_.emplace(std::move(mask.own_exits), static_cast<uint32_t>(exits_.size() + 1))
            .first;
    exits_.push_back(&found->first);
  }
  mask.exits = found->second;
  mask.own_exits = {};
  return true;
}

// Moves the mask to where all find it; null if there is no memory for it, and it stays.
const TokenMask* Program::keep(uint32_t index, TokenMask& mask) const {
  if (!keep_exits(mask)) return nullptr;
  const size_t bytes = mask.memory_bytes();
  if (!take_memory(bytes)) return nullptr;
  auto made = std::make_unique<const TokenMask>(std::move(mask));
  const TokenMask* expected = nullptr;
  if (masks_[index].compare_exchange_strong(expected, made.get())) return made.release();
  mask_bytes_.fetch_sub(bytes);
  return expected;  // another thread was faster
}

const TokenMask* Program::keep_extension(uint64_t key, TokenMask& mask) const {
  if (!keep_exits(mask)) return nullptr;
  const size_t bytes = mask.memory_bytes() + kEntryBytes;
  if (!take_memory(bytes)) return nullptr;
  const std::unique_lock lock(mutex_);
  auto& place = extensions_[key];
  if (place == nullptr) {
    place = std::make_unique<const TokenMask>(std::move(mask));
  } else {
    mask_bytes_.fetch_sub(bytes);
  }
  return place.get();
}

const TokenMask& Program::mask(StateId state, TokenMask& spare) const {
  const uint32_t index = class_of_[state];
  if (const TokenMask* made = masks_[index].load()) return *made;
  Chart chart(automaton_);
  spare = TokenWalk(*vocabulary_, chart).mask_of(example_[index], reach_[example_[index]]);
  const TokenMask* kept = keep(index, spare);
  return kept != nullptr ? *kept : spare;
}

const TokenMask& Program::extension(const TokenMask& from, StateId state, TokenMask& spare) const {
  const bool is_kept = from.exits != TokenMask::kOwnExits;
  const uint64_t key = extension_key(from.exits, class_of_[state]);
  const ExitSet* exits = &from.own_exits;
  if (is_kept) {
    const std::shared_lock lock(mutex_);
    const auto found = extensions_.find(key);
    if (found != extensions_.end()) return *found->second;
    exits = exits_[from.exits - 1];
  }
  Chart chart(automaton_);
  spare = TokenWalk(*vocabulary_, chart).extension_of(*exits, example_[class_of_[state]]);
  const TokenMask* kept = is_kept ? keep_extension(key, spare) : nullptr;
  return kept != nullptr ? *kept : spare;
}

size_t Program::num_extensions() const {
  const std::shared_lock lock(mutex_);
  return extensions_.size();
}

size_t Program::num_masks_made() const {
  return static_cast<size_t>(std::count_if(
      masks_.begin(), masks_.end(), [](const auto& mask) { return mask.load() != nullptr; }));
}

size_t Program::memory_bytes() const {
  return automaton_.memory_bytes() + mask_bytes_.load() +
         class_of_.size() * (sizeof(uint32_t) + sizeof(PlainReach)) +
         num_classes_ * (sizeof(StateId) + sizeof(masks_[0]));
}

}  // namespace stoker::grammar
