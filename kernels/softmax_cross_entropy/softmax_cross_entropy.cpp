// The definition of softmax_cross_entropy, and the op on a CPU. The op uses one thread, because a batch of logits is
// small. It sums over the batch in double precision.
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/shared/backend.h"
#include "kernels/shared/rows_cpu.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy_kernels.h"

namespace carillon {
namespace {

struct Exponentials {
  float largest;  ///< max(z)
  float sum;      ///< sum of exp(z - max(z))
};

/// Writes exp(z - max(z)) to `out`.
Exponentials shifted_exponentials(const float* z, std::size_t classes, float* out) {
  Exponentials result{*std::max_element(z, z + classes), 0.0f};
  for (std::size_t j = 0; j < classes; ++j) result.sum += out[j] = std::exp(z[j] - result.largest);
  return result;
}

class SoftmaxCrossEntropyCpu final : public Op {
 public:
  SoftmaxCrossEntropyCpu(const SoftmaxCrossEntropyParams& params, const StepInputs& step, const OpTensors& tensors)
      : smoothing_(params.label_smoothing),
        mixing_(params.mixing),
        weights_(params.class_weights),
        gamma_(params.focal_gamma),
        weighs_classes_(params.weighs_classes()),
        step_(step),
        logits_(tensors.inputs.at(0)),
        labels_(static_cast<const std::int32_t*>(tensors.inputs.at(1).data)),
        loss_(tensors.outputs.at(0)),
        logits_gradient_(tensors.input_gradients.empty() ? Tensor{} : tensors.input_gradients.at(0)),
        z_(static_cast<std::size_t>(logits_.shape[1])),
        row_(z_.size()) {}

  void forward(Stream& /*stream*/) override {
    const std::size_t batch = static_cast<std::size_t>(logits_.shape[0]), classes = row_.size();
    const float lambda = batch_lambda();
    double sum = 0.0;
    for (std::size_t b = 0; b < batch; ++b) {
      const float* const z = read_logits(b);
      const Exponentials exponentials = shifted_exponentials(z, classes, row_.data());
      sum += weighs_classes_ ? weighted_row(z, exponentials.largest, b, lambda).loss
                             : row_loss(exponentials, z, b, lambda);
    }
    loss_.floats()[0] = static_cast<float>(sum / static_cast<double>(batch));
  }

  void backward(Stream& /*stream*/) override {
    const std::size_t batch = static_cast<std::size_t>(logits_.shape[0]), classes = row_.size();
    const float lambda = batch_lambda();
    for (std::size_t b = 0; b < batch; ++b) {
      const float* const z = read_logits(b);
      const Exponentials exponentials = shifted_exponentials(z, classes, row_.data());
      if (weighs_classes_) {
        make_weighted_gradient(z, exponentials.largest, b, lambda);
      } else {
        make_gradient(exponentials.sum, b, lambda);
      }
      write_floats(row_.data(), classes, sample_of(logits_gradient_, static_cast<std::int64_t>(b)));
    }
  }

 private:
  float batch_lambda() const { return draw_mixing(mixing_, step_.batch.first_position).lambda; }
  /// Returns the label of the row with which row `b` is mixed.
  std::int32_t other_label(std::size_t b) const {
    return labels_[mixed_with(b, static_cast<std::size_t>(logits_.shape[0]))];
  }

  /// Returns row `b` of the logits as float32 [classes]. The result is valid until the next call.
  const float* read_logits(std::size_t b) {
    read_floats(sample_of(logits_, static_cast<std::int64_t>(b)), z_.size(), z_.data());
    return z_.data();
  }

  double row_loss(const Exponentials& of, const float* z, std::size_t b, float lambda) const {
    const float own = z[labels_[b]];
    if (smoothing_ == 0.0f && !mixing_.mixes()) return std::log(of.sum) + of.largest - own;
    const double of_labels =
        mixing_.mixes() ? lambda * static_cast<double>(own) + (1.0 - lambda) * z[other_label(b)] : own;
    const double all = std::accumulate(z, z + row_.size(), 0.0) / static_cast<double>(row_.size());
    return std::log(of.sum) + of.largest - ((1.0 - smoothing_) * of_labels + smoothing_ * all);
  }

  /// Replaces the exponentials in row_ by the gradient.
  void make_gradient(float sum, std::size_t b, float lambda) {
    const std::size_t batch = static_cast<std::size_t>(logits_.shape[0]), classes = row_.size();
    float* const dz = row_.data();
    const float factor = 1.0f / (sum * static_cast<float>(batch));
    const float of_all = smoothing_ / static_cast<float>(classes * batch);
    for (std::size_t j = 0; j < classes; ++j) dz[j] = dz[j] * factor - of_all;
    const float of_labels = (1.0f - smoothing_) / static_cast<float>(batch);
    dz[labels_[b]] -= lambda * of_labels;
    if (mixing_.mixes()) dz[other_label(b)] -= (1.0f - lambda) * of_labels;
  }

