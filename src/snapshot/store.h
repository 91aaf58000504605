// The store: a folder of immutable objects, each found under a key. What is asked for is either
// there whole, or not there; who finds it may still ask whether it is undamaged.
//
// How an object is had: find it, map it. If that fails with kNotFound or kCorruptData, or its bytes
// turn out damaged: lock the key, find and map once more (another process may have made it in the
// meantime), and if that fails too, remove what was found, create, write and publish.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "snapshot/object.h"
#include "snapshot/object_writer.h"

namespace stoker::snapshot {

/// What find() knows.
struct Found {
  std::optional<Section> section;  ///< none: make the object
  std::string reason;              ///< why there is none, for the log
};

/// Movable. Const members may be called from several threads and processes at once. What it hands
/// out keeps no hold of the store but for ObjectWriter and KeyLock, which it outlives.
class Store {
 public:
  /// $STOKER_STORE, else stoker/ in $XDG_CACHE_HOME, else in $HOME/.cache. Error: kNotFound where
  /// none of them is set.
  static Result<std::string> default_dir();

  /// Opens a store, made with mode 0700 where nothing is. One that cannot be written, as on a
  /// read-only mount, is good for find and map. Errors: kNotFound, kIo, kResourceExhausted, and
  /// kCorruptData if others than this user and root can write in it.
  static Result<Store> open(const std::string& dir);

  const std::string& dir() const { return dir_; }
  bool writable() const { return !read_only_; }

  /// What is known of the object of a key. A key file that cannot be believed counts as none.
  Found find(const std::string& kind, const Digest& key) const;

  /// Every object of a kind that is found under a key, in no order. Key files that cannot be
  /// believed are left out. Error: kIo.
  Result<std::vector<Section>> all(const std::string& kind) const;

  /// Maps an object and checks its table, and not yet its bytes: see Object::verify. Errors:
  /// kInvalidArgument, kNotFound, kIo, kCorruptData.
  Result<Object> map(const Section& section) const {
    return Object::open(folders_->objects, section);
  }
  /// What map() checks before it maps. Errors: the same.
  Result<ObjectFile> open_object(const Section& section) const {
    return ObjectFile::open(folders_->objects, section);
  }

  /// Waits until nobody else makes the object of this key. `wait`, which may be null, is told why
  /// while it waits. Errors: kCancelled where `wait` returned false, kInvalidArgument, kIo.
  Result<KeyLock> lock(const std::string& kind, const Digest& key, const WaitSink& wait = {}) const;

  /// Begins an object: see ObjectWriter::create.
  Result<ObjectWriter> create(const std::string& kind, int64_t bytes) const;

  /// A short object that is a text, found under the key from then on. What was there before stays
  /// until it is collected: manifests may name it. Errors: those of create, write and publish.
  Result<Section> put_text(const std::string& kind, const Digest& key,
                           const std::string& text) const;

  /// The text of an object of at most max_bytes, verified. Errors: those of map and
  /// Object::verify, and kCorruptData for a longer one.
  Result<std::string> text_of(const Section& section, size_t max_bytes) const;

  /// Forgets a damaged object: its key, then its files. Mappings of it stay. Errors: kIo.
  Result<void> remove(const Section& section) const;

  /// Removes the files of an object that another one has replaced under its key. Errors: kIo.
  Result<void> remove_object(const Section& section) const;

  /// Removes the work of processes that ended before they published it. Returns how many there
  /// were.
  int remove_leftovers() const;

  /// Error: kIo, with the reason why it cannot be written.
  Result<void> check_writable() const;

  /// For the files of this room.
  const StoreFolders& folders() const { return *folders_; }

 private:
  Store(std::string dir, std::unique_ptr<const StoreFolders> folders);

  std::string dir_;
  std::unique_ptr<const StoreFolders> folders_;  // at one address: writers point to it
  std::optional<Error> read_only_;               // why it cannot be written
};

}  // namespace stoker::snapshot
