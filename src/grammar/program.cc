#include "grammar/program.h"

#include <algorithm>
#include <utility>

#include "base/try.h"
#include "grammar/mask_classes.h"

namespace stoker::grammar {

Result<std::shared_ptr<const Program>> Program::compile(
    const Grammar& grammar, std::shared_ptr<const Vocabulary> vocabulary,
    const ProgramOptions& options) {
  TRY_ASSIGN(Automaton automaton, Automaton::build(grammar, options.limits));
  // make_shared cannot reach the constructor.
  std::shared_ptr<Program> program(
      new Program(std::move(automaton), std::move(vocabulary), options));
  program->make_masks(options.max_eager_steps);
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

void Program::make_masks(size_t max_steps) {
  Chart chart(automaton_);
  TokenWalk walk(*vocabulary_, chart);
  for (uint32_t i = 0; i < num_classes_ && walk.num_steps() < max_steps; ++i) {
    TokenMask mask = walk.mask_of(example_[i], reach_[example_[i]]);
    if (keep(i, mask) == nullptr) return;
  }
}

// Moves the mask to where all find it; null if there is no memory for it, and it stays.
const TokenMask* Program::keep(uint32_t index, TokenMask& mask) const {
  const size_t bytes = mask.memory_bytes();
  if (mask_bytes_.fetch_add(bytes) + bytes > max_mask_bytes_) {
    mask_bytes_.fetch_sub(bytes);
    return nullptr;
  }
  auto made = std::make_unique<const TokenMask>(std::move(mask));
  const TokenMask* expected = nullptr;
  if (masks_[index].compare_exchange_strong(expected, made.get())) return made.release();
  mask_bytes_.fetch_sub(bytes);
  return expected;  // another thread was faster
}

const TokenMask& Program::mask(StateId state, TokenMask& spare) const {
  const uint32_t index = class_of_[state];
  if (const TokenMask* made = masks_[index].load()) return *made;
  Chart chart(automaton_);
  spare = TokenWalk(*vocabulary_, chart).mask_of(example_[index], reach_[example_[index]]);
  const TokenMask* kept = keep(index, spare);
  return kept != nullptr ? *kept : spare;
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
