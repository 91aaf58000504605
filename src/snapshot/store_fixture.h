// What the tests of the store share: a folder that goes away, objects of made-up bytes, children
// that end without cleaning up.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "snapshot/store.h"

namespace stoker::snapshot {

/// Two whole chunks and a short one.
constexpr int64_t kTestBytes = 2 * kChunkBytes + 12345;

inline std::vector<uint8_t> made_bytes(int64_t bytes, uint32_t seed) {
  std::vector<uint8_t> made(static_cast<size_t>(bytes));
  uint32_t state = seed * 2654435761U + 1;
  for (uint8_t& byte : made) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return made;
}

inline std::string text_in(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Calls body() in a child process; returns its exit code, or minus the signal that ended it.
template <class Body>
int run_in_child(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return -1000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Code of a child that cannot do what its test needs; the test is then skipped.
constexpr int kChildSkips = 77;

inline bool write_proc(const char* path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return !file.fail();
}

// A user namespace that holds this user and group, as who is not root needs it for a mount.
inline bool has_own_users() {
  const std::string user = std::to_string(::geteuid());
  const std::string group = std::to_string(::getegid());
  return ::unshare(CLONE_NEWUSER) == 0 &&
         write_proc("/proc/self/uid_map", user + " " + user + " 1") &&
         write_proc("/proc/self/setgroups", "deny") &&
         write_proc("/proc/self/gid_map", group + " " + group + " 1");
}

// Puts the calling process, which is a child of a test, into a mount namespace of its own.
inline bool has_own_mounts() {
  return (::geteuid() == 0 || has_own_users()) && ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

// In a child: prints what is not as expected, for the parent sees only an exit code.
#define EXPECT_IN_CHILD(condition)                                         \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                            \
    }                                                                      \
  } while (false)

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (place() / "stoker_store_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    dir_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  /// In memory where that can be: hundreds of syncs take no time there.
  static std::filesystem::path place() {
    const std::filesystem::path memory = "/dev/shm";
    return ::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
  }

  Store open_store() const {
    auto store = Store::open((dir_ / "store").string());
    EXPECT_TRUE(store) << store.error().message;
    return *std::move(store);
  }

  /// Puts bytes into a store; fails the test where that fails.
  static Section put(const Store& store, const Digest& key, const std::vector<uint8_t>& bytes) {
    auto writer = store.create("weights.0", static_cast<int64_t>(bytes.size()));
    EXPECT_TRUE(writer) << writer.error().message;
    if (!writer) return {};
    EXPECT_TRUE(writer->write(0, bytes));
    const auto section = writer->publish(key, 2);
    EXPECT_TRUE(section) << section.error().message;
    return section ? *section : Section{};
  }

  std::filesystem::path objects() const { return dir_ / "store" / "objects"; }
  std::filesystem::path keys() const { return dir_ / "store" / "keys"; }
  std::filesystem::path tmp() const { return dir_ / "store" / "tmp"; }

  std::vector<std::string> names_in(const std::filesystem::path& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  std::filesystem::path dir_;
  const Digest key_ = digest_of("a key");
};

}  // namespace stoker::snapshot
