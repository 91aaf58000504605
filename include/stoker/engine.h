// The door: open a model, submit requests, read their events. Everything else of the library is
// behind it.
//
// An Engine runs one thread of its own that steps the model, and a pool of workers. Callers may
// submit from any thread. The text of an answer is made on the thread that reads the Stream, never
// on the engine's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/events.h"
#include "stoker/log.h"
#include "stoker/request.h"
#include "stoker/result.h"
#include "stoker/snapshot_info.h"
#include "stoker/speculation.h"
#include "stoker/stats.h"

namespace stoker {

/// What a model is, for those who ask. Immutable after open.
struct ModelInfo {
  std::string name;        ///< last part of the model's path, or "demo"
  std::string path;        ///< its directory
  int32_t vocab_size = 0;  ///< ids are 0 .. vocab_size - 1
  int32_t max_context_tokens = 0;
  bool has_text = false;              ///< a tokenizer is there: text prompts and text answers
  bool has_chat = false;              ///< and it has the control tokens of the chat format
  int32_t bos_id = 0;                 ///< begins a text
  std::vector<int32_t> eos_ids = {};  ///< end one
  SamplingParams defaults;
  std::string digest;        ///< of what in it decides an answer, 32 hexadecimal digits
  std::string numeric_mode;  ///< the name of what it computes (docs/numerics.md)
};

/// How far something long is.
struct Progress {
  std::string phase;      ///< what is being done, such as "packing weights"
  double fraction = 0;    ///< of the phase, 0 to 1
  int64_t num_bytes = 0;  ///< that the phase handles in all; 0: it is not about bytes
};

/// Called while a model is opened, from the opening thread.
using ProgressSink = std::function<void(const Progress& progress)>;

/// When packed weights that come from the store are held against their digests.
enum class Verify {
  kBackground,  ///< while the engine serves; a damaged part stops it
  kFull,        ///< before they are used: damaged ones are made again
};

/// Weights are packed for the kernels once, and kept in a store that the next start maps.
struct WeightOptions {
  std::string store = {};  ///< a folder; empty: $STOKER_STORE, else stoker/ in the user's cache
  bool pack = true;        ///< false: no store, packed in memory at each start
  Verify verify = Verify::kBackground;
};

/// Which rows of a prompt run the layers after the last KV source (docs/numerics.md).
enum class BoundedReplay {
  kOff,      ///< all
  kExact,    ///< those that are needed for the bits of kOff; kOff where the model does not allow it
  kCompact,  ///< fewer: faster, and other answers. Open fails where the model does not allow it
};

struct EngineOptions {
  int num_threads = 0;  ///< 0: the physical cores that this process may use
  int max_model_len =
      0;  ///< tokens of a prompt and its answer; 0: what the checkpoint's context holds
  int max_num_seqs = 256;  ///< sequences that run at the same time; more wait
  /// Bytes for the state of all sequences and the prefix cache; 0: a half of the memory that this
  /// process may use beside the weights (an eighth of it where they do not fit), and never more
  /// than all sequences can use.
  int64_t kv_budget_bytes = 0;
  int max_queue = 1024;               ///< requests that wait; one more is kOverloaded
  int max_num_batched_tokens = 1024;  ///< rows of a step at most; at least max_num_seqs
  bool use_priorities = false;        ///< serve by Request::priority, then by arrival
  bool prefix_caching = true;         ///< begin where an earlier request already was
  int64_t image_budget_bytes = -1;    ///< of the budget, for places to begin at; -1: an eighth
  int image_interval = 512;  ///< tokens between these places, a multiple of 128; 0: ends only
  BoundedReplay bounded_replay = BoundedReplay::kExact;
  SpeculationOptions speculation = {};
  /// A store that cannot be used is logged, and the weights are packed in memory.
  WeightOptions weights = {};
  /// Told once, from any thread, if the engine stops by itself: kCorruptData where packed weights
  /// turn out damaged. By then requests end with that error, and healthy() is false. Must not call
  /// the engine. May be null.
  std::function<void(const Error& why)> on_stop = {};
  bool tune = true;  ///< kernels as measured on this machine (stoker/tune.h); false: as built in
  /// Where no plan is kept for this machine and these threads, measures one before the first
  /// request, for at most so long. 0: never.
  double tune_seconds = 0;
  LogSink log;            ///< may be null
  ProgressSink progress;  ///< may be null
};

/// How much a sleeping engine gives back.
enum class SleepLevel {
  kNothing = 0,  ///< it only refuses requests
  kState = 1,    ///< the memory of what requests had, and of cached prefixes
  kWeights = 2,  ///< also the pages of the weights, which the system then reads again
};

/// Where an engine that was quiesced gets its weights from again.
struct ResumeOptions {
  std::string store = {};  ///< as WeightOptions: may be another folder than before
  std::chrono::milliseconds canary_limit{60'000};
  ProgressSink progress = {};  ///< may be null
};

/// A running request. Read by one thread at a time; cancel() may come from any. Destroying it
/// cancels the request. May outlive its Engine: it then ends with kCancelled.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  /// The next event if one is ready, of any choice. Never blocks. After every choice had its event
  /// with `finish`: none.
  virtual std::optional<Event> poll() = 0;

