// The definition of scale_channels, and the op on a CPU. Backward divides the rows into blocks, which are summed
// separately (rows_cpu.h). Backward reads x and dy once, because one pass computes both gradients.
#include "kernels/scale_channels/scale_channels.h"

#include <algorithm>
#include <vector>

#include "carillon/core/parallel.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/rows_cpu.h"
#include "src/device/cuda_backend.h"

namespace carillon {
namespace {

/// Number of rows that are added in a register before the register is added to the sums in memory.
constexpr std::size_t rows_at_once = 4;

template <typename T>
[[gnu::always_inline]] inline void scale_row(const T* __restrict from, const float* __restrict gamma,
                                             std::size_t channels, T* __restrict to) {
  for (std::size_t c = 0; c < channels; ++c) to[c] = stored_as<T>(to_float(from[c]) * gamma[c]);
}

CARILLON_SIMD void scale_rows(ElementPointer from, const float* gamma, std::size_t rows, std::size_t channels,
                              ElementPointer to) {
  with_float_type(
      to.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        for (std::size_t at = 0; at < rows * channels; at += channels) {
          scale_row(from.as<const T>() + at, gamma, channels, to.as<T>() + at);
        }
      });
}

/// Adds the products dy x of `count` rows to `sums`. Writes dx if `wants_dx` is true.
template <std::size_t count, bool wants_dx, typename T>
[[gnu::always_inline]] inline void add_rows(const T* __restrict x, const T* __restrict dy,
                                            const float* __restrict gamma, std::size_t channels, float* __restrict sums,
                                            T* __restrict dx) {
  for (std::size_t c = 0; c < channels; ++c) {
    float sum = 0.0f;
    for (std::size_t k = 0; k < count; ++k) {
      const float given = to_float(dy[k * channels + c]);
      sum += given * to_float(x[k * channels + c]);
      if constexpr (wants_dx) dx[k * channels + c] = stored_as<T>(given * gamma[c]);
    }
    sums[c] += sum;
  }
}

template <bool wants_dx, typename T>
[[gnu::always_inline]] inline void add_all_rows(const T* x, const T* dy, const float* gamma, std::size_t rows,
                                                std::size_t channels, float* sums, T* dx) {
  std::size_t row = 0;
  for (; row + rows_at_once <= rows; row += rows_at_once) {
    const std::size_t at = row * channels;
    add_rows<rows_at_once, wants_dx>(x + at, dy + at, gamma, channels, sums, wants_dx ? dx + at : nullptr);
  }
  for (; row < rows; ++row) {
    const std::size_t at = row * channels;
    add_rows<1, wants_dx>(x + at, dy + at, gamma, channels, sums, wants_dx ? dx + at : nullptr);
  }
}

/// Sets `sums` to the sums of dy x. dx is null if it is not computed.
CARILLON_SIMD void backward_rows(ElementPointer x, ElementPointer dy, const float* gamma, std::size_t rows,
                                 std::size_t channels, float* sums, ElementPointer dx) {
  std::fill_n(sums, channels, 0.0f);
  with_float_type(
      dy.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        if (dx) {
          add_all_rows<true>(x.as<const T>(), dy.as<const T>(), gamma, rows, channels, sums, dx.as<T>());
        } else {
          add_all_rows<false>(x.as<const T>(), dy.as<const T>(), gamma, rows, channels, sums, dx.as<T>());
        }
      });
}

class ScaleChannelsCpu final : public Op {
 public:
  ScaleChannelsCpu(const OpContext& context, const OpTensors& tensors)
      : tensors_(tensors),
        channels_(static_cast<std::size_t>(tensors.inputs.at(0).shape.extents().back())),
        rows_(static_cast<std::size_t>(tensors.inputs.at(0).shape.element_count()) / channels_),
        blocks_(rows_, 8 * rows_at_once) {
    if (context.training) sums_.resize(blocks_.count * channels_);
  }

  void forward(Stream& /*stream*/) override { scale(tensors_.inputs[0], tensors_.outputs[0]); }

