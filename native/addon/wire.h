// The JavaScript class `Wire`: threads that write request bodies and read results, and the promises
// that wait for them.
#pragma once

#include <napi.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/wire/encoding.h"
#include "core/wire/reading.h"

namespace tokengrad {

class Wire : public Napi::ObjectWrap<Wire> {
 public:
  static Napi::Function define(Napi::Env env);

  /// `new Wire({ threads, pieceBytes })`.
  explicit Wire(const Napi::CallbackInfo& info);
  ~Wire() override;

  /// Ends the threads and the channel; promises that are pending never settle. Waits for what is
  /// being written and read, some milliseconds at most. Safe to call twice.
  void close();

 private:
  using Kept = std::vector<Napi::Reference<Napi::Value>>;
  using Deferred = Napi::Promise::Deferred;

  /// A text to be written. All of these belong to the JavaScript thread.
  struct Writing {
    std::unique_ptr<Encoding> encoding;
    /// The rows and the blocks.
    Kept kept;
    std::optional<Deferred> deferred;
  };
  /// A result that arrives.
  struct Arriving {
    std::shared_ptr<Reading> reading;
    /// The output and the layout.
    Kept kept;
    /// Parts that are not consumed, and how many have been let go of.
    std::deque<Napi::Reference<Napi::Value>> parts;
    size_t released = 0;
    std::optional<Deferred> drained;
    std::optional<Deferred> deferred;
    bool finishing = false;

    /// Lets go of the parts that have been read.
    void release_parts();
  };

  /// A message from a thread of the pool to the JavaScript thread.
  struct Message {
    enum class Kind { kWritten, kDrained, kRead } kind;
    uint32_t id;
    std::optional<Error> error;
  };

  static void on_environment_end(void* wire);
  static void on_message(Napi::Env env, Napi::Function, Wire* wire, Message* message);
  using Channel = Napi::TypedThreadSafeFunction<Wire, Message, &Wire::on_message>;
  using Sender = std::function<void(std::optional<Error>)>;

  Napi::Value plan(const Napi::CallbackInfo& info);
  Napi::Value write_now(const Napi::CallbackInfo& info);
  Napi::Value write(const Napi::CallbackInfo& info);
  Napi::Value open(const Napi::CallbackInfo& info);
  Napi::Value push(const Napi::CallbackInfo& info);
  Napi::Value drained(const Napi::CallbackInfo& info);
  Napi::Value finish(const Napi::CallbackInfo& info);
  void cancel(const Napi::CallbackInfo& info);
  void dispose(const Napi::CallbackInfo& info);

  void check_open() const;
  std::vector<std::span<char>> blocks_of(Writing& writing, Napi::Value given) const;
  void finish(uint32_t id, Arriving& arriving);
  /// Asks it to end, soon.
  void stop(uint32_t id, Arriving& arriving);
  void settle(Napi::Env env, const Message& message);
  void settle_written(Napi::Env env, const Message& message);
  void settle_drained(Napi::Env env, const Message& message);
  void resolve_drained(Napi::Env env, Arriving& arriving);
  void settle_read(Napi::Env env, const Message& message);
  /// Sends a message from any thread.
  Sender sender(Message::Kind kind, uint32_t id);
  Napi::Promise promise(Napi::Env env, std::optional<Deferred>& slot);
  void promise_settled(Napi::Env env);

  size_t piece_bytes_;
  uint32_t next_id_ = 0;
  std::map<uint32_t, Writing> writings_;
  std::map<uint32_t, Arriving> arrivals_;
  /// Promises that have not settled: while there are any the process lives.
  size_t promises_ = 0;
  bool disposed_ = false;
  Channel channel_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace tokengrad
