// The definition of batch_norm, and the op on a CPU. Rows are divided into slices. Each slice is divided into blocks.
// The op sums a block in float32, and combines the sums of blocks and slices in float64, in order. Several short rows
// are processed as one long row, which fills the vectors.
#include "kernels/batch_norm/batch_norm.h"

#include <algorithm>
#include <vector>

#include "carillon/core/parallel.h"
#include "kernels/batch_norm/batch_norm_loops_cpu.h"
#include "kernels/batch_norm/batch_norm_math.h"
#include "kernels/elementwise/functions.h"
#include "kernels/shared/backend.h"

namespace carillon {
namespace {

using namespace batch_norm_loops;

/// Divides a tensor of short rows [short_rows, channels] into slices of long rows [rows, width]. The division depends
/// only on the shape. `count`: number of slices.
struct RowSlices {
  std::size_t channels, short_rows;
  std::size_t group = 1;  ///< number of short rows per long row
  std::size_t rows = 0, width = 0;
  std::size_t rows_per_slice = 0, count = 0;

  explicit RowSlices(const Shape& shape)
      : channels(static_cast<std::size_t>(shape.extents().back())),
        short_rows(static_cast<std::size_t>(shape.element_count()) / channels) {
    constexpr std::size_t short_width = 128, max_slices = 64, min_floats = 8192;
    while (group * channels < short_width && short_rows % (2 * group) == 0) group *= 2;
    rows = short_rows / group;
    width = channels * group;
    rows_per_slice = std::max({block_rows, min_floats / width, (rows + max_slices - 1) / max_slices});
    count = (rows + rows_per_slice - 1) / rows_per_slice;
  }

  std::size_t rows_of(std::size_t slice) const { return std::min(rows_per_slice, rows - slice * rows_per_slice); }
  std::size_t at(std::size_t slice) const { return slice * rows_per_slice * width; }
};

class BatchNormCpu final : public Op {
 public:
  BatchNormCpu(const BatchNormForm& form, const OpContext& context, const OpTensors& tensors)
      : form_(form),
        training_(context.training),
        towers_(form.over_all_towers && !form.frozen ? context.towers : nullptr),
        tensors_(tensors),
        slices_(tensors.inputs.at(0).shape) {
    statistics_.resize(slices_.channels);
    norm_.resize(3 * slices_.width);
    if (!training_) return;
    gradient_.resize(3 * slices_.width);
    sums_.resize(2 * slices_.width * slices_.count);
    block_sums_.resize(sums_.size());
    totals_.resize(2 * slices_.channels);
  }

  void forward(Stream& /*stream*/) override {
    if (form_.takes_batch(training_)) {
      for_slices([&](std::size_t slice) { sum_slice(slice); });
      combine_moments();
    } else {
      take_moving_statistics();
    }
    set_norm();
    for_slices_backwards([&](std::size_t slice) {
      const std::size_t at = slices_.at(slice), rows = slices_.rows_of(slice);
      if (form_.has_addend) {
        const ElementPointer addend = tensors_.inputs[1];
        normalise_and_add(x() + at, addend + at, norm(), form_.activation, rows, slices_.width, y() + at);
      } else {
        normalise(x() + at, norm(), form_.activation, rows, slices_.width, y() + at);
      }
    });
  }

  void backward(Stream& /*stream*/) override {
    for_slices([&](std::size_t slice) { sum_slice_gradients(slice); });
    combine_gradients();
    if (!tensors_.input_gradients[0]) return;
    for_slices_backwards([&](std::size_t slice) {
      const std::size_t at = slices_.at(slice), rows = slices_.rows_of(slice);
      find_gradients(x() + at, dy() + at, norm(), gradient(), activation_of_gradient(), rows, slices_.width, dx() + at);
    });
  }

 private:
  ElementPointer x() const { return tensors_.inputs[0]; }
  ElementPointer y() const { return tensors_.outputs[0]; }
  /// Returns the gradient of the output. If there is an addend or an expensive activation, the first backward pass has
  /// replaced this gradient by dz.
  ElementPointer dy() const { return tensors_.output_gradients[0]; }
  ElementPointer dx() const { return tensors_.input_gradients[0]; }
  /// Returns the activation that backward must still differentiate. With an addend, replace_dy_by_dz has already
  /// applied the derivative.
  ActivationKind activation_of_gradient() const { return form_.has_addend ? ActivationKind::none : form_.activation; }
  bool has_gamma() const { return form_.params.trains_scale; }
  float gamma(std::size_t c) const { return has_gamma() ? tensors_.parameters[0].floats()[c] : 1.0f; }
  NormRows norm() const { return {norm_.data(), norm_.data() + slices_.width, norm_.data() + 2 * slices_.width}; }
  GradientRows gradient() const {
    return {gradient_.data(), gradient_.data() + slices_.width, gradient_.data() + 2 * slices_.width};
  }

