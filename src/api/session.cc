// Sessions in the store. An object has its text in front, whose chunks are held against their
// digests before it is read; the state behind it is verified whole before it is loaded.
#include "stoker/session.h"

#include <algorithm>
#include <utility>

#include "api/session_bytes.h"
#include "api/stored_weights.h"
#include "base/machine.h"
#include "base/try.h"
#include "snapshot/store.h"

namespace stoker {
namespace {

using snapshot::Digest;
using snapshot::Object;
using snapshot::Section;
using snapshot::Store;

constexpr const char* kSessionKind = "session";

Result<Digest> key_of_session(const ModelInfo& model, const std::string& name) {
  if (!snapshot::is_kind(name)) {
    return Error{ErrorCode::kInvalidArgument,
                 "expected a name of 1 to 64 of a-z, 0-9, '.', '_', '-', found '" + name + "'",
                 "name"};
  }
  snapshot::Hasher hasher;
  return hasher.add_text("session 1").add_text(model.digest).add_text(name).digest();
}

// A mapped session whose text is undamaged.
struct OpenSession {
  Object object;
  SessionLayout layout;
  SessionText text;

  Bytes prefix() const {
    return object.bytes().subspan(static_cast<size_t>(layout.prefix_offset()),
                                  static_cast<size_t>(layout.prefix_bytes));
  }
};

Result<void> verify_until(const Object& object, int64_t end) {
  for (int64_t chunk = 0; chunk * snapshot::kChunkBytes < end; ++chunk) {
    if (!object.chunk_is_good(chunk)) return object.chunk_error(chunk);
  }
  return {};
}

Result<OpenSession> open_session(const Store& store, const Section& section) {
  TRY_ASSIGN(Object object, store.map(section));
  if (auto good = verify_until(object, 1); !good) return std::move(good).error();
  TRY_ASSIGN(const SessionLayout layout, SessionLayout::read(object.bytes(), section.bytes));
  const int64_t end = layout.text_offset() + layout.text_bytes;
  if (auto good = verify_until(object, end); !good) return std::move(good).error();
  const auto* const from =
      reinterpret_cast<const char*>(object.bytes().data()) + layout.text_offset();
  TRY_ASSIGN(SessionText text, parse_session_json({from, static_cast<size_t>(layout.text_bytes)}));
  return OpenSession{std::move(object), layout, std::move(text)};
}

KeptSession kept_of(const SessionText& text, const ModelInfo& model, int64_t num_bytes) {
  return {text.session.name,
          text.model,
          text.model_digest == model.digest,
          static_cast<int64_t>(text.session.messages.size()),
          text.num_tokens,
          num_bytes};
}

// What the engine knows of the prompt of a next turn, whatever will be said in it.
Result<KeptPrefix> prefix_of(Engine& engine, const Session& session) {
  ChatPrompt prompt{session.messages, session.thinking, session.reasoning_effort};
  prompt.messages.push_back({"user", {"?"}});
  TRY_ASSIGN(const std::vector<int32_t> ids, engine.encode(std::move(prompt)));
  auto kept = engine.save_prefix(ids);
  if (!kept &&
      (kept.error().code == ErrorCode::kNotFound || kept.error().code == ErrorCode::kUnsupported))
    return KeptPrefix{};
  return kept;
}

Result<Section> write_session(const Store& store, const Digest& key, const std::string& json,
                              const KeptPrefix& prefix) {
  const SessionLayout layout{static_cast<int64_t>(json.size()),
                             static_cast<int64_t>(prefix.bytes.size())};
  TRY_ASSIGN(snapshot::ObjectWriter writer, store.create(kSessionKind, layout.bytes()));
  auto written = writer.write(0, snapshot::bytes_of(layout.head()));
  if (written) written = writer.write(layout.text_offset(), snapshot::bytes_of(json));
  if (written) written = writer.write(layout.prefix_offset(), prefix.bytes);
  if (!written) return std::move(written).error();
  return writer.publish(key, usable_cores());
}

// The session of a name; without one of this model, one that another model has left.
Result<OpenSession> find_session(const Store& store, const Digest& key, const std::string& name) {
  const snapshot::Found found = store.find(kSessionKind, key);
  if (found.section) return open_session(store, *found.section);
  TRY_ASSIGN(const std::vector<Section> sections, store.all(kSessionKind));
  for (const Section& section : sections) {
    auto open = open_session(store, section);
    if (open && open->text.session.name == name) return open;
  }
  return Error{ErrorCode::kNotFound, "no session '" + name + "' in " + store.dir(), ""};
}

// Loads the state, or says why not.
Result<int64_t> load_state(Engine& engine, const OpenSession& open) {
  const ModelInfo& model = engine.model();
  if (open.text.model_digest != model.digest) {
    return Error{ErrorCode::kInvalidArgument,
                 "the session is of another model: expected " + model.digest + " (" + model.name +
                     "), found " + open.text.model_digest + " (" + open.text.model + ")",
                 ""};
  }
  if (open.layout.prefix_bytes == 0) return 0;
  if (auto good = open.object.verify(usable_cores()); !good) return std::move(good).error();
  return engine.load_prefix(open.prefix());
}

}  // namespace

Result<KeptSession> keep_session(Engine& engine, const Session& session, const std::string& store) {
  const ModelInfo& model = engine.model();
  TRY_ASSIGN(const Digest key, key_of_session(model, session.name));
  TRY_ASSIGN(const Store opened, open_store(store));
  TRY_ASSIGN(const KeptPrefix prefix, prefix_of(engine, session));
  const SessionText text{session, model.name, model.digest, model.numeric_mode, prefix.num_tokens};
  const std::string json = session_json(text);
  if (static_cast<int64_t>(json.size()) > SessionLayout::kMaxTextBytes) {
    return Error{ErrorCode::kInvalidArgument,
                 "a session: expected messages of at most " +
                     std::to_string(SessionLayout::kMaxTextBytes) + " bytes as JSON, found " +
                     std::to_string(json.size()),
                 ""};
  }
  TRY_ASSIGN(const snapshot::KeyLock lock, opened.lock(kSessionKind, key));
  const snapshot::Found old = opened.find(kSessionKind, key);
  TRY_ASSIGN(const Section section, write_session(opened, key, json, prefix));
  if (old.section && old.section->object() != section.object()) {
    if (auto removed = opened.remove_object(*old.section); !removed)
      return std::move(removed).error();
  }
  return kept_of(text, model, section.bytes);
}

Result<LoadedSession> load_session(Engine& engine, const std::string& name,
                                   const std::string& store) {
  TRY_ASSIGN(const Digest key, key_of_session(engine.model(), name));
  TRY_ASSIGN(const Store opened, open_store(store));
  TRY_ASSIGN(const OpenSession open, find_session(opened, key, name));
  LoadedSession loaded{open.text.session, 0, std::nullopt};
  const auto num_tokens = load_state(engine, open);
  if (num_tokens) {
    loaded.num_tokens = *num_tokens;
  } else {
    loaded.why_not = num_tokens.error();
  }
  return loaded;
}

Result<std::vector<KeptSession>> kept_sessions(const Engine& engine, const std::string& store) {
  TRY_ASSIGN(const Store opened, open_store(store));
  TRY_ASSIGN(const std::vector<Section> sections, opened.all(kSessionKind));
  std::vector<KeptSession> all;
  for (const Section& section : sections) {
    const auto open = open_session(opened, section);
    if (open) all.push_back(kept_of(open->text, engine.model(), section.bytes));
  }
  std::ranges::sort(all, {},
                    [](const KeptSession& kept) { return std::pair(kept.name, kept.model); });
  return all;
}

Result<void> forget_session(const Engine& engine, const std::string& name,
                            const std::string& store) {
  TRY_ASSIGN(const Digest key, key_of_session(engine.model(), name));
  TRY_ASSIGN(const Store opened, open_store(store));
  TRY_ASSIGN(const snapshot::KeyLock lock, opened.lock(kSessionKind, key));
  const snapshot::Found found = opened.find(kSessionKind, key);
  if (!found.section) return Error{ErrorCode::kNotFound, "no session '" + name + "'", ""};
  return opened.remove(*found.section);
}

}  // namespace stoker
