// JavaScript values to the trainer's own. Every function throws an Error that names the property.
#pragma once

#include <napi.h>

#include <string>
#include <vector>

#include "trainer/loss.h"
#include "trainer/sampler.h"
#include "trainer/trainer.h"

namespace tokengrad::trainer {

ModelConfig to_config(const Napi::Value& value);
Batch to_batch(const Napi::Value& value);
LossConfig to_loss(const Napi::Value& value);
LossInputs to_loss_inputs(const Napi::Value& value);
AdamParams to_adam(const Napi::Value& value);
SampleRequest to_sample_request(const Napi::Value& value);
SavedState to_saved_state(const Napi::Value& value, const ModelConfig& config);

std::vector<double> to_doubles(const Napi::Value& value, const char* name);

// Reads `object.key`.
bool get_flag(const Napi::Object& object, const char* key);
int64_t get_integer(const Napi::Object& object, const char* key);

// A copy in a new typed array.
Napi::Value to_array(Napi::Env env, const std::vector<double>& values);
Napi::Value to_array(Napi::Env env, const std::vector<int32_t>& values);
Napi::Value to_object(Napi::Env env, const SavedState& state);

}  // namespace tokengrad::trainer