  /// As poll, but waits up to `limit` for an event.
  virtual std::optional<Event> wait(std::chrono::milliseconds limit) = 0;

  /// Asks the engine to stop; it does so before its next step. The final events still come.
  virtual void cancel() = 0;

  /// The prompt as the model reads it. Lives as long as the stream.
  virtual const std::vector<int32_t>& prompt_ids() const = 0;

  /// The seed in use: the request's, or the one drawn for it. Finish has those of each choice.
  virtual uint64_t seed() const = 0;

  virtual int32_t num_choices() const = 0;
};

/// The state behind the first tokens of a prompt, as bytes that any engine of the same model and
/// numeric mode can continue from (docs/formats.md). As private as the tokens, which are in them.
struct KeptPrefix {
  std::vector<uint8_t> bytes;
  int64_t num_tokens = 0;  ///< of the ids that were asked for; a multiple of 128
};

/// A model that answers requests: the real one, or a scripted one in the server's tests.
class Engine {
 public:
  /// Opens a checkpoint directory (or the name "demo") and starts the engine. Errors: kNotFound,
  /// kIo, kCorruptData, kInvalidArgument (options, or a config that contradicts itself),
  /// kUnsupported (a model or processor that this build cannot run), kResourceExhausted.
  static Result<std::unique_ptr<Engine>> open(const std::string& model,
                                              const EngineOptions& options = {});

  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;  ///< cancels what runs and joins its threads

  virtual const ModelInfo& model() const = 0;

  /// The bytes that a token stands for, which alone need not be UTF-8; empty where there is no
  /// tokenizer or the id has no text. Any thread.
  virtual std::string token_bytes(int32_t id) const = 0;

  /// The ids of a prompt as submit makes them. Errors: kInvalidArgument and kUnsupported with their
  /// field. Any thread.
  virtual Result<std::vector<int32_t>> encode(Prompt prompt) const = 0;

  /// The text of ids, control tokens included; ill-formed UTF-8 in it becomes U+FFFD. Errors:
  /// kInvalidArgument with field "tokens" for an id outside the vocabulary, kUnsupported without a
  /// tokenizer. Any thread.
  virtual Result<std::string> decode(const std::vector<int32_t>& ids) const = 0;

  /// Validates, turns the prompt into ids on the calling thread, and queues. `ready` is called,
  /// from any thread, whenever poll() may have something new; it must not block and must not call
  /// the stream. It is never called after the stream's destructor has returned. Errors:
  /// kInvalidArgument and kUnsupported with their field, kOverloaded, kCancelled after drain()
  /// began, kCorruptData after its weights turned out damaged.
  virtual Result<std::unique_ptr<Stream>> submit(Request request,
                                                 std::function<void()> ready = {}) = 0;

  /// What it has done and does. From any thread, and nobody waits.
  virtual EngineStats stats() const = 0;

  /// Forgets all cached prefixes before the next step.
  virtual void reset_prefix_cache() = 0;

  // Prefixes as bytes. Any thread, also while requests run: these wait for the time that the bytes
  // take to be copied, and the caller for the step that runs. Error of all three: kUnsupported
  // without a prefix cache, kResourceExhausted, kCancelled after the engine's end.
  /// What the prefix cache holds of a beginning of `ids` without a salt. No answer depends on it.
  /// Errors: kNotFound where it holds no place to begin at, those of submit for ids.
  virtual Result<KeptPrefix> save_prefix(const std::vector<int32_t>& /*ids*/) {
    return keeps_no_prefix();
  }
  /// Puts what save_prefix gave into the prefix cache: the next request that begins with these
  /// tokens, without a salt, goes on from there, with the bits that it would have had. Returns the
  /// number of tokens. The bytes are looked at from end to end first. Errors: kCorruptData;
  /// kInvalidArgument for another model, numeric mode or longer context, naming which;
  /// kUnsupported for another version, or another bounded replay that cannot begin there;
  /// kResourceExhausted where the memory for state has no room. Then nothing has changed.
  virtual Result<int64_t> load_prefix(std::span<const uint8_t> /*bytes*/) {
    return keeps_no_prefix();
  }
  /// The longest prefixes without a salt that save_prefix can give now, at most `max`, the one last
  /// used first.
  virtual Result<std::vector<std::vector<int32_t>>> cached_prefixes(size_t /*max*/) {
    return keeps_no_prefix();
  }

