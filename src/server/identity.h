// What an answer says of itself that is not of the model: its id and its time. Also which unknown
// fields of requests the log knows already.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "stoker/log.h"

namespace stoker {

// What stands in front of a request's id in the id of its answer.
constexpr const char* kCompletionPrefix = "cmpl-";
constexpr const char* kChatPrefix = "chatcmpl-";
constexpr const char* kMessagePrefix = "msg_";
constexpr const char* kResponsePrefix = "resp_";

/// Seconds of the Unix clock.
int64_t unix_seconds();

/// Draws ids. Used by one thread at a time.
class IdSource {
 public:
  IdSource();

  /// 32 random hexadecimal digits.
  std::string next();

  /// The id of a call of a tool: `kind` and 24 of these digits.
  std::string next_call(const char* kind);

 private:
  std::mt19937_64 random_;
};

/// Tells the log of request fields that no table knows. Used by one thread at a time.
class UnknownFields {
 public:
  /// Logs each name once in the life of this object, as long as they are not too many. The log may
  /// be null.
  void tell(const std::vector<std::string>& names, const LogSink& log);

 private:
  std::unordered_set<std::string> told_;
};

}  // namespace stoker
