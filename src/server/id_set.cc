#include "server/id_set.h"

namespace stoker {
namespace {

constexpr size_t kFirstSlots = 64;

}  // namespace

uint64_t fnv1a64(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

uint64_t splitmix64(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

IdSet::IdSet() : slots_(kFirstSlots) {}

// The halves come from two unlike functions: ids that one of them confuses, the other tells apart.
IdSet::Key IdSet::key_of(std::string_view id) {
  Key key{splitmix64(fnv1a64(id)), id.size()};
  for (const char c : id) key.b = splitmix64(key.b ^ static_cast<unsigned char>(c));
  if (key == Key{}) key.b = 1;
  return key;
}

// Where the key is, or would be put.
size_t IdSet::find(const std::vector<Key>& slots, const Key& key) {
  size_t i = key.a & (slots.size() - 1);
  while (slots[i] != Key{} && slots[i] != key) i = (i + 1) & (slots.size() - 1);
  return i;
}

bool IdSet::insert(std::string_view id) {
  if (static_cast<size_t>(size_ + 1) * 10 > slots_.size() * 7) grow();
  const Key key = key_of(id);
  Key& slot = slots_[find(slots_, key)];
  if (slot == key) return false;
  slot = key;
  ++size_;
  return true;
}

bool IdSet::contains(std::string_view id) const {
  const Key key = key_of(id);
  return slots_[find(slots_, key)] == key;
}

void IdSet::grow() {
  std::vector<Key> larger(slots_.size() * 2);
  for (const Key& key : slots_) {
    if (key != Key{}) larger[find(larger, key)] = key;
  }
  slots_ = std::move(larger);
}

}  // namespace stoker