  void backward(Stream& /*stream*/) override {
    const Tensor &dy = tensors_.output_gradients[0], &dx = tensors_.input_gradients[0];
    const Tensor& dgamma = tensors_.parameter_gradients[0];
    if (!dgamma) {
      if (dx) scale(dy, dx);
      return;
    }
    parallel_items(
        blocks_.count, blocks_.per_block * channels_, elementwise_grain, [&](std::size_t first, std::size_t last) {
          for (std::size_t block = first; block < last; ++block) {
            const std::size_t at = blocks_.first_of(block) * channels_;
            backward_rows(ElementPointer(tensors_.inputs[0]) + at, ElementPointer(dy) + at, gamma(),
                          blocks_.rows_of(block), channels_, sums_.data() + block * channels_, ElementPointer(dx) + at);
          }
        });
    add_blocks(sums_.data(), blocks_.count, channels_, dgamma);
  }

 private:
  const float* gamma() const { return tensors_.parameters[0].floats().data(); }
  void scale(const Tensor& from, const Tensor& to) const {
    parallel_items(rows_, channels_, elementwise_grain, [&](std::size_t first, std::size_t last) {
      const std::size_t at = first * channels_;
      scale_rows(ElementPointer(from) + at, gamma(), last - first, channels_, ElementPointer(to) + at);
    });
  }

  OpTensors tensors_;
  std::size_t channels_, rows_;
  RowBlocks blocks_;         ///< the blocks of the backward pass
  std::vector<float> sums_;  ///< [blocks, channels], in training
};

}  // namespace

std::unique_ptr<Op> make_scale_channels_cpu(const OpContext& context, const OpTensors& tensors) {
  return std::make_unique<ScaleChannelsCpu>(context, tensors);
}

namespace {

class ScaleChannelsDefinition final : public OpDefinition {
 public:
  explicit ScaleChannelsDefinition(bool has_addend = false) : has_addend_(has_addend) {}
  std::string_view type() const override { return "scale_channels"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = false}; }
  std::shared_ptr<const OpDefinition> with_addend(DeviceKind device) const {
    const bool can_add = device == DeviceKind::cuda && !has_addend_ && !is_switched_off("fused_additions");
    return can_add ? std::make_shared<ScaleChannelsDefinition>(true) : nullptr;
  }
  /// The gradient of the addend is the gradient of the output, which backward does not change.
  std::optional<int> gradient_shares_output(int input) const override {
    return has_addend_ && input == 1 ? std::optional(0) : std::nullopt;
  }
  bool keeps_output_gradient() const { return !has_addend_; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context,
        [&] {
          check(!has_addend_, "only scale_channels on a GPU can add an input to its output");
          return make_scale_channels_cpu(context, tensors);
        },
        [&] { return make_scale_channels_cuda(context, tensors); });
  }

 private:
  bool has_addend_;
};

const OpTraits scale_channels_traits{
    .with_addend = trait<&ScaleChannelsDefinition::with_addend>,
    .keeps_output_gradient = trait<&ScaleChannelsDefinition::keeps_output_gradient>,
    .sums_input_gradient = [](DeviceKind kind, const Shape&) { return kind == DeviceKind::cuda; },
    .samples_are_independent = true};

}  // namespace

const OpType scale_channels_op = op_type<ScaleChannelsParams, scale_channels>("scale_channels");

Value scale_channels(Graph& graph, const std::string& name, Value x, const ScaleChannelsParams& params) {
  const Shape shape = graph.shape(x);
  if (shape.rank() < 2) fail(ExitCode::failed, "scale_channels {}: input {} has no channels", name, shape.text());
  const int gamma = graph.add_parameter(
      {name + "/gamma", {shape.extents().back()}, {Initializer::Kind::constant, params.initial_factor}});
  return graph.add_op({.name = name,
                       .definition = std::make_shared<ScaleChannelsDefinition>(),
                       .inputs = {x},
                       .parameters = {gamma},
                       .traits = scale_channels_traits,
                       .type = &scale_channels_op,
                       .attributes = attributes_of(params)},
                      shape);
}

}  // namespace carillon
