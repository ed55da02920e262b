// The trainer as a Node-API addon: sessions whose methods give promises.
#include <napi.h>

#include <memory>

#include "core/cpus.h"
#include "core/version.h"
#include "napi/errors.h"
#include "napi/exit.h"
#include "trainer/convert.h"
#include "trainer/errors.h"
#include "trainer/promise_queue.h"

namespace tokengrad::trainer {
namespace {

// What one environment holds.
struct Instance {
  std::unique_ptr<PromiseQueue> queue;
  Napi::FunctionReference session;
};

Finish undefined() {
  return [](Napi::Env env) { return env.Undefined(); };
}

Finish number(int64_t value) {
  return [value](Napi::Env env) { return Napi::Number::New(env, static_cast<double>(value)); };
}

class Session : public Napi::ObjectWrap<Session> {
 public:
  static Napi::Function define(Napi::Env env) {
    return DefineClass(
        env, "Session",
        {InstanceMethod("forwardBackward", &Session::forward_backward),
         InstanceMethod("customForwardBackward", &Session::custom_forward_backward),
         InstanceMethod("optimStep", &Session::optim_step),
         InstanceMethod("publish", &Session::publish), InstanceMethod("sample", &Session::sample),
         InstanceMethod("save", &Session::save), InstanceMethod("dispose", &Session::dispose)});
  }

  explicit Session(const Napi::CallbackInfo& info) : Napi::ObjectWrap<Session>(info) {
    if (info.Length() == 1 && info[0].IsExternal()) {
      trainer_ = *info[0].As<Napi::External<std::shared_ptr<Trainer>>>().Data();
    }
  }

 private:
  // Queues work on this session's trainer, which stays alive until the work has ended.
  template <class Work>
  Napi::Value submit(const Napi::CallbackInfo& info, const Work& work) {
    if (!trainer_) throw Error("ERR_DISPOSED", "the session has been disposed of");
    auto* instance = info.Env().GetInstanceData<Instance>();
    return instance->queue->run(info.Env(), [trainer = trainer_, disposed = disposed_,
                                             work](const CancelFlag& cancel) mutable {
      const Check check = [&] {
        cancel.check();
        disposed->check();
      };
      check();
      return work(*trainer, check);
    });
  }

  Napi::Value forward_backward(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
      return submit(
          info,
          [batch = to_batch(info[0]), loss = to_loss(info[1]), inputs = to_loss_inputs(info[2]),
           forward_only = info[3].ToBoolean().Value()](Trainer& trainer, auto& check) {
            auto result = trainer.forward_backward(batch, loss, inputs, forward_only, check);
            return Finish([result = std::move(result)](Napi::Env env) {
              auto object = Napi::Object::New(env);
              object.Set("loss", result.loss);
              auto metrics = Napi::Object::New(env);
              for (const auto& [name, value] : result.metrics) metrics.Set(name, value);
              object.Set("metrics", metrics);
              object.Set("logprobs", to_array(env, result.logprobs));
              return object;
            });
          });
    });
  }

  Napi::Value custom_forward_backward(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
      return submit(info, [batch = to_batch(info[0]), gradients = to_doubles(info[1], "gradients")](
                              Trainer& trainer, auto& check) {
        trainer.custom_forward_backward(batch, gradients, check);
        return undefined();
      });
    });
  }

  Napi::Value optim_step(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
      return submit(info, [adam = to_adam(info[0])](Trainer& trainer, auto&) {
        return number(trainer.optim_step(adam));
      });
    });
  }

  Napi::Value publish(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
      return submit(info, [](Trainer& trainer, auto&) { return number(trainer.publish()); });
    });
  }

  Napi::Value sample(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
      const auto options = info[0].As<Napi::Object>();
      return submit(
          info,
          [request = to_sample_request(info[0]), score = get_flag(options, "promptLogprobs"),
           top = get_integer(options, "topPromptLogprobs")](Trainer& trainer, const Check& check) {
            const auto& [model, weights] = std::tie(trainer.model(), trainer.published());
            auto sequences = trainer::sample(model, weights, request, check);
            std::vector<PromptScores> scores;
            if (score || top > 0) scores = score_prompts(model, weights, request.prompts, top);
            return Finish([version = trainer.published_step(), sequences = std::move(sequences),
                           scores = std::move(scores)](Napi::Env env) {
              auto object = Napi::Object::New(env);
              object.Set("version", static_cast<double>(version));
              auto list = Napi::Array::New(env, sequences.size());
              for (uint32_t i = 0; i < sequences.size(); ++i) {
                auto item = Napi::Object::New(env);
                item.Set("tokens", to_array(env, sequences[i].tokens));
                item.Set("logprobs", to_array(env, sequences[i].logprobs));
                item.Set("stopped", sequences[i].stopped);
                list.Set(i, item);
              }
              object.Set("sequences", list);
              auto prompts = Napi::Array::New(env, scores.size());
              for (uint32_t i = 0; i < scores.size(); ++i) {
                auto item = Napi::Object::New(env);
                item.Set("logprobs", to_array(env, scores[i].logprobs));
                item.Set("topTokens", to_array(env, scores[i].top_tokens));
                item.Set("topLogprobs", to_array(env, scores[i].top_logprobs));
                prompts.Set(i, item);
              }
              object.Set("prompts", prompts);
              return object;
            });
          });
    });
  }

  Napi::Value save(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
      return submit(info, [optimizer = info[0].ToBoolean().Value()](Trainer& trainer, auto&) {
        return Finish(
            [state = trainer.save(optimizer)](Napi::Env env) { return to_object(env, state); });
      });
    });
  }

  Napi::Value dispose(const Napi::CallbackInfo& info) {
    disposed_->set();
    trainer_.reset();
    return info.Env().Undefined();
  }

  std::shared_ptr<Trainer> trainer_;
  std::shared_ptr<CancelFlag> disposed_ = std::make_shared<CancelFlag>();
};

