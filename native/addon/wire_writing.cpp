// The JavaScript class `Wire`: texts that are written.
#include <algorithm>
#include <string>
#include <utility>

#include "addon/wire.h"
#include "addon/wire_parts.h"
#include "napi/errors.h"

namespace tokengrad {
namespace {

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

}  // namespace

Napi::Value Wire::plan(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    check_open();
    Writing writing;
    writing.encoding =
        std::make_unique<Encoding>(text_plan_of(Reader(info[0], "rows"), piece_bytes_));
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

}  // namespace tokengrad
