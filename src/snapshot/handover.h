// use/sealed-<digest>.<8 digits>: a socket at which a pinner hands out the descriptor of a sealed
// copy. Each side makes sure that the other is a process of this user or root. The bytes that go
// with the descriptor are 40: "stokseal", version, size, digest of the object.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/descriptor.h"
#include "base/folder.h"
#include "snapshot/object.h"
#include "snapshot/store.h"

namespace stoker::snapshot {

/// A start never waits longer than this for pinners, whatever they do.
constexpr std::chrono::milliseconds kHandoverTime{500};

/// A socket in its place. Movable; goes with its name. Who connects waits for answer().
class HandoverSocket {
 public:
  /// Errors: as system_error.
  static Result<HandoverSocket> listen(Folder folder, const Section& section);

  HandoverSocket(HandoverSocket&&) noexcept = default;
  HandoverSocket& operator=(HandoverSocket&&) = delete;
  ~HandoverSocket();

  /// Can be read when somebody has connected.
  int fd() const { return socket_.get(); }
  /// Takes one connection, sends the descriptor to a process of this user or root, and hangs up.
  /// Waits for nobody. False where no connection could be taken: there is none, or descriptors
  /// lack.
  bool answer(const Descriptor& memory) const;

 private:
  HandoverSocket(Folder folder, std::string name, Descriptor socket, std::string message);

  Folder folder_;
  std::string name_;
  Descriptor socket_;
  std::string message_;
};

/// What a pinner gave.
struct FromPinner {
  Object object;
  int64_t pid = 0;
};
/// Asks those that pin sealed copies of this content, and takes the first that is fit: in memory
/// that nobody can change, whose bytes the pinner has verified. Takes milliseconds whatever the
/// size, and kHandoverTime at most. None where nobody answers. Errors: those of Store::open_object;
/// kCorruptData for an answer of another user, unsealed, of another size, or malformed, if no
/// other one was fit.
Result<std::optional<FromPinner>> from_pinner(const Store& store, const Section& section);

/// Removes the sockets of pinners that ended more than a minute ago.
void remove_left_sockets(const Folder& use);

}  // namespace stoker::snapshot
