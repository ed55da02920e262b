// The JavaScript class `Wire`.
#include "addon/wire.h"

#include <algorithm>
#include <string>
#include <utility>

#include "addon/engine.h"
#include "addon/wire_parts.h"
#include "napi/errors.h"

namespace tokengrad {
namespace {

constexpr uint32_t kMaxThreads = 4096;
constexpr uint32_t kMinPiece = 1024;
constexpr uint32_t kMaxPiece = uint32_t{1} << 30;

Napi::Array lengths_of(Napi::Env env, const std::vector<size_t>& lengths) {
  Napi::Array array = Napi::Array::New(env, lengths.size());
  for (uint32_t i = 0; i < lengths.size(); ++i) array.Set(i, static_cast<double>(lengths[i]));
  return array;
}

/// A `NativeWritten`.
Napi::Object written_of(Napi::Env env, const Encoding& encoding) {
  const std::vector<size_t> ends = encoding.row_ends();
  Napi::Float64Array row_ends = Napi::Float64Array::New(env, ends.size());
  std::copy(ends.begin(), ends.end(), row_ends.Data());
  Napi::Object written = Napi::Object::New(env);
  written.Set("lengths", lengths_of(env, encoding.lengths()));
  written.Set("rowEnds", row_ends);
  return written;
}

/// The entry that an id stands for.
template <typename T>
typename std::map<uint32_t, T>::iterator entry_of(std::map<uint32_t, T>& entries, Napi::Value id) {
  const Reader reader(id, "id");
  const auto entry = entries.find(reader.whole(0, UINT32_MAX));
  if (entry == entries.end()) reader.refuse("the id of something that goes on");
  return entry;
}

/// Lets go of the parts that have been read.
template <typename Arriving>
void release_parts(Arriving& arriving) {
  for (const size_t consumed = arriving.reading->consumed(); arriving.released < consumed;
       ++arriving.released) {
    arriving.parts.pop_front();
  }
}

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
  uint32_t threads = 0;
  guarded(info.Env(), [&] {
    const Reader options(info[0], "options");
    threads = options["threads"].whole(1, kMaxThreads);
    piece_bytes_ = options["pieceBytes"].whole(kMinPiece, kMaxPiece);
  });
  channel_ = Channel::New(info.Env(), "tokengrad wire", /*maxQueueSize=*/0,
                          /*initialThreadCount=*/1, this);
  channel_.Unref(info.Env());
  pool_ = std::make_unique<Pool>(static_cast<int>(threads));
  // As of an engine: the threads end while the channel that they write to is still there.
  napi_add_env_cleanup_hook(info.Env(), &Wire::on_environment_end, this);
  info.Env().GetInstanceData<Environment>()->wires.insert(this);
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

auto Wire::sender(Message::Kind kind, uint32_t id) {
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
  if (message.kind == Message::Kind::kWritten) return settle_written(env, message);
  if (message.kind == Message::Kind::kRead) return settle_read(env, message);
  const auto arriving = arrivals_.find(message.id);
  if (arriving == arrivals_.end()) return;
  release_parts(arriving->second);
  const auto deferred = std::exchange(arriving->second.drained, std::nullopt);
  deferred->Resolve(env.Undefined());
  promise_settled(env);
}

void Wire::settle_written(Napi::Env env, const Message& message) {
  const auto writing = writings_.extract(message.id);
  if (writing.empty()) return;
  const Writing& done = writing.mapped();
  if (message.error) {
    done.deferred->Reject(to_js(env, *message.error).Value());
  } else {
    done.deferred->Resolve(written_of(env, *done.encoding));
  }
  promise_settled(env);
}

void Wire::settle_read(Napi::Env env, const Message& message) {
  const auto arriving = arrivals_.extract(message.id);
  if (arriving.empty() || !arriving.mapped().deferred) return;
  const Arriving& done = arriving.mapped();
  if (message.error) {
    done.deferred->Reject(to_js(env, *message.error).Value());
  } else {
    Napi::Object result = Napi::Object::New(env);
    result.Set("rest", done.reading->result().rest());
    result.Set("rows", static_cast<double>(done.reading->result().complete_rows()));
    done.deferred->Resolve(result);
  }
  promise_settled(env);
}

Napi::Value Wire::plan(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    check_open();
    Writing writing;
    writing.encoding =
        std::make_shared<Encoding>(text_plan_of(Reader(info[0], "rows"), piece_bytes_));
    writing.kept.push_back(Napi::Reference<Napi::Value>::New(info[0], 1));
    const TextPlan& plan = writing.encoding->plan();
    std::vector<size_t> sizes(plan.pieces());
    for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = plan.capacity(i);
    Napi::Object result = Napi::Object::New(info.Env());
    result.Set("id", next_id_);
    result.Set("sizes", lengths_of(info.Env(), sizes));
    writings_.emplace(next_id_++, std::move(writing));
    return result;
  });
}

