// batch_norm on a GPU. Forward and backward have two kernels each. This also applies to evaluations and to frozen ops.
// If the statistics include all ranks, forward and backward each also have an exchange and a third kernel.
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/batch_norm/batch_norm_kernels.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

class BatchNormCuda final : public Op {
 public:
  BatchNormCuda(const BatchNormForm& form, const OpContext& context, const OpTensors& tensors)
      : form_(form),
        training_(context.training),
        towers_(form.over_all_towers && form.takes_batch(context.training) ? context.towers : nullptr),
        tensors_(tensors) {
    check_index_limit("batch_norm", x().shape.element_count());
    const std::size_t width = static_cast<std::size_t>(columns());
    statistics_ = context.device->allocate(width * sizeof(ChannelStatistics));
    norm_ = context.device->allocate(3 * width * sizeof(float));
    if (towers_ != nullptr && towers_->size() == 1) towers_ = nullptr;
    if (towers_ != nullptr) sums_of_ranks_ = context.device->allocate(row_floats() * ranks() * sizeof(float));
    if (!training_) return;
    gradient_ = context.device->allocate(3 * width * sizeof(float));
    with_form([&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
      if (reads_bits()) positive_ = context.device->allocate(static_cast<std::size_t>(rows() * columns() / n));
      blocks_done_ = context.device->allocate(static_cast<std::size_t>(cut(n).column_blocks()) * sizeof(std::uint32_t));
      parts_ = context.device->allocate(2 * static_cast<std::size_t>(cut(n).row_blocks()) * width * sizeof(double));
    });
  }

  void forward(Stream& stream) override {
    with_form([&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
      const T* const x_data = static_cast<const T*>(x().data);
      if (form_.takes_batch(training_)) {
        sum_columns<n>(BatchMoments<T, n>{x_data}, CombineMoments{{}, channels(), own_sums()}, stream);
        if (towers_ != nullptr) {
          gather_sums(stream);
          launch(ForEachElement{NormOfRanks{sums_of_ranks(), rows_as_double(), channels()}, columns()}, stream);
        }
      } else {
        launch(ForEachElement{MovingNorm{channels()}, columns()}, stream);
      }
      if (form_.has_addend) {
        with_relu_or_none([&]<typename A>(A) { normalise<T, n, A, true>(stream); });
      } else {
        with_activation<T>(form_.activation, [&]<typename A>(A) { normalise<T, n, A, false>(stream); });
      }
    });
  }

  void backward(Stream& stream) override {
    with_form([&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
      if (reads_bits()) {
        replace_dy_by_dz<T, n>(stream);
      } else {
        with_activation<T>(form_.activation, [&]<typename A>(A) { sum_gradients<T, n, A>(stream); });
      }
      if (!tensors_.input_gradients[0]) return;
      if (towers_ != nullptr) {
        gather_sums(stream);
        const GradientsOfRanks kernel{sums_of_ranks(), rows_as_double(), channels(), gradient()};
        launch(ForEachElement{kernel, columns()}, stream);
      }
      const ActivationKind not_applied = form_.has_addend ? ActivationKind::none : form_.activation;
      with_activation<T>(not_applied, [&]<typename A>(A) {
        const BatchNormGradient<T, n, A> kernel{packed_rows<n>(), norm(),
                                                gradient(),       static_cast<const T*>(x().data),
                                                dy<T>(),          static_cast<T*>(tensors_.input_gradients[0].data)};
        launch(ForEachElement{kernel, kernel.at.count()}, stream);
      });
    });
  }

 private:
  const Tensor& x() const { return tensors_.inputs[0]; }
  std::int64_t columns() const { return x().shape.extents().back(); }
  std::int64_t rows() const { return x().shape.element_count() / columns(); }
  double rows_as_double() const { return static_cast<double>(rows()); }
  ColumnCut cut(int pack_size) const { return column_cut(rows(), columns(), pack_size, batch_norm_lanes); }
  static float* floats(const Tensor& tensor) { return static_cast<float*>(tensor.data); }

  template <int n>
  PackedRows<n> packed_rows() const {
    return {static_cast<std::uint32_t>(rows()), static_cast<std::uint32_t>(columns() / n)};
  }
  ColumnParts parts(int pack_size) const {
    double* const first = static_cast<double*>(parts_.data());
    return {first, first + cut(pack_size).row_blocks() * columns()};
  }
  ChannelNorms norm() const {
    float* const first = static_cast<float*>(norm_.data());
    return {first, first + columns(), first + 2 * columns()};
  }
  ChannelGradients gradient() const {
    float* const first = static_cast<float*>(gradient_.data());
    return {first, first + columns(), first + 2 * columns()};
  }
  BatchNormChannels channels() const {
    return {.gamma = form_.params.trains_scale ? floats(tensors_.parameters[0]) : nullptr,
            .beta = floats(tensors_.parameters.back()),
            .moving_mean = floats(tensors_.buffers[0]),
            .moving_variance = floats(tensors_.buffers[1]),
            .statistics = static_cast<ChannelStatistics*>(statistics_.data()),
            .norm = norm(),
            .epsilon = form_.params.epsilon,
            .momentum = form_.params.momentum,
            .frozen = form_.frozen};
  }

