// The kernels of batch_norm on a GPU: they sum over rows, combine the sums of each channel, and apply the results of
// the channels to the elements.
//
//   forward    ColumnSums<BatchMoments, CombineMoments>, NormaliseRows
//              in evaluation, or if the op is frozen: MovingNorm, NormaliseRows
//   backward   ColumnSums<BatchGradients, CombineGradients>, BatchNormGradient
//              with an addend and a ReLU: ColumnSums<SumGradients, CombineGradients> writes dz, and BatchNormGradient
//              reads it
//   all ranks  the ranks exchange the results of CombineMoments and CombineGradients; then NormOfRanks and
//              GradientsOfRanks
#pragma once

#include <cstdint>

#include "kernels/batch_norm/batch_norm_math.h"
#include "kernels/elementwise/functions.h"
#include "kernels/shared/column_sums.h"
#include "kernels/shared/pack.h"

namespace carillon {

/// Number of lanes of ColumnCut. Four lanes read 64 bytes of a row. For 64 channels in bf16, a ColumnFinish then adds
/// at most 132 parts per channel.
inline constexpr int batch_norm_lanes = 4;

/// The members of ChannelNorm and ChannelGradient for all channels, as arrays [columns].
struct ChannelNorms {
  float *centre = nullptr, *scale = nullptr, *offset = nullptr;
};
struct ChannelGradients {
  float *direct = nullptr, *slope = nullptr, *constant = nullptr;

  CARILLON_HOST_DEVICE void set(std::int64_t c, const ChannelGradient& of) const {
    direct[c] = of.direct;
    slope[c] = of.slope;
    constant[c] = of.constant;
  }
};

/// The moments of a block's rows. The sums use the distances from the first row of the block. `first` becomes the mean,
/// and `second` the sum of squared distances from the mean.
template <typename T, int n>
struct BatchMoments {
  const T* x = nullptr;  ///< [rows, columns]

  using Fixed = Pack<float, n>;
  using Row = Pack<T, n>;

  CARILLON_HOST_DEVICE Fixed fixed(std::int64_t first_row_at, std::int64_t) const {
    return load_floats<n>(x + first_row_at);
  }
  CARILLON_HOST_DEVICE Row row(std::int64_t at) const { return load<n>(x + at); }
  CARILLON_HOST_DEVICE void add(const Fixed& shift, const Row& values, int i, float& first, float& second) const {
    const float distance = to_float(values.at[i]) - shift.at[i];
    first += distance;
    second += distance * distance;
  }
  CARILLON_HOST_DEVICE void finish(std::int64_t first_row_at, std::int64_t rows, double& first, double& second) const {
    const Moments moments = moments_about(to_float(x[first_row_at]), static_cast<double>(rows), first, second);
    first = moments.mean;
    second = moments.squares;
  }
};

/// The terms of ColumnSums in backward. first: sum of dz, second: sum of dz (x - centre).
template <typename T, int n, typename Activation>
struct BatchGradients {
  const T *x = nullptr, *dy = nullptr;  ///< [rows, columns]
  ChannelNorms norm;

  struct Fixed {
    Pack<float, n> centre, scale, offset;
  };
  struct Row {
    Pack<T, n> x, dy;
  };

