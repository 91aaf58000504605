// Conversations that are kept in the store of this user, and taken up again by a later process:
// what was said, and the state of the model behind it, so that no token of it is run again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stoker/engine.h"
#include "stoker/request.h"
#include "stoker/result.h"

namespace stoker {

/// A conversation under its name.
struct Session {
  std::string name;  ///< 1 to 64 of a-z, 0-9, '.', '_' and '-'
  std::vector<Message> messages;
  std::optional<std::string> thinking;          ///< as ChatPrompt
  std::optional<std::string> reasoning_effort;  ///< as ChatPrompt
};

/// What is known of a session in the store.
struct KeptSession {
  std::string name;
  std::string model;         ///< its name
  bool is_of_model = false;  ///< of the engine's model, whose state is in it
  int64_t num_messages = 0;
  int64_t num_tokens = 0;  ///< that need not be run again
  int64_t num_bytes = 0;
};

/// Puts a conversation into the store, in the place of one with this name and model, with what the
/// engine's prefix cache holds of a next turn's prompt; that may be nothing. store: a folder as
/// WeightOptions has it. Errors: kInvalidArgument for a name or for messages that cannot be
/// encoded, kUnsupported for a model without chat, kIo, kResourceExhausted, kCorruptData.
Result<KeptSession> keep_session(Engine& engine, const Session& session,
                                 const std::string& store = {});

/// A session as it was taken up.
struct LoadedSession {
  Session session;
  int64_t num_tokens = 0;        ///< that are in the engine's prefix cache now
  std::optional<Error> why_not;  ///< why their state was not loaded: they are run again then
};

/// Takes up a kept conversation: every byte is held against its digest before it is used. One of
/// another model or mode, or whose state is damaged or has no room, comes with its messages alone,
/// and the reason. Errors: kNotFound; kCorruptData where the messages are damaged; kIo.
Result<LoadedSession> load_session(Engine& engine, const std::string& name,
                                   const std::string& store = {});

/// All that can be read, by name. Errors: those of opening a store.
Result<std::vector<KeptSession>> kept_sessions(const Engine& engine, const std::string& store = {});

/// Removes the session of the engine's model with that name. Errors: kNotFound, kIo.
Result<void> forget_session(const Engine& engine, const std::string& name,
                            const std::string& store = {});

}  // namespace stoker
