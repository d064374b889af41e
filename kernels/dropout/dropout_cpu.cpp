// dropout on a CPU: draws the words for some elements into the first-level cache, then processes the elements.
#include <algorithm>
#include <array>

#include "carillon/core/parallel.h"
#include "kernels/dropout/dropout.h"
#include "kernels/dropout/dropout_draw.h"
#include "kernels/shared/element_pointer.h"

namespace carillon {
namespace {

constexpr std::int64_t elements_at_once = 1024;
static_assert(elements_at_once % dropout_block == 0);
using Words = std::array<std::uint32_t, elements_at_once>;

/// words[4 i + j] = word j of block first_block + i.
CARILLON_SIMD void draw_words(const DropoutFilter& filter, std::uint64_t position, std::uint32_t first_block,
                              std::uint32_t blocks, std::uint32_t* __restrict words) {
  const DropoutFilter own = filter;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    const Philox4x32 drawn = own.words(position, first_block + i);
    for (int j = 0; j < dropout_block; ++j) words[dropout_block * i + j] = drawn.word[j];
  }
}

/// `from` may be `to`.
CARILLON_SIMD void apply_words(const DropoutFilter& filter, const std::uint32_t* words, ElementPointer from,
                               std::int64_t count, ElementPointer to) {
  const DropoutFilter own = filter;
  with_float_type(
      to.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        const T* const x = from.as<const T>();
        T* const y = to.as<T>();
        for (std::int64_t i = 0; i < count; ++i) y[i] = stored_as<T>(own.apply(to_float(x[i]), words[i]));
      });
}

class DropoutCpu final : public Op {
 public:
  DropoutCpu(const DropoutDraws& draws, const OpContext& context, const OpTensors& tensors)
      : filter_(draws), step_(*context.step), x_(tensors.inputs.at(0)), y_(tensors.outputs.at(0)) {
    if (!tensors.input_gradients.empty()) dx_ = tensors.input_gradients.at(0);
  }

  void forward(Stream& /*stream*/) override { apply(x_, y_); }
  void backward(Stream& /*stream*/) override {
    if (dx_) apply(dx_, dx_);
  }

 private:
  void apply(const Tensor& from, const Tensor& to) const {
    const std::int64_t size = x_.shape.elements_per_sample();
    parallel_items(static_cast<std::size_t>(x_.shape[0]), static_cast<std::size_t>(size), elementwise_grain / 4,
                   [&](std::size_t first, std::size_t last) {
                     for (std::size_t b = first; b < last; ++b) {
                       const auto sample = static_cast<std::int64_t>(b);
                       apply_to_sample(step_.batch.first_position + b, sample_of(from, sample), size,
                                       sample_of(to, sample));
                     }
                   });
  }

  void apply_to_sample(std::uint64_t position, ElementPointer from, std::int64_t size, ElementPointer to) const {
    Words words;
    for (std::int64_t at = 0; at < size; at += elements_at_once) {
      const std::int64_t count = std::min(elements_at_once, size - at);
      draw_words(filter_, position, static_cast<std::uint32_t>(at / dropout_block),
                 static_cast<std::uint32_t>(ceil_divide(count, dropout_block)), words.data());
      const auto done = static_cast<std::size_t>(at);
      apply_words(filter_, words.data(), from + done, count, to + done);
    }
  }

  DropoutFilter filter_;
  const StepInputs& step_;
  Tensor x_, y_, dx_;
};

}  // namespace

std::unique_ptr<Op> make_dropout_cpu(const DropoutDraws& draws, const OpContext& context, const OpTensors& tensors) {
  return std::make_unique<DropoutCpu>(draws, context, tensors);
}

}  // namespace carillon
