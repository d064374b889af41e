// The definitions of embed_tokens and first_token, and the ops on a CPU.
#include "kernels/tokens/tokens.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "carillon/core/parallel.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/float_type.h"

namespace carillon {
namespace {

/// Computes y = x + added for `count` elements.
CARILLON_SIMD void add_row(ElementPointer x, const float* __restrict added, std::int64_t count, ElementPointer y) {
  with_float_type(
      y.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        const T* const from = x.as<const T>();
        T* const to = y.as<T>();
        for (std::int64_t i = 0; i < count; ++i) to[i] = stored_as<T>(to_float(from[i]) + added[i]);
      });
}

/// Sets sums[i] to the sum over the rows of x[row, i], for the elements [first, last). A row has `size` elements.
CARILLON_SIMD void sum_rows(ElementPointer x, std::int64_t rows, std::int64_t size, std::int64_t first,
                            std::int64_t last, float* __restrict sums) {
  std::fill(sums + first, sums + last, 0.0f);
  with_float_type(
      x.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        for (std::int64_t row = 0; row < rows; ++row) {
          const T* const from = x.as<const T>() + row * size;
          for (std::int64_t i = first; i < last; ++i) sums[i] += to_float(from[i]);
        }
      });
}

std::size_t bytes_of(const Tensor& tensor, std::int64_t elements) {
  return static_cast<std::size_t>(elements) * size_of(tensor.type);
}

class EmbedTokensCpu final : public Op {
 public:
  explicit EmbedTokensCpu(const OpTensors& tensors)
      : x_(tensors.inputs.at(0)),
        y_(tensors.outputs.at(0)),
        class_(tensors.parameters.at(0)),
        positions_(tensors.parameters.at(1)),
        channels_(y_.shape[2]),
        size_(y_.shape.elements_per_sample()) {
    if (tensors.parameter_gradients.empty()) return;
    dx_ = tensors.input_gradients.at(0);
    dy_ = tensors.output_gradients.at(0);
    dclass_ = tensors.parameter_gradients.at(0);
    dpositions_ = tensors.parameter_gradients.at(1);
  }

  void forward(Stream& /*stream*/) override {
    const float* const positions = positions_.floats().data();
    for_samples([&](std::int64_t sample) {
      const ElementPointer y = sample_of(y_, sample);
      with_float_type(y.type(), [&]<typename T>(std::type_identity<T>) {
        for (std::int64_t c = 0; c < channels_; ++c) {
          y.as<T>()[c] = stored_as<T>(class_.floats()[static_cast<std::size_t>(c)] + positions[c]);
        }
      });
      add_row(sample_of(x_, sample), positions + channels_, size_ - channels_, after_class(y));
    });
  }

  void backward(Stream& /*stream*/) override {
    if (dpositions_) {
      sum_gradients(dpositions_, size_);
      if (dclass_) std::copy_n(dpositions_.floats().data(), channels_, dclass_.floats().data());
    } else if (dclass_) {
      sum_gradients(dclass_, channels_);
    }
    if (!dx_) return;
    for_samples([&](std::int64_t sample) {
      std::memcpy(sample_of(dx_, sample).as<std::byte>(), after_class(sample_of(dy_, sample)).as<std::byte>(),
                  bytes_of(dx_, size_ - channels_));
    });
  }

 private:
  ElementPointer after_class(ElementPointer sample) const { return sample + static_cast<std::size_t>(channels_); }

  template <typename Body>
  void for_samples(const Body& body) const {
    parallel_items(static_cast<std::size_t>(y_.shape[0]), static_cast<std::size_t>(size_), elementwise_grain,
                   [&](std::size_t first, std::size_t last) {
                     for (std::size_t sample = first; sample < last; ++sample) body(static_cast<std::int64_t>(sample));
                   });
  }

  /// Sums the first `count` elements of dy over all samples, and writes the sums to `to`.
  void sum_gradients(const Tensor& to, std::int64_t count) const {
    float* const sums = to.floats().data();
    parallel_ranges(static_cast<std::size_t>(count), elementwise_grain, [&](std::size_t first, std::size_t last) {
      sum_rows(dy_, dy_.shape[0], size_, static_cast<std::int64_t>(first), static_cast<std::int64_t>(last), sums);
    });
  }