  // Each slice and each block has two sums per column. The sums of a slice are float64; the sums of a block are
  // float32.
  double* sums(std::size_t slice, int which) {
    return sums_.data() + (2 * slice + static_cast<std::size_t>(which)) * slices_.width;
  }
  BlockSums block_sums(std::size_t slice) {
    float* const first = block_sums_.data() + 2 * slice * slices_.width;
    return {first, first + slices_.width};
  }

  template <typename Body>
  void for_slices(const Body& body) const {
    parallel_items(slices_.count, slices_.rows_per_slice * slices_.width, elementwise_grain,
                   [&](std::size_t first, std::size_t last) {
                     for (std::size_t slice = first; slice < last; ++slice) body(slice);
                   });
  }
  /// Calls body for the same slices as for_slices, but in reverse order: each thread begins with its last slice and
  /// ends with its first slice.
  template <typename Body>
  void for_slices_backwards(const Body& body) const {
    parallel_items(slices_.count, slices_.rows_per_slice * slices_.width, elementwise_grain,
                   [&](std::size_t first, std::size_t last) {
                     for (std::size_t slice = last; slice-- > first;) body(slice);
                   });
  }
  /// Calls body(first row, number of rows) for the blocks of a slice. Rows are numbered from the slice's first row.
  template <typename Body>
  void for_blocks(std::size_t slice, const Body& body) const {
    const std::size_t rows = slices_.rows_of(slice);
    for (std::size_t row = 0; row < rows; row += block_rows) body(row, std::min(block_rows, rows - row));
  }

  /// Computes the mean of each column of the slice, and the sum of the squared distances from the mean.
  void sum_slice(std::size_t slice) {
    const BlockSums block = block_sums(slice);
    std::fill_n(sums(slice, 0), 2 * slices_.width, 0.0);
    for_blocks(slice, [&](std::size_t row, std::size_t rows) {
      const ElementPointer first = x() + (slices_.at(slice) + row * slices_.width);
      sum_distances(first, rows, slices_.width, block);
      merge_moments(first, block, row, rows, slices_.width, sums(slice, 0), sums(slice, 1));
    });
  }

  void sum_slice_gradients(std::size_t slice) {
    const BlockSums block = block_sums(slice);
    std::fill_n(sums(slice, 0), 2 * slices_.width, 0.0);
    for_blocks(slice, [&](std::size_t row, std::size_t rows) {
      const std::size_t at = slices_.at(slice) + row * slices_.width;
      if (form_.has_addend) replace_dy_by_dz(y() + at, form_.activation, rows * slices_.width, dy() + at);
      sum_gradients(x() + at, dy() + at, norm(), activation_of_gradient(), rows, slices_.width, block);
      add_sums(block, slices_.width, sums(slice, 0), sums(slice, 1));
    });
  }

  /// The sums [width] of a slice consist of parts [channels]: a long row contains several short rows, and each short
  /// row has one part. Calls body(number of long rows, first sums, second sums) for each part of each slice, in order.
  template <typename Body>
  void for_parts(const Body& body) {
    for (std::size_t slice = 0; slice < slices_.count; ++slice) {
      for (std::size_t at = 0; at < slices_.width; at += slices_.channels) {
        body(static_cast<double>(slices_.rows_of(slice)), sums(slice, 0) + at, sums(slice, 1) + at);
      }
    }
  }

  void combine_moments() {
    const std::size_t channels = slices_.channels;
    const double count = static_cast<double>(slices_.short_rows);
    std::ranges::fill(totals_, 0.0);
    double* const mean = totals_.data();
    double* const squares = mean + channels;
    for_parts([&](double rows, const double* part, const double*) {
      for (std::size_t c = 0; c < channels; ++c) mean[c] += rows / count * part[c];
    });
    for_parts([&](double rows, const double* part, const double* part_squares) {
      for (std::size_t c = 0; c < channels; ++c) {
        const double distance = part[c] - mean[c];
        squares[c] += part_squares[c] + rows * distance * distance;
      }
    });
    join_moments();
    const std::span<float> moving_mean = tensors_.buffers[0].floats(), moving_variance = tensors_.buffers[1].floats();
    for (std::size_t c = 0; c < channels; ++c) {
      statistics_[c] = take_batch({rows_of_all(), mean[c], squares[c]}, form_.params.epsilon, form_.params.momentum,
                                  moving_mean[c], moving_variance[c]);
    }
  }