  /// Saves it as a snapshot of the store that its weights are in, for bring_up()
  /// (stoker/snapshot.h): what it was loaded from, read whole once more; the plans of this machine;
  /// a canary, whose prompts run beside other requests; and cached prefixes where they are asked
  /// for. Waits for all of that; any thread, others go on. Errors: kUnsupported without weights in
  /// a store, or where prefixes are asked for without a prefix cache; kInvalidArgument with field
  /// "name" or "prefixes"; kOverloaded while another process collects; kInternal with field
  /// "canary" where two runs differ; kCorruptData, kNotFound, kIo and kResourceExhausted of the
  /// store; those of submit; kDeadlineExceeded; kCancelled.
  virtual Result<SavedSnapshot> save_snapshot(const SaveSnapshot& /*what*/) {
    return Error{ErrorCode::kUnsupported, "expected an engine with weights in a store, found none",
                 ""};
  }

  /// Refuses new requests (kResourceExhausted) until wake_up(), and gives memory back as soon as
  /// those that run or wait have ended; with `abort` they are cancelled. stats() tell whether that
  /// is done. Cached prefixes are gone then; no answer is another one. Error: kUnsupported for
  /// kWeights where the weights are not mapped from the store. Any thread.
  virtual Result<void> sleep(SleepLevel level, bool abort) = 0;
  /// Takes requests again; what was given back comes again as it is used.
  virtual void wake_up() = 0;

  /// Whether quiesce() would be kUnsupported, with the reason. Any thread.
  virtual Result<void> can_quiesce() const { return keeps_its_files(); }
  /// Lets go of all that binds it to files and to memory of others, so that an image of the process
  /// holds none of it, and files and folders may change: the mappings of weights (their addresses
  /// stay reserved), the store with its descriptors and locks, the memory for the state of
  /// requests. Refuses requests from now on (kResourceExhausted), waits up to `grace` for those
  /// that run or wait and cancels the rest; save_snapshot() gives up. Until resume() it answers
  /// none, sleep() is refused and wake_up() does nothing. One call at a time. Errors:
  /// kInvalidArgument where it is quiesced already; kUnsupported where the weights are not mapped
  /// from a store; kCancelled where the engine has ended; kResourceExhausted where a file could not
  /// be unmapped, and then it is quiesced all the same.
  virtual Result<void> quiesce(std::chrono::milliseconds /*grace*/) { return keeps_its_files(); }
  /// Maps the same objects at the same addresses, holds every byte of them against its digest, and
  /// takes requests again, also after drain(). One from a snapshot is asked the canary first,
  /// before anybody else may ask. A checkpoint's own files must be the same, by size, time and
  /// inode, and have the same fingerprint. Errors: kInvalidArgument where it is not quiesced;
  /// kNotFound, kCorruptData with the object; kInternal with field "canary" where an answer
  /// differs; kIo, kResourceExhausted; those of a signature that the snapshot had to have. It then
  /// stays quiesced.
  virtual Result<void> resume(const ResumeOptions& /*options*/) { return keeps_its_files(); }

  /// From now on remembers what each step takes and does, the first 50,000. Error:
  /// kInvalidArgument where it does already. Any thread.
  virtual Result<void> start_profile() = 0;
  /// Ends it. What is returned makes a JSON document of it, in the form that Chrome and Perfetto
  /// show as a time line; it may take a second, and be called by any thread at any time. Error:
  /// kInvalidArgument where nothing was started.
  virtual Result<std::function<std::string()>> stop_profile() = 0;

  /// Tells the log what runs and waits, in lines of level info, before the next step. Any thread.
  virtual void log_state() = 0;

  /// Whether steps are being taken when there is work: false after a fault that ended the engine
  /// thread, or found its weights damaged.
  virtual bool healthy() const = 0;

  /// Refuses new requests from now on, or until resume(), and waits up to `limit` for those that
  /// run or wait; cancels the rest.
  virtual void drain(std::chrono::milliseconds limit) = 0;

 private:
  static Error keeps_its_files() {
    return {ErrorCode::kUnsupported, "expected an engine that can let go of its files, found none",
            ""};
  }
  static Error keeps_no_prefix() {
    return {ErrorCode::kUnsupported, "expected an engine with a prefix cache, found none", ""};
  }
};

/// The directory that a MODEL argument means: an existing directory, or "demo", which is the model
/// that comes with the library. kNotFound otherwise.
Result<std::string> resolve_model(const std::string& model);

}  // namespace stoker