  Tensor x_, y_, class_, positions_, dx_, dy_, dclass_, dpositions_;
  std::int64_t channels_, size_;  ///< number of elements of a token, and of a sample
};

class FirstTokenCpu final : public Op {
 public:
  explicit FirstTokenCpu(const OpTensors& tensors) : x_(tensors.inputs.at(0)), y_(tensors.outputs.at(0)) {
    if (tensors.input_gradients.empty()) return;
    dx_ = tensors.input_gradients.at(0);
    dy_ = tensors.output_gradients.at(0);
  }

  void forward(Stream& /*stream*/) override {
    for (std::int64_t b = 0; b < y_.shape[0]; ++b) {
      std::memcpy(sample_of(y_, b).as<std::byte>(), sample_of(x_, b).as<std::byte>(), token_bytes());
    }
  }
  void backward(Stream& /*stream*/) override {
    if (!dx_) return;
    std::memset(dx_.data, 0, dx_.bytes());
    for (std::int64_t b = 0; b < y_.shape[0]; ++b) {
      std::memcpy(sample_of(dx_, b).as<std::byte>(), sample_of(dy_, b).as<std::byte>(), token_bytes());
    }
  }

 private:
  std::size_t token_bytes() const { return bytes_of(y_, y_.shape[1]); }

  Tensor x_, y_, dx_, dy_;
};

}  // namespace

std::unique_ptr<Op> make_embed_tokens_cpu(const OpTensors& tensors) {
  return std::make_unique<EmbedTokensCpu>(tensors);
}

std::unique_ptr<Op> make_first_token_cpu(const OpTensors& tensors) { return std::make_unique<FirstTokenCpu>(tensors); }

namespace {

using Extents = std::vector<std::int64_t>;

class EmbedTokensDefinition final : public OpDefinition {
 public:
  std::string_view type() const override { return "embed_tokens"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_embed_tokens_cpu(tensors); }, [&] { return make_embed_tokens_cuda(tensors); });
  }
};

class FirstTokenDefinition final : public OpDefinition {
 public:
  std::string_view type() const override { return "first_token"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_first_token_cpu(tensors); }, [&] { return make_first_token_cuda(tensors); });
  }
};

const OpTraits embed_tokens_traits{.samples_are_independent = true};
const OpTraits first_token_traits{.samples_are_independent = true};

}  // namespace

const OpType embed_tokens_op = op_type<EmbedTokensParams, embed_tokens>("embed_tokens");
const OpType first_token_op = op_type<first_token>("first_token");

Value embed_tokens(Graph& graph, const std::string& name, Value x, const EmbedTokensParams& params) {
  const Shape& shape = graph.shape(x);
  if (shape.rank() != 4) fail(ExitCode::failed, "embed_tokens {}: input {} has no images", name, shape.text());
  const std::int64_t tokens = 1 + shape[1] * shape[2], channels = shape[3];
  const Shape output{shape[0], tokens, channels};
  const std::vector<int> parameters{graph.add_parameter({.name = name + "/class",
                                                         .shape = {1, 1, channels},
                                                         .initializer = params.class_token,
                                                         .is_embedding = true}),
                                    graph.add_parameter({.name = name + "/positions",
                                                         .shape = {1, tokens, channels},
                                                         .initializer = params.positions,
                                                         .is_embedding = true})};
  return graph.add_op({.name = name,
                       .definition = std::make_shared<EmbedTokensDefinition>(),
                       .inputs = {x},
                       .parameters = parameters,
                       .traits = embed_tokens_traits,
                       .type = &embed_tokens_op,
                       .attributes = attributes_of(params)},
                      output);
}

Value first_token(Graph& graph, const std::string& name, Value x) {
  const Shape& shape = graph.shape(x);
  if (shape.rank() != 3) fail(ExitCode::failed, "first_token {}: input {} has no tokens", name, shape.text());
  const Shape output{shape[0], shape[2]};
  return graph.add_op({.name = name,
                       .definition = std::make_shared<FirstTokenDefinition>(),
                       .inputs = {x},
                       .traits = first_token_traits,
                       .type = &first_token_op},
                      output);
}

}  // namespace carillon
