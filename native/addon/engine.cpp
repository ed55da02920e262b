// The JavaScript class `Engine`.
#include "addon/engine.h"

#include "addon/program.h"
#include "addon/reader.h"
#include "napi/errors.h"

namespace tokengrad {
namespace {

constexpr uint32_t kMaxThreads = 4096;

at::ScalarType precision_of(const Reader& reader) {
  const std::string name = reader.text();
  if (name == "float32") return at::kFloat;
  if (name == "float64") return at::kDouble;
  reader.refuse("\"float32\" or \"float64\"");
}

Dtype dtype_of(const Reader& reader) {
  const std::string name = reader.text();
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16, Dtype::kFloat64}) {
    if (name == name_of(dtype)) return dtype;
  }
  reader.refuse("\"float32\", \"bfloat16\" or \"float64\"");
}

Executor executor_of(const Reader& reader) {
  const std::string name = reader.text();
  if (name == "fused") return Executor::kFused;
  if (name == "torch") return Executor::kTorch;
  if (name == "autograd") return Executor::kAutograd;
  reader.refuse("\"fused\", \"torch\" or \"autograd\"");
}

/// Reads a request whose memory stays in JavaScript's hands, and keeps each part of that memory.
Request request_of(const Reader& given, std::vector<Napi::Reference<Napi::Value>>& kept) {
  const auto keep = [&kept](const Reader& reader, auto read) {
    const auto memory = (reader.*read)();
    kept.push_back(Napi::Reference<Napi::Value>::New(reader.value(), 1));
    return memory;
  };
  Request request;
  request.precision = precision_of(given["precision"]);
  request.dtype = dtype_of(given["dtype"]);
  request.layout = {.row_lengths = keep(given["rowLengths"], &Reader::uint32s),
                    .run_counts = keep(given["runCounts"], &Reader::uint32s),
                    .runs = keep(given["runs"], &Reader::uint32s),
                    .group_sizes = keep(given["groupSizes"], &Reader::uint32s)};
  const Reader inputs = given["inputs"];
  for (uint32_t i = 0; i < inputs.length(); ++i) {
    request.inputs.push_back(keep(inputs[i], &Reader::floats));
  }
  request.output = keep(given["output"], &Reader::bytes);
  const Reader outputs = given["outputs"];
  for (uint32_t i = 0; i < outputs.length(); ++i) {
    request.outputs.push_back(keep(outputs[i], &Reader::float64s));
  }
  return request;
}

Napi::Object to_js(Napi::Env env, const CudaStatus& status) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("state", status.state);
  object.Set("devices", status.devices);
  if (!status.reason.empty()) object.Set("reason", status.reason);
  return object;
}

Napi::Value to_js(Napi::Env env, const Opened& opened) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("device", opened.choice.device.str());
  object.Set("cuda", to_js(env, opened.cuda));
  if (!opened.choice.fallback_reason.empty()) {
    object.Set("fallbackReason", opened.choice.fallback_reason);
  }
  return object;
}

Napi::Value to_js(Napi::Env env, const RunResult& result) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("loss", result.loss);
  Napi::Array metrics = Napi::Array::New(env, result.metrics.size());
  for (uint32_t i = 0; i < result.metrics.size(); ++i) metrics.Set(i, result.metrics[i]);
  object.Set("metrics", metrics);
  return object;
}

/// The outcome of `work`, whatever it throws.
template <typename Work>
Outcome outcome_of(const Work& work, const CancelFlag& cancel) {
  try {
    return work(cancel);
  } catch (...) {
    return current_error();
  }
}

}  // namespace

Napi::Function Engine::define(Napi::Env env) {
  return DefineClass(env, "Engine",
                     {
                         InstanceMethod<&Engine::open>("open"),
                         InstanceMethod<&Engine::run>("run"),
                         InstanceMethod<&Engine::cancel>("cancel"),
                         InstanceMethod<&Engine::dispose>("dispose"),
                     });
}

Engine::Engine(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  guarded(info.Env(), [&] {
    const Reader options(info[0], "options");
    device_name_ = options["device"].text();
    // First, since the system may refuse a thread: then there is no channel to close.
    worker_ = std::make_unique<Worker>(static_cast<int>(options["threads"].whole(1, kMaxThreads)));
    channel_ =
        Channel::New(info.Env(), "tokengrad", /*maxQueueSize=*/0, /*initialThreadCount=*/1, this);
    // Only a pending call keeps the process alive.
    channel_.Unref(info.Env());
    info.Env().GetInstanceData<Environment>()->engines.insert(this);
    // Hooks run last in, first out: this one ends the thread while the channel it writes to is
    // still there.
    napi_add_env_cleanup_hook(info.Env(), &Engine::on_environment_end, this);
  });
}

