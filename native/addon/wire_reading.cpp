// The JavaScript class `Wire`: results that arrive.
#include <utility>

#include "addon/wire.h"
#include "addon/wire_parts.h"
#include "napi/errors.h"

namespace tokengrad {

void Wire::Arriving::release_parts() {
  for (const size_t consumed = reading->consumed(); released < consumed; ++released) {
    parts.pop_front();
  }
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
    arriving.release_parts();
    if (arriving.reading->failed()) return Napi::Number::New(info.Env(), -1);
    arriving.parts.push_back(Napi::Reference<Napi::Value>::New(info[1], 1));
    const size_t waiting = arriving.reading->push(*pool_, part);
    arriving.release_parts();
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

void Wire::stop(uint32_t id, Arriving& arriving) {
  arriving.reading->cancel();
  if (!arriving.finishing) finish(id, arriving);
}

void Wire::resolve_drained(Napi::Env env, Arriving& arriving) {
  const auto deferred = std::exchange(arriving.drained, std::nullopt);
  if (!deferred) return;
  deferred->Resolve(env.Undefined());
  promise_settled(env);
}

void Wire::settle_drained(Napi::Env env, const Message& message) {
  const auto arriving = arrivals_.find(message.id);
  if (arriving == arrivals_.end()) return;
  arriving->second.release_parts();
  resolve_drained(env, arriving->second);
}

void Wire::settle_read(Napi::Env env, const Message& message) {
  const auto arriving = arrivals_.extract(message.id);
  if (arriving.empty()) return;
  Arriving& done = arriving.mapped();
  // The message that nothing waits may come behind this one.
  resolve_drained(env, done);
  if (!done.deferred) return;
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

}  // namespace tokengrad