  /// The sums over a row of logits.
  struct WeightedRow {
    double sum = 0.0, log_sum = 0.0;  ///< see ClassLogit
    double loss = 0.0;
    double slope = 0.0;  ///< sum of w q h (softmax_cross_entropy.h)
  };

  /// Returns q[b, j] w[j].
  double weighted_target(std::size_t b, std::size_t j, float lambda) const {
    const auto label = static_cast<std::int32_t>(j);
    double share = labels_[b] == label ? lambda : 0.0;
    if (mixing_.mixes() && other_label(b) == label) share += 1.0 - lambda;
    const double target = (1.0 - smoothing_) * share + static_cast<double>(smoothing_) / static_cast<double>(z_.size());
    return weights_.empty() ? target : target * weights_[j];
  }

  ClassLogit class_logit(const float* z, float largest, const WeightedRow& row, std::size_t j) const {
    return {.shifted = double{z[j]} - largest, .exponential = row_[j], .sum = row.sum, .log_sum = row.log_sum};
  }

  /// Reads the exponentials in row_. The class of the label is included even if its weight is 0, so that a NaN reaches
  /// the loss.
  WeightedRow weighted_row(const float* z, float largest, std::size_t b, float lambda) const {
    WeightedRow row{.sum = std::accumulate(row_.begin(), row_.end(), 0.0)};
    row.log_sum = std::log(row.sum);
    for (std::size_t j = 0; j < row_.size(); ++j) {
      const double target = weighted_target(b, j, lambda);
      if (target == 0.0 && static_cast<std::int32_t>(j) != labels_[b]) continue;
      const ClassTerms terms = class_terms(class_logit(z, largest, row, j), gamma_);
      row.loss += target * terms.loss;
      row.slope += target * terms.slope;
    }
    return row;
  }

  /// Replaces the exponentials in row_ by the gradient.
  void make_weighted_gradient(const float* z, float largest, std::size_t b, float lambda) {
    const WeightedRow row = weighted_row(z, largest, b, lambda);
    const auto batch = static_cast<double>(logits_.shape[0]);
    for (std::size_t j = 0; j < row_.size(); ++j) {
      const ClassLogit logit = class_logit(z, largest, row, j);
      const double target = weighted_target(b, j, lambda);
      const double slope = target == 0.0 ? 0.0 : target * class_terms(logit, gamma_).slope;
      row_[j] = static_cast<float>(class_gradient(logit, slope, row.slope) / batch);
    }
  }

  float smoothing_;
  MixingParams mixing_;
  std::vector<float> weights_;  ///< [classes]; empty: there are no weights
  float gamma_;
  bool weighs_classes_;
  const StepInputs& step_;
  Tensor logits_;
  const std::int32_t* labels_;  ///< [batch]
  Tensor loss_, logits_gradient_;
  std::vector<float> z_, row_;  ///< [classes]
};

class SoftmaxCrossEntropyDefinition final : public OpDefinition {
 public:
  explicit SoftmaxCrossEntropyDefinition(const SoftmaxCrossEntropyParams& params) : params_(params) {}
  std::string_view type() const override { return "softmax_cross_entropy"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = false}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return std::make_unique<SoftmaxCrossEntropyCpu>(params_, *context.step, tensors); },
        [&] { return make_softmax_cross_entropy_cuda(params_, context, tensors); });
  }

 private:
  SoftmaxCrossEntropyParams params_;
};

/// The op computes the column sums of its input gradient only if it has few blocks, because the block that finishes
/// last adds the sums of all blocks.
bool sums_input_gradient(DeviceKind kind, const Shape& logits) {
  return kind == DeviceKind::cuda && softmax_blocks(logits[0], logits[1]) <= 8;
}

const OpTraits softmax_cross_entropy_traits{
    .sums_input_gradient = sums_input_gradient,
    .writes_step_sums = [](DeviceKind kind) { return kind == DeviceKind::cuda; },
};

bool is_weight(float value) { return std::isfinite(value) && value >= 0.0f; }

}  // namespace

Value softmax_cross_entropy(Graph& graph, const std::string& name, Value logits, Value labels,
                            const SoftmaxCrossEntropyParams& params) {
  check(params.label_smoothing >= 0.0f && params.label_smoothing <= 1.0f, "label smoothing must be in 0..1");
  check(is_weight(params.focal_gamma) && std::ranges::all_of(params.class_weights, is_weight),
        "class weights and the focal gamma must be finite and at least 0");
  const Graph::ValueInfo& target = graph.values().at(static_cast<std::size_t>(labels.index));
  check(target.is_input && target.type == DType::i32 && target.shape == Shape{graph.batch_size()},
        "labels must be a target of the graph with one int32 per sample");
  check(
      params.class_weights.empty() || static_cast<std::int64_t>(params.class_weights.size()) == graph.shape(logits)[1],
      "softmax cross-entropy needs a weight for each class");
  return graph.add_op({.name = name,
                       .definition = std::make_shared<SoftmaxCrossEntropyDefinition>(params),
                       .inputs = {logits, labels},
                       .traits = softmax_cross_entropy_traits},
                      Shape{});
}

}  // namespace carillon