// createSession(config, state?): a promise of a Session with fresh or restored weights.
Napi::Value create_session(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const auto config = to_config(info[0]);
    std::optional<SavedState> state;
    if (info.Length() > 1 && !info[1].IsUndefined()) state = to_saved_state(info[1], config);
    auto* instance = info.Env().GetInstanceData<Instance>();
    return instance->queue->run(info.Env(), [config, state](const CancelFlag&) {
      auto trainer = std::make_shared<Trainer>(config);
      if (state) trainer->restore(*state);
      return Finish([trainer](Napi::Env env) -> Napi::Value {
        auto held = trainer;
        return env.GetInstanceData<Instance>()->session.New(
            {Napi::External<std::shared_ptr<Trainer>>::New(env, &held)});
      });
    });
  });
}

// parameters(config): name and shape of every parameter, in the order of a saved part.
Napi::Value parameters(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const auto shapes = parameter_shapes(to_config(info[0]));
    auto list = Napi::Array::New(info.Env(), shapes.size());
    for (uint32_t i = 0; i < shapes.size(); ++i) {
      auto item = Napi::Object::New(info.Env());
      item.Set("name", shapes[i].name);
      auto shape = Napi::Array::New(info.Env(), shapes[i].shape.size());
      for (uint32_t d = 0; d < shapes[i].shape.size(); ++d) {
        shape.Set(d, static_cast<double>(shapes[i].shape[d]));
      }
      item.Set("shape", shape);
      list.Set(i, item);
    }
    return list;
  });
}

// setThreads(count): intra-op threads of all sessions.
Napi::Value set_threads(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const double count = info[0].ToNumber();
    if (!(count >= 1 && count <= 1024)) throw input_error("threads: expected 1 to 1024");
    info.Env().GetInstanceData<Instance>()->queue->set_threads(static_cast<int>(count));
    return info.Env().Undefined();
  });
}

Napi::Value start(Napi::Env env, Napi::Object exports) {
  return guarded(env, [&]() -> Napi::Value {
    check_version(loaded_version(), compiled_version());
    auto instance = std::make_unique<Instance>();
    instance->queue = std::make_unique<PromiseQueue>(env);
    instance->session = Napi::Persistent(Session::define(env));
    exports.Set("createSession", Napi::Function::New(env, create_session));
    exports.Set("parameters", Napi::Function::New(env, parameters));
    exports.Set("setThreads", Napi::Function::New(env, set_threads));
    exports.Set("availableCpus", available_cpus());
    auto* raw = instance.release();
    env.SetInstanceData(raw);
    // The thread must be off libtorch before the environment or the process ends.
    env.AddCleanupHook([raw] { raw->queue->close(); });
    before_exit(env, [raw] { raw->queue->close(); });
    return exports;
  });
}

}  // namespace
}  // namespace tokengrad::trainer

Napi::Object Init(Napi::Env env, Napi::Object exports) {
  return tokengrad::trainer::start(env, exports).As<Napi::Object>();
}
NODE_API_MODULE(trainer, Init)