  /// Returns the number of short rows that the statistics include, over all ranks.
  double rows_of_all() const {
    return static_cast<double>(slices_.short_rows) * (towers_ != nullptr ? towers_->size() : 1);
  }

  /// Replaces the means and squares (Moments) of this rank in totals_ by the means and squares over all ranks, combined
  /// in rank order.
  void join_moments() {
    if (towers_ == nullptr) return;
    const std::vector<double> all = towers_->gather(totals_);
    for (std::size_t c = 0; c < slices_.channels; ++c) {
      const Moments joined = moments_of_ranks(values_of_ranks(all).channel(static_cast<std::int64_t>(c)),
                                              static_cast<double>(slices_.short_rows));
      totals_[c] = joined.mean;
      totals_[slices_.channels + c] = joined.squares;
    }
  }

  /// Describes the memory of `all`, which holds totals_ of each rank in rank order.
  ValuesOfRanks values_of_ranks(std::span<const double> all) const {
    return {all.data(), all.data() + slices_.channels, static_cast<std::int64_t>(totals_.size()), towers_->size()};
  }

  void take_moving_statistics() {
    for (std::size_t c = 0; c < slices_.channels; ++c) {
      statistics_[c] =
          moving_statistics(tensors_.buffers[0].floats()[c], tensors_.buffers[1].floats()[c], form_.params.epsilon);
    }
  }

  void set_norm() {
    const std::span<const float> beta = tensors_.parameters.back().floats();
    for (std::size_t at = 0; at < slices_.width; ++at) {
      const std::size_t c = at % slices_.channels;
      const ChannelNorm of = channel_norm(statistics_[c], gamma(c), beta[c]);
      norm_[at] = of.centre;
      norm_[slices_.width + at] = of.scale;
      norm_[2 * slices_.width + at] = of.offset;
    }
  }

  void combine_gradients() {
    const std::size_t channels = slices_.channels;
    std::ranges::fill(totals_, 0.0);
    for_parts([&](double, const double* sum, const double* product) {
      for (std::size_t c = 0; c < channels; ++c) totals_[c] += sum[c];
      for (std::size_t c = 0; c < channels; ++c) totals_[channels + c] += product[c];
    });
    const Tensor dgamma = has_gamma() ? tensors_.parameter_gradients[0] : Tensor{};
    const Tensor dbeta = tensors_.parameter_gradients.back();
    for (std::size_t c = 0; c < channels; ++c) {
      const ChannelGradient own = gradient_of(c);
      if (dgamma) dgamma.floats()[c] = own.dgamma;
      if (dbeta) dbeta.floats()[c] = own.dbeta;
    }
    join_gradients();
    for (std::size_t at = 0; at < slices_.width; ++at) {
      const ChannelGradient of = gradient_of(at % channels);
      gradient_[at] = of.direct;
      gradient_[slices_.width + at] = of.slope;
      gradient_[2 * slices_.width + at] = of.constant;
    }
  }

  /// Returns the coefficients of dx for channel c, computed from the current totals.
  ChannelGradient gradient_of(std::size_t c) const {
    if (form_.frozen) {
      return frozen_channel_gradient(statistics_[c], gamma(c), totals_[c], totals_[slices_.channels + c]);
    }
    return channel_gradient(statistics_[c], gamma(c), rows_of_all(), totals_[c], totals_[slices_.channels + c]);
  }

  void join_gradients() {
    if (towers_ == nullptr) return;
    const std::vector<double> all = towers_->gather(totals_);
    for (std::size_t c = 0; c < slices_.channels; ++c) {
      const ChannelSums joined = sums_of_ranks(values_of_ranks(all).channel(static_cast<std::int64_t>(c)));
      totals_[c] = joined.sum;
      totals_[slices_.channels + c] = joined.product;
    }
  }

