#include "snapshot/handover.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "base/try.h"
#include "snapshot/pin_record.h"
#include "snapshot/sealed.h"

namespace stoker::snapshot {
namespace {

using HandoverClock = std::chrono::steady_clock;

constexpr std::string_view kHandoverMagic = "stokseal";
constexpr int64_t kHandoverVersion = 1;
constexpr size_t kHandoverBytes = 40;
constexpr size_t kMaxSentDescriptors = 8;  // more than one is refused
constexpr int kMaxConnections = 64;        // that wait to be taken
constexpr std::string_view kSealedPrefix = "sealed-";
constexpr time_t kLeftSeconds = 60;

std::string socket_prefix(const Section& section) {
  return std::string(kSealedPrefix) + section.digest.hex() + ".";
}

std::string handover_message(const Section& section) {
  std::string message(kHandoverMagic);
  append_le(message, kHandoverVersion);
  append_le(message, section.bytes);
  for (const uint8_t byte : section.digest.bytes) message += static_cast<char>(byte);
  return message;
}

// By way of the open folder: a path of any length, and that of this very folder.
sockaddr_un address_of(const Folder& folder, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = "/proc/self/fd/" + std::to_string(folder.fd()) + "/" + name;
  std::copy_n(path.begin(), std::min(path.size(), sizeof address.sun_path - 1), address.sun_path);
  return address;
}

const sockaddr* general(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// Messages are whole or not there.
Descriptor new_socket() {
  return Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

bool is_of_us(uid_t user) {
  return user == ::geteuid() || user == 0;
}

// The other side, as the system knows it; none if it cannot be trusted.
std::optional<ucred> trusted_peer(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  if (!is_of_us(peer.uid)) return std::nullopt;
  return peer;
}

Error bad_answer(const std::string& path, const std::string& what) {
  return {ErrorCode::kCorruptData, path + ": " + what, ""};
}

Error no_answer(const std::string& path, const std::string& what) {
  return {ErrorCode::kNotFound, path + ": " + what, ""};
}

// Room for the descriptors that come with a message.
union Control {
  cmsghdr align;
  std::array<char, CMSG_SPACE(kMaxSentDescriptors * sizeof(int))> bytes;
};

std::vector<Descriptor> descriptors_in(msghdr& header) {
  std::vector<Descriptor> found;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      found.emplace_back(fd);
    }
  }
  return found;
}

// Waits for the answer until `end`, and takes it.
Result<Descriptor> receive(int fd, const std::string& path, const std::string& expected,
                           HandoverClock::time_point end) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(end - HandoverClock::now());
  pollfd answer{fd, POLLIN, 0};
  if (::poll(&answer, 1, static_cast<int>(std::max<int64_t>(0, left.count()))) <= 0) {
    return no_answer(path, "its pinner does not answer");
  }
  std::array<char, kHandoverBytes + 1> text{};
  Control control{};
  iovec part{text.data(), text.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes.data();
  header.msg_controllen = control.bytes.size();
  const ssize_t n = ::recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n <= 0) return no_answer(path, "its pinner hung up");
  std::vector<Descriptor> sent = descriptors_in(header);
  if (std::string_view(text.data(), static_cast<size_t>(n)) != expected) {
    return bad_answer(path, "expected an answer for this object, found another one");
  }
  if (sent.size() != 1 || (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return bad_answer(path, "expected one descriptor, found " + std::to_string(sent.size()));
  }
  return std::move(sent[0]);
}

// The descriptor that is handed out at a socket, and by whom.
Result<std::pair<Descriptor, int64_t>> ask(const Folder& folder, const std::string& name,
                                           const std::string& expected,
                                           HandoverClock::time_point end) {
  const std::string path = folder.path_of(name);
  struct stat status {};
  if (::fstatat(folder.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return system_error(path, "cannot be examined");
  }
  if (!S_ISSOCK(status.st_mode) || !is_of_us(status.st_uid)) {
    return bad_answer(path, "expected a socket of this user or root, found something else");
  }
  const Descriptor socket = new_socket();
  if (socket.get() < 0) return system_error(path, "no socket can be made");
  const sockaddr_un address = address_of(folder, name);
  // Never waits: where too many wait already, nobody answers.
  if (::connect(socket.get(), general(address), sizeof address) != 0) {
    return no_answer(path, errno == ECONNREFUSED ? "its pinner has ended" : "cannot be reached");
  }
  const std::optional<ucred> peer = trusted_peer(socket.get());
  if (!peer) return bad_answer(path, "expected a pinner of this user or root, found another's");
  TRY_ASSIGN(Descriptor memory, receive(socket.get(), path, expected, end));
  return std::pair(std::move(memory), static_cast<int64_t>(peer->pid));
}

// What one call of from_pinner() knows.
class Asker {
 public:
  Asker(const Store& store, const Section& section)
      : store_(store), section_(section), expected_(handover_message(section)) {}

  Result<void> look_in(const Folder& folder) {
    const auto names = folder.names();
    if (!names) return {};
    for (const std::string& name : *names) {
      if (found_ || !name.starts_with(socket_prefix(section_))) continue;
      auto answer = ask(folder, name, expected_, end_);
      if (!answer) {
        note(std::move(answer).error());
        continue;
      }
      TRY_ASSIGN(ObjectFile file, store_.open_object(section_));
      auto object = object_in(answer->first, std::move(file));
      if (object) {
        found_.emplace(FromPinner{*std::move(object), answer->second});
      } else {
        note(std::move(object).error());
      }
    }
    return {};
  }

  Result<std::optional<FromPinner>> result() {
    if (!found_ && bad_) return *std::move(bad_);
    return std::move(found_);
  }

 private:
  void note(Error error) {
    if (error.code != ErrorCode::kNotFound) bad_ = std::move(error);
  }

  const Store& store_;
  const Section& section_;
  const std::string expected_;
  const HandoverClock::time_point end_ = HandoverClock::now() + kHandoverTime;
  std::optional<FromPinner> found_;
  std::optional<Error> bad_;
};

bool has_ended(const Folder& folder, const std::string& name) {
  const Descriptor socket = new_socket();
  const sockaddr_un address = address_of(folder, name);
  return socket.get() >= 0 && ::connect(socket.get(), general(address), sizeof address) != 0 &&
         errno == ECONNREFUSED;
}

}  // namespace

HandoverSocket::HandoverSocket(Folder folder, std::string name, Descriptor socket,
                               std::string message)
    : folder_(std::move(folder)),
      name_(std::move(name)),
      socket_(std::move(socket)),
      message_(std::move(message)) {}

HandoverSocket::~HandoverSocket() {
  if (socket_.get() >= 0) (void)folder_.remove_file(name_);
}

Result<HandoverSocket> HandoverSocket::listen(Folder folder, const Section& section) {
  std::array<uint8_t, 4> random{};
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return system_error(section.object(), "no random bytes");
  }
  const std::string name = socket_prefix(section) + digest_of(random).hex().substr(0, 8);
  const std::string path = folder.path_of(name);
  Descriptor socket = new_socket();
  const sockaddr_un address = address_of(folder, name);
  if (socket.get() < 0 || ::bind(socket.get(), general(address), sizeof address) != 0) {
    return system_error(path, "cannot be made");
  }
  HandoverSocket made(std::move(folder), name, std::move(socket), handover_message(section));
  if (::fchmodat(made.folder_.fd(), name.c_str(), S_IRUSR | S_IWUSR, 0) != 0 ||
      ::listen(made.fd(), kMaxConnections) != 0) {
    return system_error(path, "cannot be listened at");
  }
  return made;
}

bool HandoverSocket::answer(const Descriptor& memory) const {
  const Descriptor peer(::accept4(fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (peer.get() < 0) return false;
  if (!trusted_peer(peer.get())) return true;
  std::string message = message_;
  Control control{};
  iovec part{message.data(), message.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes.data();
  header.msg_controllen = CMSG_SPACE(sizeof(int));
  cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = memory.get();
  std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  // One that does not read it loses it.
  (void)::sendmsg(peer.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  return true;
}

Result<std::optional<FromPinner>> from_pinner(const Store& store, const Section& section) {
  if (auto checked = check_section(section); !checked) return std::move(checked).error();
  Asker asker(store, section);
  if (auto asked = asker.look_in(store.folders().use); !asked) return std::move(asked).error();
  if (const auto folder = runtime_folder(); folder) {
    if (auto asked = asker.look_in(*folder); !asked) return std::move(asked).error();
  }
  return asker.result();
}

void remove_left_sockets(const Folder& use) {
  const auto names = use.names();
  if (!names) return;
  for (const std::string& name : *names) {
    struct stat status {};
    if (!name.starts_with(kSealedPrefix) ||
        ::fstatat(use.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    // A young one may be between its name and its first connection.
    if (!S_ISSOCK(status.st_mode) || status.st_mtime + kLeftSeconds > ::time(nullptr)) continue;
    if (has_ended(use, name)) (void)use.remove_file(name);
  }
}

}  // namespace stoker::snapshot
