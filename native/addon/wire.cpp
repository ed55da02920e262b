// The JavaScript class `Wire`: its life, its channel and its promises.
#include "addon/wire.h"

#include <utility>

#include "addon/engine.h"
#include "addon/reader.h"
#include "napi/errors.h"

namespace tokengrad {
namespace {

constexpr uint32_t kMaxThreads = 4096;
constexpr uint32_t kMinPiece = 1024;
constexpr uint32_t kMaxPiece = uint32_t{1} << 30;

}  // namespace

Napi::Function Wire::define(Napi::Env env) {
  return DefineClass(env, "Wire",
                     {
                         InstanceMethod<&Wire::plan>("plan"),
                         InstanceMethod<&Wire::write_now>("writeNow"),
                         InstanceMethod<&Wire::write>("write"),
                         InstanceMethod<&Wire::open>("open"),
                         InstanceMethod<&Wire::push>("push"),
                         InstanceMethod<&Wire::drained>("drained"),
                         InstanceMethod<&Wire::finish>("finish"),
                         InstanceMethod<&Wire::cancel>("cancel"),
                         InstanceMethod<&Wire::dispose>("dispose"),
                     });
}

Wire::Wire(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  guarded(info.Env(), [&] {
    const Reader options(info[0], "options");
    piece_bytes_ = options["pieceBytes"].whole(kMinPiece, kMaxPiece);
    // As of an engine: threads first, since the system may refuse them, and they end while the
    // channel that they write to is still there.
    pool_ = std::make_unique<Pool>(static_cast<int>(options["threads"].whole(1, kMaxThreads)));
    channel_ = Channel::New(info.Env(), "tokengrad wire", /*maxQueueSize=*/0,
                            /*initialThreadCount=*/1, this);
    channel_.Unref(info.Env());
    napi_add_env_cleanup_hook(info.Env(), &Wire::on_environment_end, this);
    info.Env().GetInstanceData<Environment>()->wires.insert(this);
  });
}

Wire::~Wire() { close(); }

void Wire::on_environment_end(void* wire) { static_cast<Wire*>(wire)->close(); }

void Wire::close() {
  if (pool_ == nullptr) return;
  disposed_ = true;
  Env().GetInstanceData<Environment>()->wires.erase(this);
  napi_remove_env_cleanup_hook(Env(), &Wire::on_environment_end, this);
  for (auto& [id, writing] : writings_) writing.encoding->cancel();
  for (auto& [id, arriving] : arrivals_) arriving.reading->cancel();
  pool_.reset();
  writings_.clear();
  arrivals_.clear();
  channel_.Release();
}

void Wire::check_open() const {
  if (disposed_) throw Error("ERR_DISPOSED", "the wire is disposed");
}

void Wire::on_message(Napi::Env env, Napi::Function, Wire* wire, Message* message) {
  const std::unique_ptr<Message> owned(message);
  // No environment: JavaScript is being torn down, and the wire may be gone already.
  if (env != nullptr) wire->settle(env, *owned);
}

Wire::Sender Wire::sender(Message::Kind kind, uint32_t id) {
  return [channel = channel_, kind, id](std::optional<Error> error) {
    auto message = std::make_unique<Message>(Message{kind, id, std::move(error)});
    if (channel.NonBlockingCall(message.get()) == napi_ok) message.release();
  };
}

Napi::Promise Wire::promise(Napi::Env env, std::optional<Deferred>& slot) {
  if (slot) throw Error("ERR_REQUEST", "id: expected one call at a time");
  if (promises_++ == 0) {
    Ref();
    channel_.Ref(env);
  }
  return slot.emplace(Deferred::New(env)).Promise();
}

void Wire::promise_settled(Napi::Env env) {
  if (--promises_ > 0) return;
  channel_.Unref(env);
  Unref();
  if (disposed_) close();
}

void Wire::settle(Napi::Env env, const Message& message) {
  switch (message.kind) {
    case Message::Kind::kWritten:
      return settle_written(env, message);
    case Message::Kind::kDrained:
      return settle_drained(env, message);
    case Message::Kind::kRead:
      return settle_read(env, message);
  }
}

void Wire::cancel(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] {
    const uint32_t id = Reader(info[0], "id").whole(0, UINT32_MAX);
    if (const auto writing = writings_.find(id); writing != writings_.end()) {
      writing->second.encoding->cancel();
      // Without a promise nothing is being written.
      if (!writing->second.deferred) writings_.erase(writing);
    }
    if (const auto arriving = arrivals_.find(id); arriving != arrivals_.end()) {
      stop(id, arriving->second);
    }
  });
}

void Wire::dispose(const Napi::CallbackInfo&) {
  if (disposed_) return;
  disposed_ = true;
  if (promises_ == 0) return close();
  // Settling the last promise closes.
  for (auto& [id, writing] : writings_) writing.encoding->cancel();
  for (auto& [id, arriving] : arrivals_) stop(id, arriving);
}

}  // namespace tokengrad