  // sums_of_ranks_ has one row per rank. A row is [2, columns] in float64.
  std::size_t ranks() const { return static_cast<std::size_t>(towers_->size()); }
  std::size_t row_floats() const {
    return aligned_float_count(2 * static_cast<std::size_t>(columns()) * (sizeof(double) / sizeof(float)));
  }
  ValuesOfRanks sums_of_ranks() const {
    const auto* const first = static_cast<const double*>(sums_of_ranks_.data());
    return {first, first + columns(), static_cast<std::int64_t>(row_floats() * sizeof(float) / sizeof(double)),
            towers_->size()};
  }
  /// Returns null pointers if the statistics include only this rank.
  OwnSums own_sums() const {
    if (towers_ == nullptr) return {};
    double* const first = static_cast<double*>(sums_of_ranks_.data()) + sums_of_ranks().row * towers_->rank();
    return {first, first + columns()};
  }
  void gather_sums(Stream& stream) const {
    towers_->gather_rows({static_cast<float*>(sums_of_ranks_.data()), row_floats() * ranks()}, stream);
  }

  /// True if backward reads positive_ instead of y.
  bool reads_bits() const { return training_ && form_.has_addend && form_.activation == ActivationKind::relu; }
  /// Returns the gradient of the output. If there is an addend and a ReLU, replace_dy_by_dz has replaced this gradient
  /// by dz.
  template <typename T>
  T* dy() const {
    return static_cast<T*>(tensors_.output_gradients[0].data);
  }
  template <typename T, int n, typename Activation, bool has_addend>
  void normalise(Stream& stream) const {
    const NormaliseRows<T, n, Activation, has_addend> kernel{
        packed_rows<n>(),
        norm(),
        static_cast<const T*>(x().data),
        has_addend ? static_cast<const T*>(tensors_.inputs[1].data) : nullptr,
        static_cast<T*>(tensors_.outputs[0].data),
        static_cast<std::uint8_t*>(positive_.data())};
    launch(ForEachElement{kernel, kernel.at.count()}, stream);
  }

  template <int n, typename Terms, typename Finish>
  void sum_columns(const Terms& terms, const Finish& finish, Stream& stream) const {
    launch(
        ColumnSums<n, Terms, Finish>{terms, cut(n), parts(n), finish, static_cast<std::uint32_t*>(blocks_done_.data())},
        stream);
  }
  CombineGradients combine_gradients() const {
    return {{},
            channels(),
            gradient(),
            form_.params.trains_scale ? floats(tensors_.parameter_gradients[0]) : nullptr,
            floats(tensors_.parameter_gradients.back()),
            own_sums()};
  }

  template <typename T, int n, typename Activation>
  void sum_gradients(Stream& stream) const {
    const BatchGradients<T, n, Activation> terms{static_cast<const T*>(x().data), dy<T>(), norm()};
    sum_columns<n>(terms, combine_gradients(), stream);
  }

  /// Computes the sums of sum_gradients for an op with an addend and a ReLU. In addition, replaces dy by dz.
  template <typename T, int n>
  void replace_dy_by_dz(Stream& stream) const {
    const auto sum = [&]<bool has_second>(std::bool_constant<has_second>) {
      const SumGradients<T, n, has_second> terms{
          static_cast<const T*>(x().data), static_cast<const std::uint8_t*>(positive_.data()), dy<T>(),
          has_second ? static_cast<const T*>(tensors_.output_gradients[1].data) : nullptr, norm()};
      sum_columns<n>(terms, combine_gradients(), stream);
    };
    if (form_.has_second_gradient) {
      sum(std::true_type{});
    } else {
      sum(std::false_type{});
    }
  }

  template <typename Body>
  void with_relu_or_none(const Body& body) const {
    if (form_.activation == ActivationKind::relu) {
      body(Relu{});
    } else {
      body(Identity{});
    }
  }

  /// Calls body(type of the elements, elements per pack).
  template <typename Body>
  void with_form(const Body& body) const {
    with_float_type(x().type, [&]<typename T>(std::type_identity<T> type) {
      with_pack_size<T>(columns(), [&](auto n) { body(type, n); });
    });
  }

  BatchNormForm form_;
  bool training_;
  TowerLink* towers_;  ///< null: the statistics include only this rank
  OpTensors tensors_;
  Buffer statistics_, norm_, gradient_;  ///< ChannelStatistics [columns]; ChannelNorms, ChannelGradients
  Buffer parts_;                         ///< ColumnParts
  Buffer blocks_done_;                   ///< ColumnSums::blocks_done
  Buffer positive_;                      ///< NormaliseRows::positive
  Buffer sums_of_ranks_;                 ///< memory of ValuesOfRanks; forward and backward share it
};

}  // namespace

std::unique_ptr<Op> make_batch_norm_cuda(const BatchNormForm& form, const OpContext& context,
                                         const OpTensors& tensors) {
  return std::make_unique<BatchNormCuda>(form, context, tensors);
}

}  // namespace carillon