  CARILLON_HOST_DEVICE Fixed fixed(std::int64_t, std::int64_t column) const {
    return {load<n>(norm.centre + column), load<n>(norm.scale + column), load<n>(norm.offset + column)};
  }
  CARILLON_HOST_DEVICE Row row(std::int64_t at) const { return {load<n>(x + at), load<n>(dy + at)}; }
  CARILLON_HOST_DEVICE void add(const Fixed& of, const Row& values, int i, float& first, float& second) const {
    const float distance = to_float(values.x.at[i]) - of.centre.at[i];
    const float dz =
        Activation::gradient(norm_at(distance, of.scale.at[i], of.offset.at[i]), to_float(values.dy.at[i]));
    first += dz;
    second += dz * distance;
  }
  CARILLON_HOST_DEVICE void finish(std::int64_t, std::int64_t, double&, double&) const {}
};

/// Returns a byte in which bit i is set if y[i] > 0. At these elements, the gradient passes through the ReLU. Backward
/// reads one such byte per pack instead of y.
template <typename T, int n>
CARILLON_HOST_DEVICE inline std::uint8_t positive_bits(const Pack<T, n>& y) {
  unsigned bits = 0;
  for (int i = 0; i < n; ++i) bits |= (to_float(y.at[i]) > 0.0f ? 1u : 0u) << i;
  return static_cast<std::uint8_t>(bits);
}

/// Computes the same sums as BatchGradients, but for y = max(z + addend, 0). Replaces dy by dz. If has_second, the
/// gradient of y is dy + second, rounded to T.
template <typename T, int n, bool has_second>
struct SumGradients {
  const T* x = nullptr;                    ///< [rows, columns]
  const std::uint8_t* positive = nullptr;  ///< [rows, columns / n]: positive_bits of y
  T* dy = nullptr;                         ///< [rows, columns]
  const T* second = nullptr;               ///< [rows, columns], if has_second is true
  ChannelNorms norm;

  using Fixed = Pack<float, n>;
  struct Row {
    Pack<T, n> x, dy, second;
    unsigned positive;
  };

  CARILLON_HOST_DEVICE Fixed fixed(std::int64_t, std::int64_t column) const { return load<n>(norm.centre + column); }
  CARILLON_HOST_DEVICE Row row(std::int64_t at) const {
    Row row{load<n>(x + at), load<n>(dy + at), {}, positive[at / n]};
    if constexpr (has_second) row.second = load<n>(second + at);
    return row;
  }
  CARILLON_HOST_DEVICE void store(const Row& row, std::int64_t at) const {
    Pack<T, n> dz;
    for (int i = 0; i < n; ++i) dz.at[i] = dz_of(row, i);
    store_to_tensor(dz, dy + at);
  }
  CARILLON_HOST_DEVICE void add(const Fixed& centre, const Row& row, int i, float& first, float& second_sum) const {
    const float dz = to_float(dz_of(row, i));
    first += dz;
    second_sum += dz * (to_float(row.x.at[i]) - centre.at[i]);
  }
  CARILLON_HOST_DEVICE void finish(std::int64_t, std::int64_t, double&, double&) const {}

 private:
  CARILLON_HOST_DEVICE static T dz_of(const Row& row, int i) {
    float gradient = to_float(row.dy.at[i]);
    if constexpr (has_second) gradient += to_float(row.second.at[i]);
    return stored_as<T>((row.positive >> i & 1u) != 0 ? gradient : 0.0f);
  }
};

/// The variables, moving statistics and results of all channels. Each is an array [columns].
struct BatchNormChannels {
  const float *gamma = nullptr, *beta = nullptr;  ///< gamma: null if it is the constant 1
  float *moving_mean = nullptr, *moving_variance = nullptr;
  ChannelStatistics* statistics = nullptr;
  ChannelNorms norm;
  float epsilon = 0.0f, momentum = 0.0f;
  bool frozen = false;  ///< BatchNormForm::frozen

