// The JavaScript handle of a checked program.
#include "addon/program.h"

#include "napi/errors.h"

namespace tokengrad {
namespace {

/// Marks our own handles, so that no other external value is taken for one.
constexpr napi_type_tag kTag = {0x9d1f0f6a52c84c0b, 0xb9a3f2f4f8f64f0e};
constexpr uint32_t kMaxIndex = 0x7fffffff;

using Handle = std::shared_ptr<const Compiled>;

Axis axis_of(const Reader& reader) {
  const std::string name = reader.text();
  if (name == "batch") return Axis::kBatch;
  if (name == "group") return Axis::kGroup;
  if (name == "sample") return Axis::kSample;
  if (name == "token") return Axis::kToken;
  reader.refuse("an axis");
}

Kind kind_of(const Reader& reader) {
  const std::string name = reader.text();
  if (name == "number") return Kind::kNumber;
  if (name == "mask") return Kind::kMask;
  reader.refuse("\"number\" or \"mask\"");
}

std::vector<size_t> indices_of(const Reader& reader) {
  std::vector<size_t> indices(reader.length());
  for (uint32_t i = 0; i < indices.size(); ++i) indices[i] = reader[i].whole(0, kMaxIndex);
  return indices;
}

NodeSpec node_of(const Reader& reader) {
  NodeSpec node;
  node.op = reader["op"].text();
  if (const Reader aten = reader["aten"]; !aten.value().IsUndefined()) node.aten = aten.text();
  node.inputs = indices_of(reader["inputs"]);
  const Reader attributes = reader["attributes"];
  for (const std::string& key : attributes.keys())
    node.attributes[key] = attributes[key.c_str()].number();
  node.axis = axis_of(reader["axis"]);
  node.kind = kind_of(reader["kind"]);
  return node;
}

}  // namespace

Napi::Value compile(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const Reader given(info[0], "program");
    ProgramSpec spec;
    const Reader nodes = given["nodes"];
    for (uint32_t i = 0; i < nodes.length(); ++i) spec.nodes.push_back(node_of(nodes[i]));
    spec.inputs = indices_of(given["inputs"]);
    spec.variable = given["variable"].whole(0, kMaxIndex);
    spec.loss = given["loss"].whole(0, kMaxIndex);
    spec.metrics = indices_of(given["metrics"]);
    spec.gradient = given["gradient"].whole(0, kMaxIndex);
    spec.forward = given["forward"].whole(0, kMaxIndex);
    spec.outputs = indices_of(given["outputs"]);

    auto handle = std::make_unique<Handle>(std::make_shared<const Compiled>(spec));
    auto external = Napi::External<Handle>::New(info.Env(), handle.get(),
                                                [](Napi::Env, Handle* done) { delete done; });
    handle.release();
    external.TypeTag(&kTag);
    return external;
  });
}

Napi::Value lacking(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const auto compiled = program_of(Reader(info[0], "program"));
    const std::vector<std::string>& names = compiled->plan.lacking();
    Napi::Array array = Napi::Array::New(info.Env(), names.size());
    for (uint32_t i = 0; i < names.size(); ++i) array.Set(i, names[i]);
    return array;
  });
}

std::shared_ptr<const Compiled> program_of(const Reader& handle) {
  const Napi::Value value = handle.value();
  if (!value.IsExternal() || !value.As<Napi::External<Handle>>().CheckTypeTag(&kTag)) {
    handle.refuse("a compiled program");
  }
  return *value.As<Napi::External<Handle>>().Data();
}

}  // namespace tokengrad
