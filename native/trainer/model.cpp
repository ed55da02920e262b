// The transformer's weights and forward passes, in ATen operators that autograd can follow.
#include "trainer/model.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>

#include "trainer/errors.h"

namespace tokengrad::trainer {
namespace {

// Matrices of one block, then its norms; indices into the views follow parameter_shapes().
constexpr int64_t kMatricesPerBlock = 4;
constexpr int64_t kNormsPerBlock = 2;

// Rows up to this long attend through plain matrix products, which are faster than the fused kernel
// there; beyond, their memory of length squared would hurt.
constexpr int64_t kPlainAttention = 256;

at::Tensor causal_attention(const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values, const at::Tensor& mask) {
  const auto length = queries.size(2);
  if (length > kPlainAttention) {
    return at::scaled_dot_product_attention(queries, keys, values, {}, 0.0, /*is_causal=*/true);
  }
  const auto flat = [&](const at::Tensor& x) { return x.reshape({-1, length, x.size(3)}); };
  const double scale = 1 / std::sqrt(static_cast<double>(queries.size(3)));
  const auto scores = at::baddbmm(mask, flat(queries), flat(keys).transpose(1, 2), 1, scale);
  return at::bmm(at::softmax(scores, -1), flat(values)).view(queries.sizes());
}

}  // namespace

void ModelConfig::check() const {
  const auto require = [](bool good, const char* message) {
    if (!good) throw input_error(message);
  };
  require(layers >= 1 && layers <= 256, "layers: expected 1 to 256");
  require(heads >= 1 && heads <= 1024, "heads: expected 1 to 1024");
  require(width >= 2 && width <= 65536 && width % (2 * heads) == 0,
          "width: expected a multiple of twice the heads, up to 65536");
  require(context >= 2 && context <= 1 << 20, "context: expected 2 to 1048576 tokens");
  require(vocabulary >= 2 && vocabulary <= 1 << 24, "vocabulary: expected 2 to 16777216 tokens");
}

std::vector<ParameterShape> parameter_shapes(const ModelConfig& config) {
  const auto width = config.width;
  std::vector<ParameterShape> shapes{{"embedding", {config.vocabulary, width}}};
  const auto block = [](int64_t layer) { return "blocks." + std::to_string(layer) + "."; };
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    shapes.push_back({block(layer) + "attention.in", {3 * width, width}});
    shapes.push_back({block(layer) + "attention.out", {width, width}});
    shapes.push_back({block(layer) + "mlp.in", {4 * width, width}});
    shapes.push_back({block(layer) + "mlp.out", {width, 4 * width}});
  }
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    shapes.push_back({block(layer) + "attention.norm", {width}});
    shapes.push_back({block(layer) + "mlp.norm", {width}});
  }
  shapes.push_back({"norm", {width}});
  return shapes;
}

Parameters::Parameters(const ModelConfig& config, bool trainable) {
  const auto shapes = parameter_shapes(config);
  int64_t total = 0, matrix_total = 0;
  for (const auto& [name, shape] : shapes) {
    const auto count = c10::multiply_integers(shape);
    total += count;
    if (shape.size() == 2) matrix_total += count;
  }
  flat = at::zeros({total}, config.precision);
  matrices = flat.narrow(0, 0, matrix_total);
  int64_t offset = 0;
  for (const auto& [name, shape] : shapes) {
    const auto count = c10::multiply_integers(shape);
    views.push_back(flat.narrow(0, offset, count).view(shape).detach());
    views.back().set_requires_grad(trainable);
    offset += count;
  }
}

void Parameters::initialize(const ModelConfig& config) {
  const at::NoGradGuard no_grad;
  const auto generator = at::detail::createCPUGenerator(config.seed);
  const auto shapes = parameter_shapes(config);
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].shape.size() == 1) {
      views[i].fill_(1);
      continue;
    }
    // What a block adds to the residual stream is scaled down with depth, as in GPT-2.
    const double adders = shapes[i].name.ends_with(".out") ? 2.0 * config.layers : 1;
    views[i].normal_(0, 1 / std::sqrt(adders * config.width), generator);
  }
}

Model::Model(const ModelConfig& config_) : config(config_) {
  config.check();
  const auto options = at::TensorOptions(config.precision);
  const auto half = config.head_width() / 2;
  const auto frequencies = at::pow(10000.0, -at::arange(half, options) / half);
  const auto angles = at::arange(config.context, options).unsqueeze(1) * frequencies;
  rotations_ = at::complex(angles.cos(), angles.sin());
}

at::Tensor Model::run(const Parameters& weights, const at::Tensor& tokens,
                      const at::Tensor& rotation, const Attend& attend) const {
  const auto rows = tokens.size(0), length = tokens.size(1), width = config.width;
  const auto heads = config.heads, head_width = config.head_width();
  const auto& views = weights.views;
  const auto norm_index = 1 + kMatricesPerBlock * config.layers;
  auto x = at::embedding(views[0], tokens);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const auto* matrix = &views[1 + kMatricesPerBlock * layer];
    const auto* norm = &views[norm_index + kNormsPerBlock * layer];
    const auto projected = at::linear(at::layer_norm(x, {width}, norm[0]), matrix[0])
                               .view({rows, length, 3, heads, head_width});
    // Queries and keys turn together: neighbouring pairs of numbers are read as complex ones.
    const auto pairs = projected.narrow(2, 0, 2).unflatten(-1, {head_width / 2, 2});
    const auto turned = at::view_as_real(at::view_as_complex(pairs) * rotation).flatten(-2);
    const auto split = [](const at::Tensor& x, int64_t i) {
      return x.select(2, i).transpose(1, 2);
    };
    const auto read = attend(layer, split(turned, 0), split(turned, 1), split(projected, 2));
    x = x + at::linear(read.transpose(1, 2).reshape({rows, length, width}), matrix[1]);
    const auto inner = at::linear(at::layer_norm(x, {width}, norm[1]), matrix[2]);
    x = x + at::linear(at::silu(inner), matrix[3]);
  }
  return at::layer_norm(x, {width}, views.back());
}

at::Tensor Model::hidden(
    const Parameters& weights, const at::Tensor& tokens,
    const std::function<void(int64_t, const at::Tensor&, const at::Tensor&)>& seen) const {
  const auto length = tokens.size(1);
  const auto rotation = rotations_.narrow(0, 0, length).view({1, length, 1, 1, -1});
  const auto infinity = std::numeric_limits<double>::infinity();
  at::Tensor mask;
  if (length <= kPlainAttention) {
    mask = at::full({1, length, length}, -infinity, config.precision).triu_(1);
  }
  return run(weights, tokens, rotation,
             [&](int64_t layer, const at::Tensor& queries, const at::Tensor& keys,
                 const at::Tensor& values) {
               if (seen) seen(layer, keys, values);
               return causal_attention(queries, keys, values, mask);
             });
}

at::Tensor Model::hidden(const Parameters& weights, const at::Tensor& tokens,
                         const at::Tensor& positions, const Attend& attend) const {
  const auto rotation = rotations_.index_select(0, positions.flatten())
                            .view({positions.size(0), positions.size(1), 1, 1, -1});
  return run(weights, tokens, rotation, attend);
}

at::Tensor Model::log_probabilities(const Parameters& weights, const at::Tensor& hidden) const {
  return at::log_softmax(at::linear(hidden, weights.views[0]), -1);
}

}  // namespace tokengrad::trainer