  CARILLON_HOST_DEVICE float gamma_of(std::int64_t c) const { return gamma == nullptr ? 1.0f : gamma[c]; }
  CARILLON_HOST_DEVICE void set_norm(std::int64_t c, const ChannelStatistics& of) const {
    statistics[c] = of;
    const ChannelNorm values = channel_norm(of, gamma_of(c), beta[c]);
    norm.centre[c] = values.centre;
    norm.scale[c] = values.scale;
    norm.offset[c] = values.offset;
  }
  /// Sets the normalisation of channel c from the moments of a batch, and updates the moving statistics.
  CARILLON_HOST_DEVICE void set_norm(std::int64_t c, const Moments& batch) const {
    set_norm(c, take_batch(batch, epsilon, momentum, moving_mean[c], moving_variance[c]));
  }
  /// Computes the coefficients of dx for channel c. `of`: sums over `count` rows.
  CARILLON_HOST_DEVICE ChannelGradient gradient_of(std::int64_t c, double count, const ChannelSums& of) const {
    if (frozen) return frozen_channel_gradient(statistics[c], gamma_of(c), of.sum, of.product);
    return channel_gradient(statistics[c], gamma_of(c), count, of.sum, of.product);
  }
};

/// The sums of this rank. Each is an array [columns].
using OwnSums = ColumnParts;

/// For ColumnSums<BatchMoments>: computes the batch's mean and variance from the blocks' moments.
struct CombineMoments : ColumnFinish {
  BatchNormChannels channels;
  OwnSums own = {};  ///< receives means and squares for NormOfRanks; null: use the moments of this rank

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, const ColumnCut& cut, const ColumnParts& parts, int column_block,
                                int thread) const {
    const std::int64_t c = column_of(cut, column_block, thread);
    if (c >= cut.columns) return;
    const double shift = parts.first[c];  // the mean of a block
    if constexpr (phase == 0) {
      sum_parts(shared, cut, parts, column_block, thread,
                [&](int row_block, double mean, double squares, double& first, double& second) {
                  const double rows = static_cast<double>(cut.rows_of(row_block)), distance = mean - shift;
                  first += rows * distance;
                  second += squares + rows * distance * distance;
                });
    } else if (thread < width(cut)) {
      const Moments batch = moments_about(shift, static_cast<double>(cut.rows), total(shared.first, cut, thread),
                                          total(shared.second, cut, thread));
      if (own.first == nullptr) return channels.set_norm(c, batch);
      own.first[c] = batch.mean;
      own.second[c] = batch.squares;
    }
  }
};

/// For ColumnSums<BatchGradients> and ColumnSums<SumGradients>: computes the variables' gradients and the coefficients
/// of dx from the blocks' sums.
struct CombineGradients : ColumnFinish {
  BatchNormChannels channels;
  ChannelGradients gradient;
  float *dgamma = nullptr, *dbeta = nullptr;  ///< null: the gradient is not computed
  OwnSums own = {};  ///< receives the sums for GradientsOfRanks; null: use the sums of this rank

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, const ColumnCut& cut, const ColumnParts& parts, int column_block,
                                int thread) const {
    if constexpr (phase == 0) {
      sum_parts(shared, cut, parts, column_block, thread);
    } else {
      const std::int64_t c = column_of(cut, column_block, thread);
      if (thread >= width(cut) || c >= cut.columns) return;
      const ChannelSums sums{total(shared.first, cut, thread), total(shared.second, cut, thread)};
      const ChannelGradient of = channels.gradient_of(c, static_cast<double>(cut.rows), sums);
      if (dgamma != nullptr) dgamma[c] = of.dgamma;
      if (dbeta != nullptr) dbeta[c] = of.dbeta;
      if (own.first == nullptr) return gradient.set(c, of);
      own.first[c] = sums.sum;
      own.second[c] = sums.product;
    }
  }
};

/// For ForEachElement over channels: sets the normalisation of a channel. Uses the batches of all ranks.
struct NormOfRanks {
  ValuesOfRanks moments;  ///< CombineMoments::own of each rank
  double rows = 0.0;      ///< number of rows of each rank
  BatchNormChannels channels;

  CARILLON_HOST_DEVICE void operator()(std::int64_t c) const {
    channels.set_norm(c, moments_of_ranks(moments.channel(c), rows));
  }
};

/// For ForEachElement over channels: sets the coefficients of dx for a channel. Uses the batches of all ranks.
struct GradientsOfRanks {
  ValuesOfRanks sums;  ///< CombineGradients::own of each rank
  double rows = 0.0;   ///< number of rows of each rank
  BatchNormChannels channels;
  ChannelGradients gradient;

