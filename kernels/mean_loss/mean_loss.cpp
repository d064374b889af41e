// The definition of mean_loss, and the op on a CPU. The op uses one thread, because a batch of outputs is small. It
// sums in double precision.
#include "kernels/mean_loss/mean_loss.h"

#include <vector>

#include "kernels/mean_loss/mean_loss_kernels.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/rows_cpu.h"

namespace carillon {
namespace {

/// T: element type of the targets.
template <typename F, typename T>
class MeanLossCpu final : public Op {
 public:
  MeanLossCpu(const F& function, const MixingParams& mixing, const StepInputs& step, const OpTensors& tensors)
      : function_(function),
        mixing_(mixing),
        step_(step),
        outputs_(tensors.inputs.at(0)),
        targets_(static_cast<const T*>(tensors.inputs.at(1).data)),
        loss_(tensors.outputs.at(0)),
        gradient_(tensors.input_gradients.empty() ? Tensor{} : tensors.input_gradients.at(0)),
        batch_(static_cast<std::size_t>(outputs_.shape[0])),
        row_(static_cast<std::size_t>(outputs_.shape[1])) {}

  void forward(Stream& /*stream*/) override {
    double sum = 0.0;
    for_each_row([&](std::size_t /*b*/, std::size_t j, float target) { sum += function_(row_[j], target); },
                 [](std::size_t /*b*/) {});
    loss_.floats()[0] = static_cast<float>(sum / static_cast<double>(batch_ * row_.size()));
  }

  void backward(Stream& /*stream*/) override {
    const auto count = static_cast<float>(batch_ * row_.size());
    for_each_row(
        [&](std::size_t /*b*/, std::size_t j, float target) { row_[j] = function_.slope(row_[j], target) / count; },
        [&](std::size_t b) {
          write_floats(row_.data(), row_.size(), sample_of(gradient_, static_cast<std::int64_t>(b)));
        });
  }

 private:
  /// Reads each row of outputs into `row_`. Calls element(b, j, target) for each element of the row, and then end(b).
  template <typename Element, typename End>
  void for_each_row(const Element& element, const End& end) {
    const Mixing mixing = draw_mixing(mixing_, step_.batch.first_position);
    const std::size_t n = row_.size();
    for (std::size_t b = 0; b < batch_; ++b) {
      read_floats(sample_of(outputs_, static_cast<std::int64_t>(b)), n, row_.data());
      const T* const own = targets_ + b * n;
      const T* const other = targets_ + mixed_with(b, batch_) * n;
      for (std::size_t j = 0; j < n; ++j) {
        const auto target = static_cast<float>(own[j]);
        element(b, j, mixing_.mixes() ? mixing.blend(target, static_cast<float>(other[j])) : target);
      }
      end(b);
    }
  }

  F function_;
  MixingParams mixing_;
  const StepInputs& step_;
  Tensor outputs_;
  const T* targets_;  ///< [batch, n]
  Tensor loss_, gradient_;
  std::size_t batch_;
  std::vector<float> row_;  ///< [n]
};

std::unique_ptr<Op> make_cpu(const MeanLossParams& params, const OpContext& context, const OpTensors& tensors) {
  return with_loss_function(params, [&]<typename F>(const F& function) -> std::unique_ptr<Op> {
    if (tensors.inputs.at(1).type == DType::u8) {
      return std::make_unique<MeanLossCpu<F, std::uint8_t>>(function, params.mixing, *context.step, tensors);
    }
    return std::make_unique<MeanLossCpu<F, float>>(function, params.mixing, *context.step, tensors);
  });
}

std::string_view name_of(MeanLossKind kind) {
  switch (kind) {
    case MeanLossKind::sigmoid_cross_entropy:
      return "sigmoid_cross_entropy";
    case MeanLossKind::squared_error:
      return "squared_error";
    case MeanLossKind::absolute_error:
      return "absolute_error";
    default:
      return "huber";
  }
}

class MeanLossDefinition final : public OpDefinition {
 public:
  explicit MeanLossDefinition(const MeanLossParams& params) : params_(params) {}
  std::string_view type() const override { return name_of(params_.kind); }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = false}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_cpu(params_, context, tensors); },
        [&] { return make_mean_loss_cuda(params_, context, tensors); });
  }

 private:
  MeanLossParams params_;
};

const OpTraits mean_loss_traits{.writes_step_sums = [](DeviceKind kind) { return kind == DeviceKind::cuda; }};

}  // namespace

Value mean_loss(Graph& graph, const std::string& name, Value outputs, Value targets, const MeanLossParams& params) {
  check(params.kind != MeanLossKind::huber || params.delta > 0.0f, "huber requires a delta above 0");
  const Graph::ValueInfo& target = graph.values().at(static_cast<std::size_t>(targets.index));
  const bool has_type = target.type == DType::u8 || target.type == DType::f32;
  check(target.is_input && has_type && target.shape == graph.shape(outputs) && target.shape.rank() == 2,
        "targets must be a target of the graph with one uint8 or float32 per output");
  return graph.add_op({.name = name,
                       .definition = std::make_shared<MeanLossDefinition>(params),
                       .inputs = {outputs, targets},
                       .traits = mean_loss_traits},
                      Shape{});
}

}  // namespace carillon
