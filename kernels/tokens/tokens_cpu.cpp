// Tokens on a CPU.
#include <algorithm>
#include <cstring>

#include "carillon/core/parallel.h"
#include "kernels/shared/element_pointer.h"
#include "kernels/tokens/tokens.h"

namespace carillon {
namespace {

/// y = x + added, `count` elements.
CARILLON_SIMD void add_row(ElementPointer x, const float* __restrict added, std::int64_t count, ElementPointer y) {
  with_float_type(
      y.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        const T* const from = x.as<const T>();
        T* const to = y.as<T>();
        for (std::int64_t i = 0; i < count; ++i) to[i] = stored_as<T>(to_float(from[i]) + added[i]);
      });
}

/// sums[i] = the sum over rows of x[row, i], for elements [first, last) of rows of `size` elements.
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

  /// Sums the first `count` elements of the samples.
  void sum_gradients(const Tensor& to, std::int64_t count) const {
    float* const sums = to.floats().data();
    parallel_ranges(static_cast<std::size_t>(count), elementwise_grain, [&](std::size_t first, std::size_t last) {
      sum_rows(dy_, dy_.shape[0], size_, static_cast<std::int64_t>(first), static_cast<std::int64_t>(last), sums);
    });
  }

  Tensor x_, y_, class_, positions_, dx_, dy_, dclass_, dpositions_;
  std::int64_t channels_, size_;  ///< elements of a token; elements of a sample
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

}  // namespace carillon