Engine::~Engine() { close(); }

void Engine::on_environment_end(void* engine) { static_cast<Engine*>(engine)->close(); }

void Engine::close() {
  if (worker_ == nullptr) return;
  disposed_ = true;
  Env().GetInstanceData<Environment>()->engines.erase(this);
  napi_remove_env_cleanup_hook(Env(), &Engine::on_environment_end, this);
  worker_.reset();
  pending_.clear();
  channel_.Release();
}

void Engine::on_completion(Napi::Env env, Napi::Function, Engine* engine, Completion* completion) {
  const std::unique_ptr<Completion> owned(completion);
  // No environment: JavaScript is being torn down, and the engine may be gone already.
  if (env != nullptr) engine->settle(env, owned->id, owned->outcome);
}

template <typename Work>
Napi::Object Engine::submit(Napi::Env env, std::vector<Napi::Reference<Napi::Value>> kept,
                            Work work) {
  const uint32_t id = next_id_++;
  auto job = std::make_shared<Job>();
  job->work = [id, channel = channel_, work = std::move(work)](const CancelFlag& cancel) {
    auto completion = std::make_unique<Completion>(Completion{id, outcome_of(work, cancel)});
    if (channel.NonBlockingCall(completion.get()) == napi_ok) completion.release();
  };
  const auto deferred = Napi::Promise::Deferred::New(env);
  if (pending_.empty()) {
    Ref();
    channel_.Ref(env);
  }
  pending_.emplace(id, Pending{deferred, job, std::move(kept)});
  worker_->submit(std::move(job));
  Napi::Object call = Napi::Object::New(env);
  call.Set("id", id);
  call.Set("promise", deferred.Promise());
  return call;
}

void Engine::settle(Napi::Env env, uint32_t id, const Outcome& outcome) {
  auto call = pending_.extract(id);
  if (call.empty()) return;
  const Napi::Promise::Deferred& deferred = call.mapped().deferred;
  std::visit(
      [&](const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, Error>) {
          deferred.Reject(to_js(env, value).Value());
        } else {
          deferred.Resolve(to_js(env, value));
        }
      },
      outcome);
  if (!pending_.empty()) return;
  channel_.Unref(env);
  Unref();
  if (disposed_) close();
}

Napi::Value Engine::open(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    if (disposed_) throw Error("ERR_DISPOSED", "the engine is disposed");
    return submit(info.Env(), {},
                  [name = device_name_, device = device_](const CancelFlag&) -> Outcome {
                    Opened opened{choose_device(name), cuda_status()};
                    *device = opened.choice.device;
                    return opened;
                  });
  });
}

Napi::Value Engine::run(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    if (disposed_) throw Error("ERR_DISPOSED", "the engine is disposed");
    auto program = program_of(Reader(info[0], "program"));
    std::vector<Napi::Reference<Napi::Value>> kept;
    const Reader given(info[1], "request");
    const Executor executor = executor_of(given["executor"]);
    Request request = request_of(given, kept);
    return submit(info.Env(), std::move(kept),
                  [program = std::move(program), request = std::move(request), executor,
                   device = device_](const CancelFlag& cancel) -> Outcome {
                    return run_program(*program, request, executor, *device, cancel);
                  });
  });
}

void Engine::cancel(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] {
    const auto call = pending_.find(Reader(info[0], "id").whole(0, UINT32_MAX));
    if (call == pending_.end()) return;
    if (worker_->cancel(call->second.job)) {
      settle(info.Env(), call->first, Error("ERR_ABORTED", "the run was cancelled"));
    }
  });
}

void Engine::dispose(const Napi::CallbackInfo& info) {
  if (disposed_) return;
  disposed_ = true;
  if (pending_.empty()) return close();
  // Settling the last of them closes; the job that is running settles by itself, soon.
  std::vector<uint32_t> waiting;
  for (const auto& [id, call] : pending_) {
    if (worker_->cancel(call.job)) waiting.push_back(id);
  }
  for (const uint32_t id : waiting) {
    settle(info.Env(), id, Error("ERR_ABORTED", "the engine was disposed"));
  }
}

}  // namespace tokengrad
