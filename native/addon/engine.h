// The JavaScript class `Engine`: one worker thread, its queue of runs, and the promises that wait
// for them.
#pragma once

#include <napi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <variant>

#include "core/device.h"
#include "core/executor.h"
#include "core/worker.h"

namespace tokengrad {

class Engine;
class Wire;

/// What `open` found.
struct Opened {
  DeviceChoice choice;
  CudaStatus cuda;
};

using Outcome = std::variant<Error, Opened, RunResult>;

/// A message from the worker's thread to the JavaScript thread.
struct Completion {
  uint32_t id;
  Outcome outcome;
};

/// What belongs to one JavaScript environment: the main thread's, or a worker thread's.
struct Environment {
  /// Engines and wires whose threads have not ended.
  std::set<Engine*> engines;
  std::set<Wire*> wires;
};

class Engine : public Napi::ObjectWrap<Engine> {
 public:
  static Napi::Function define(Napi::Env env);

  /// `new Engine({ device, threads })`. Starts the worker; the device is chosen by `open`. Throws
  /// `ERR_REQUEST` if the options do not fit and `ERR_NATIVE` if no thread can be started.
  explicit Engine(const Napi::CallbackInfo& info);
  ~Engine() override;

  /// Ends the thread and the channel; promises that are pending never settle. Waits for the job
  /// that is running, if any. Safe to call twice.
  void close();

 private:
  /// A call that has not been answered. All of it belongs to the JavaScript thread.
  struct Pending {
    Napi::Promise::Deferred deferred;
    std::shared_ptr<Job> job;
    /// The arrays that the job reads, and those it writes.
    std::vector<Napi::Reference<Napi::Value>> kept;
  };

  static void on_environment_end(void* engine);
  static void on_completion(Napi::Env env, Napi::Function, Engine* engine, Completion* completion);
  using Channel = Napi::TypedThreadSafeFunction<Engine, Completion, &Engine::on_completion>;

  Napi::Value open(const Napi::CallbackInfo& info);
  Napi::Value run(const Napi::CallbackInfo& info);
  void cancel(const Napi::CallbackInfo& info);
  void dispose(const Napi::CallbackInfo& info);

  template <typename Work>
  Napi::Object submit(Napi::Env env, std::vector<Napi::Reference<Napi::Value>> kept, Work work);
  void settle(Napi::Env env, uint32_t id, const Outcome& outcome);
  std::string device_name_;
  /// Where the runs compute; written and read on the worker's thread only.
  std::shared_ptr<at::Device> device_ = std::make_shared<at::Device>(at::kCPU);
  uint32_t next_id_ = 0;
  std::map<uint32_t, Pending> pending_;
  bool disposed_ = false;
  Channel channel_;
  std::unique_ptr<Worker> worker_;
};

}  // namespace tokengrad