std::vector<std::span<char>> Wire::blocks_of(Writing& writing, Napi::Value given) const {
  const Reader blocks(given, "blocks");
  const TextPlan& plan = writing.encoding->plan();
  if (blocks.length() != plan.pieces()) {
    blocks.refuse(std::to_string(plan.pieces()) + " blocks");
  }
  std::vector<std::span<char>> spans(plan.pieces());
  for (uint32_t i = 0; i < spans.size(); ++i) {
    const std::span<std::byte> bytes = blocks[i].bytes();
    if (bytes.size() < plan.capacity(i)) {
      blocks[i].refuse("at least " + std::to_string(plan.capacity(i)) + " bytes");
    }
    spans[i] = {reinterpret_cast<char*>(bytes.data()), bytes.size()};
  }
  writing.kept.push_back(Napi::Reference<Napi::Value>::New(given, 1));
  return spans;
}

Napi::Value Wire::write_now(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    check_open();
    auto writing = writings_.extract(entry_of(writings_, info[0]));
    writing.mapped().encoding->run(blocks_of(writing.mapped(), info[1]));
    return written_of(info.Env(), *writing.mapped().encoding);
  });
}

Napi::Value Wire::write(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    check_open();
    const auto entry = entry_of(writings_, info[0]);
    Writing& writing = entry->second;
    if (writing.deferred) throw Error("ERR_REQUEST", "id: expected one call at a time");
    auto blocks = blocks_of(writing, info[1]);
    const Napi::Promise result = promise(info.Env(), writing.deferred);
    writing.encoding->start(*pool_, std::move(blocks),
                            sender(Message::Kind::kWritten, entry->first));
    return result;
  });
}

Napi::Value Wire::open(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    check_open();
    const Reader options(info[0], "options");
    Arriving arriving;
    arriving.reading = std::make_shared<Reading>(result_reader_of(options));
    for (const char* name : {"output", "rowLengths", "runCounts", "runs"}) {
      arriving.kept.push_back(Napi::Reference<Napi::Value>::New(options[name].value(), 1));
    }
    arrivals_.emplace(next_id_, std::move(arriving));
    return Napi::Number::New(info.Env(), next_id_++);
  });
}

Napi::Value Wire::push(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    check_open();
    Arriving& arriving = entry_of(arrivals_, info[0])->second;
    if (arriving.finishing) throw Error("ERR_REQUEST", "id: expected no part after the end");
    const std::string_view part = bytes_of(Reader(info[1], "part"));
    release_parts(arriving);
    if (arriving.reading->failed()) return Napi::Number::New(info.Env(), -1);
    arriving.parts.push_back(Napi::Reference<Napi::Value>::New(info[1], 1));
    const size_t waiting = arriving.reading->push(*pool_, part);
    release_parts(arriving);
    return Napi::Number::New(info.Env(), static_cast<double>(waiting));
  });
}

Napi::Value Wire::drained(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    check_open();
    const auto entry = entry_of(arrivals_, info[0]);
    const Napi::Promise result = promise(info.Env(), entry->second.drained);
    entry->second.reading->when_drained(
        [send = sender(Message::Kind::kDrained, entry->first)] { send(std::nullopt); });
    return result;
  });
}

void Wire::finish(uint32_t id, Arriving& arriving) {
  arriving.finishing = true;
  arriving.reading->finish(sender(Message::Kind::kRead, id));
}

Napi::Value Wire::finish(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    check_open();
    const auto entry = entry_of(arrivals_, info[0]);
    if (entry->second.finishing) throw Error("ERR_REQUEST", "id: expected one end");
    const Napi::Promise result = promise(info.Env(), entry->second.deferred);
    finish(entry->first, entry->second);
    return result;
  });
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
      arriving->second.reading->cancel();
      if (!arriving->second.finishing) finish(id, arriving->second);
    }
  });
}

void Wire::dispose(const Napi::CallbackInfo&) {
  if (disposed_) return;
  disposed_ = true;
  if (promises_ == 0) return close();
  // Settling the last promise closes.
  for (auto& [id, writing] : writings_) writing.encoding->cancel();
  for (auto& [id, arriving] : arrivals_) {
    arriving.reading->cancel();
    if (!arriving.finishing) finish(id, arriving);
  }
}

}  // namespace tokengrad