  BatchNormForm form_;
  bool training_;
  TowerLink* towers_;  ///< null: the statistics include only this rank
  OpTensors tensors_;
  RowSlices slices_;
  std::vector<ChannelStatistics> statistics_;  ///< [channels]
  std::vector<float> norm_, gradient_;         ///< [3, width]: NormRows, GradientRows
  std::vector<double> sums_;                   ///< [slices, 2, width]
  std::vector<float> block_sums_;              ///< [slices, 2, width]
  std::vector<double> totals_;                 ///< [2, channels]
};

class BatchNormDefinition final : public OpDefinition {
 public:
  explicit BatchNormDefinition(const BatchNormForm& form) : form_(form) {}
  std::string_view type() const override { return "batch_norm"; }
  BackwardNeeds backward_needs() const override {
    return {.inputs = true, .outputs = form_.has_addend && form_.activation != ActivationKind::none};
  }
  std::optional<int> gradient_shares_output(int input) const override {
    return input == (form_.has_addend ? 1 : 0) ? std::optional(0) : std::nullopt;
  }
  std::shared_ptr<const OpDefinition> with_activation(ActivationKind activation) const {
    if (form_.activation != ActivationKind::none) return nullptr;
    if (form_.has_addend && activation != ActivationKind::relu) return nullptr;  // backward must compute f' from y
    BatchNormForm activated = form_;
    activated.activation = activation;
    return std::make_shared<BatchNormDefinition>(activated);
  }
  std::shared_ptr<const OpDefinition> with_addend(DeviceKind /*device*/) const {
    if (form_.has_addend || form_.activation != ActivationKind::none) return nullptr;
    BatchNormForm form = form_;
    form.has_addend = true;
    return std::make_shared<BatchNormDefinition>(form);
  }
  std::shared_ptr<const OpDefinition> summing_gradients() const {
    if (!form_.has_addend || form_.activation != ActivationKind::relu) return nullptr;
    BatchNormForm form = form_;
    form.has_second_gradient = true;
    return std::make_shared<BatchNormDefinition>(form);
  }
  std::shared_ptr<const OpDefinition> synchronized() const {
    BatchNormForm form = form_;
    form.over_all_towers = true;
    return std::make_shared<BatchNormDefinition>(form);
  }
  std::shared_ptr<const OpDefinition> frozen() const {
    BatchNormForm form = form_;
    form.frozen = true;
    return std::make_shared<BatchNormDefinition>(form);
  }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context,
        [&] {
          check(!form_.has_second_gradient, "only a batch norm on a GPU can read two gradients");
          return std::make_unique<BatchNormCpu>(form_, context, tensors);
        },
        [&] { return make_batch_norm_cuda(form_, context, tensors); });
  }

 private:
  BatchNormForm form_;
};

const OpTraits batch_norm_traits{
    .with_activation = trait<&BatchNormDefinition::with_activation>,
    .with_addend = trait<&BatchNormDefinition::with_addend>,
    .synchronized = trait<&BatchNormDefinition::synchronized>,
    .frozen = trait<&BatchNormDefinition::frozen>,
    .summing_gradients = trait<&BatchNormDefinition::summing_gradients>,
};

}  // namespace

const OpType batch_norm_op = op_type<BatchNormParams, batch_norm>("batch_norm");

Value batch_norm(Graph& graph, const std::string& name, Value x, const BatchNormParams& params) {
  const Shape shape = graph.shape(x);
  if (shape.rank() < 2) fail(ExitCode::failed, "batch_norm {}: input {} has no channels", name, shape.text());
  check(params.epsilon > 0.0f && params.momentum >= 0.0f && params.momentum <= 1.0f,
        "batch_norm requires epsilon > 0 and momentum from 0 to 1");
  const Shape channels{shape.extents().back()};
  std::vector<int> parameters;
  if (params.trains_scale) {
    parameters.push_back(
        graph.add_parameter({name + "/gamma", channels, {Initializer::Kind::constant, params.initial_scale}}));
  }
  parameters.push_back(graph.add_parameter({name + "/beta", channels, {}}));
  const int mean = graph.add_buffer({name + "/moving_mean", channels, 0.0f, AcrossRanks::mean});
  const int variance = graph.add_buffer({name + "/moving_variance", channels, 1.0f, AcrossRanks::mean});
  return graph.add_op({.name = name,
                       .definition = std::make_shared<BatchNormDefinition>(BatchNormForm{.params = params}),
                       .inputs = {x},
                       .parameters = parameters,
                       .buffers = {mean, variance},
                       .traits = batch_norm_traits,
                       .type = &batch_norm_op,
                       .attributes = attributes_of(params)},
                      shape);
}

}  // namespace carillon
