// Tests of what stands around libtorch: its version, the device, operators by name, errors.
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>

#include "core/device.h"
#include "core/op_call.h"
#include "core/version.h"
#include "test/check.h"

namespace tokengrad {
namespace {

using test::fact;

TEST(version_of_the_same_minor_passes) {
  check_version(loaded_version(), compiled_version());
  check_version("2.13.1", "2.13.0");
}

TEST(version_of_another_minor_is_refused_with_found_and_expected) {
  try {
    check_version("2.4.0", "2.13.0");
  } catch (const Error& error) {
    EXPECT_EQUAL(error.code(), std::string("ERR_LIBTORCH_VERSION"));
    EXPECT_EQUAL(fact<std::string>(error, "found", ""), std::string("2.4.0"));
    EXPECT_EQUAL(fact<std::string>(error, "expected", ""), std::string("2.13"));
    return;
  }
  EXPECT(false);
}

TEST(device_names_are_checked) {
  for (const char* name :
       {"", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:1x", "cpu:0", "cuda:99999999999"}) {
    EXPECT_CODE("ERR_REQUEST", choose_device(name));
  }
  EXPECT(choose_device("cpu").device.is_cpu());
}

TEST(device_without_cuda_is_refused_and_auto_falls_back_with_a_reason) {
  const CudaStatus status = open_cuda();
  if (status.state == "ready") return;  // a GPU is there: nothing to refuse
  try {
    choose_device("cuda");
    EXPECT(false);
  } catch (const Error& error) {
    EXPECT_EQUAL(error.code(), std::string("ERR_DEVICE"));
    EXPECT_EQUAL(fact<std::string>(error, "reason", ""), status.state);
  }
  const DeviceChoice choice = choose_device("auto");
  EXPECT(choice.device.is_cpu());
  EXPECT_EQUAL(choice.fallback_reason, status.reason);
  EXPECT(!status.reason.empty());
}

TEST(operators_that_do_not_fit_are_refused) {
  EXPECT_CODE("ERR_PROGRAM", OpCall("no_such_operator", 1, {}));
  EXPECT_CODE("ERR_PROGRAM", OpCall("add.NoSuchOverload", 2, {}));
  EXPECT_CODE("ERR_PROGRAM", OpCall("", 1, {}));
  EXPECT_CODE("ERR_PROGRAM", OpCall("exp_", 1, {}));               // writes to its argument
  EXPECT_CODE("ERR_PROGRAM", OpCall("exp.out", 2, {}));            // writes to its argument
  EXPECT_CODE("ERR_PROGRAM", OpCall("max.dim", 1, {{"dim", 0}}));  // two results
  EXPECT_CODE("ERR_PROGRAM", OpCall("exp", 2, {}));                // too many tensors
  EXPECT_CODE("ERR_PROGRAM", OpCall("add.Tensor", 1, {}));         // too few tensors
  EXPECT_CODE("ERR_PROGRAM", OpCall("exp", 1, {{"alpha", 1}}));    // unknown attribute
  EXPECT_CODE("ERR_PROGRAM", OpCall("pow.Tensor_Scalar", 1, {}));  // attribute missing
  EXPECT_CODE("ERR_PROGRAM", OpCall("narrow", 1, {{"dim", 0.5}, {"start", 0}, {"length", 1}}));
  EXPECT_CODE("ERR_PROGRAM", OpCall("view", 1, {{"size", 1}}));  // a list
}

TEST(operators_take_attributes_and_schema_defaults) {
  const at::Tensor x = at::tensor({1.0, 2.0});
  EXPECT(OpCall("add.Tensor", 2, {})({x, x}).equal(x.add(x)));
  EXPECT(OpCall("add.Tensor", 2, {{"alpha", 3}})({x, x}).equal(x.mul(4)));
  EXPECT(OpCall("clamp", 1, {{"max", 1.5}})({x}).equal(at::tensor({1.0, 1.5})));
  EXPECT(OpCall("clamp.Tensor", 2, {})({x, at::tensor({1.5, 1.5})}).equal(at::tensor({1.5, 2.0})));
  EXPECT_EQUAL(OpCall("pow.Tensor_Scalar", 1, {{"exponent", 2}}).name(),
               std::string("aten::pow.Tensor_Scalar"));
}

TEST(errors_of_libtorch_become_our_own_without_a_backtrace) {
  try {
    try {
      TORCH_CHECK(false, "it broke");
    } catch (...) {
      throw current_error();
    }
  } catch (const Error& error) {
    EXPECT_EQUAL(error.code(), std::string("ERR_NATIVE"));
    EXPECT_EQUAL(std::string(error.what()), std::string("it broke"));
    return;
  }
  EXPECT(false);
}

}  // namespace
}  // namespace tokengrad