  CARILLON_HOST_DEVICE void operator()(std::int64_t c) const {
    gradient.set(c, channels.gradient_of(c, rows * sums.ranks, sums_of_ranks(sums.channel(c))));
  }
};

/// For ForEachElement over channels: sets the normalisation of a channel from the moving statistics. Used in evaluation
/// and for a frozen batch norm.
struct MovingNorm {
  BatchNormChannels channels;

  CARILLON_HOST_DEVICE void operator()(std::int64_t c) const {
    channels.set_norm(c, moving_statistics(channels.moving_mean[c], channels.moving_variance[c], channels.epsilon));
  }
};

template <typename T, int n, typename Activation, bool has_addend>
struct NormaliseRows {
  PackedRows<n> at;
  ChannelNorms norm;
  const T* x = nullptr;       ///< [rows, columns]
  const T* addend = nullptr;  ///< [rows, columns], if has_addend is true
  T* y = nullptr;             ///< [rows, columns]
  /// [rows, columns / n] Receives positive_bits of y; null: not written. Requires has_addend.
  std::uint8_t* positive = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t index) const {
    const std::uint32_t c = at.column(index);
    const Pack<float, n> centre = load<n>(norm.centre + c), scale = load<n>(norm.scale + c),
                         offset = load<n>(norm.offset + c);
    struct Row {
      Pack<T, n> x, addend;
    };
    const auto load_row = [&](std::int64_t element) {
      Row row{load<n>(x + element), {}};
      if constexpr (has_addend) row.addend = load<n>(addend + element);
      return row;
    };
    at.for_rows(index, load_row, [&](std::int64_t element, const Row& row) {
      Pack<T, n> values;
      for (int i = 0; i < n; ++i) {
        const float z = norm_at(to_float(row.x.at[i]) - centre.at[i], scale.at[i], offset.at[i]);
        values.at[i] = stored_as<T>(Activation::value(has_addend ? z + to_float(row.addend.at[i]) : z));
      }
      if constexpr (has_addend) {
        if (positive != nullptr) positive[element / n] = positive_bits(values);
        store_to_tensor(values, y + element);
      } else {
        store(values, y + element);
      }
    });
  }
};

template <typename T, int n, typename Activation>
struct BatchNormGradient {
  PackedRows<n> at;
  ChannelNorms norm;
  ChannelGradients gradient;
  const T* x = nullptr;   ///< [rows, columns]
  const T* dy = nullptr;  ///< [rows, columns]; may be dx. If there is an addend, `dy` holds dz
  T* dx = nullptr;        ///< [rows, columns]

  CARILLON_HOST_DEVICE void operator()(std::int64_t index) const {
    const std::uint32_t c = at.column(index);
    const Pack<float, n> centre = load<n>(norm.centre + c), scale = load<n>(norm.scale + c),
                         offset = load<n>(norm.offset + c), direct = load<n>(gradient.direct + c),
                         slope = load<n>(gradient.slope + c), constant = load<n>(gradient.constant + c);
    struct Row {
      Pack<T, n> x, dy;
    };
    const auto load_row = [&](std::int64_t element) { return Row{load<n>(x + element), load<n>(dy + element)}; };
    at.for_rows(index, load_row, [&](std::int64_t element, const Row& row) {
      Pack<float, n> gradients;
      for (int i = 0; i < n; ++i) {
        const float distance = to_float(row.x.at[i]) - centre.at[i];
        const float dz = Activation::gradient(norm_at(distance, scale.at[i], offset.at[i]), to_float(row.dy.at[i]));
        gradients.at[i] = gradient_at(dz, distance, direct.at[i], slope.at[i], constant.at[i]);
      }
      store_floats(gradients, dx + element);
    });
  }
};

}  // namespace carillon
