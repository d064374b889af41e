// The kernels of batch_norm on a GPU that combine blocks' sums by channel, and that apply channels' results to
// elements.
#pragma once

#include <cstdint>

#include "kernels/batch_norm/batch_norm_kernels.h"
#include "kernels/shared/packed_rows.h"

namespace carillon {

/// The variables and results of the channels, [columns] each.
struct BatchNormChannels {
  const float *gamma = nullptr, *beta = nullptr;  ///< gamma null: 1
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
};

/// Computes the batch's mean and variance from the blocks' moments.
struct CombineMoments : ColumnLanes {
  static constexpr int phases = 4;
  struct Shared {
    double sums[threads];
    double mean[lanes];
  };

  BatchNormChannels channels;

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    const double count = static_cast<double>(cut.rows);
    const std::int64_t column = column_of(block, thread);
    if constexpr (phase == 0) {
      shared.sums[thread] = sum_parts(block, thread, [&](int row_block, std::int64_t at) {
        return static_cast<double>(cut.rows_of(row_block)) / count * parts.first[at];
      });
    } else if constexpr (phase == 1) {
      if (thread < lanes) shared.mean[thread] = sum_groups(shared.sums, thread);
    } else if constexpr (phase == 2) {
      const double mean = shared.mean[thread % lanes];
      shared.sums[thread] = sum_parts(block, thread, [&](int row_block, std::int64_t at) {
        const double distance = parts.first[at] - mean;
        return parts.second[at] + static_cast<double>(cut.rows_of(row_block)) * distance * distance;
      });
    } else if (thread < lanes && column < cut.columns) {
      const Moments batch{count, shared.mean[thread], sum_groups(shared.sums, thread)};
      channels.set_norm(column, take_batch(batch, channels.epsilon, channels.momentum, channels.moving_mean[column],
                                           channels.moving_variance[column]));
    }
  }
};

/// Computes the variables' gradients and the coefficients of dx from the blocks' sums.
struct CombineGradients : ColumnLanes {
  static constexpr int phases = 2;
  struct Shared {
    double sums[threads], products[threads];
  };

  BatchNormChannels channels;
  ChannelGradients gradient;
  float *dgamma = nullptr, *dbeta = nullptr;  ///< null: not wanted

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    if constexpr (phase == 0) {
      shared.sums[thread] = sum_parts(block, thread, [&](int, std::int64_t at) { return parts.first[at]; });
      shared.products[thread] = sum_parts(block, thread, [&](int, std::int64_t at) { return parts.second[at]; });
    } else {
      const std::int64_t c = column_of(block, thread);
      if (thread >= lanes || c >= cut.columns) return;
      const double sum = sum_groups(shared.sums, thread), product = sum_groups(shared.products, thread);
      const ChannelStatistics& statistics = channels.statistics[c];
      const ChannelGradient of =
          channels.frozen
              ? frozen_channel_gradient(statistics, channels.gamma_of(c), sum, product)
              : channel_gradient(statistics, channels.gamma_of(c), static_cast<double>(cut.rows), sum, product);
      gradient.direct[c] = of.direct;
      gradient.slope[c] = of.slope;
      gradient.constant[c] = of.constant;
      if (dgamma != nullptr) dgamma[c] = of.dgamma;
      if (dbeta != nullptr) dbeta[c] = of.dbeta;
    }
  }
};

/// For ForEachElement over channels: the normalisation in evaluation, and of a frozen batch norm.
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
  const T* addend = nullptr;  ///< [rows, columns], with has_addend
  T* y = nullptr;             ///< [rows, columns]

  CARILLON_HOST_DEVICE void operator()(std::int64_t index) const {
    const std::uint32_t c = at.column(index);
    const Pack<float, n> centre = load<n>(norm.centre + c), scale = load<n>(norm.scale + c),
                         offset = load<n>(norm.offset + c);
    at.for_rows(index, [&](std::int64_t element) {
      Pack<float, n> values = load_floats<n>(x + element), added = {};
      if constexpr (has_addend) added = load_floats<n>(addend + element);
      for (int i = 0; i < n; ++i) {
        const float z = norm_at(values.at[i] - centre.at[i], scale.at[i], offset.at[i]);
        values.at[i] = Activation::value(has_addend ? z + added.at[i] : z);
      }
      store_floats(values, y + element);
    });
  }
};

template <typename T, int n, typename Activation>
struct BatchNormGradient {
  PackedRows<n> at;
  ChannelNorms norm;
  ChannelGradients gradient;
  const T* x = nullptr;   ///< [rows, columns]
  const T* dy = nullptr;  ///< [rows, columns]; may be dx. With an addend: dz
  T* dx = nullptr;        ///< [rows, columns]

  CARILLON_HOST_DEVICE void operator()(std::int64_t index) const {
    const std::uint32_t c = at.column(index);
    const Pack<float, n> centre = load<n>(norm.centre + c), scale = load<n>(norm.scale + c),
                         offset = load<n>(norm.offset + c), direct = load<n>(gradient.direct + c),
                         slope = load<n>(gradient.slope + c), constant = load<n>(gradient.constant + c);
    at.for_rows(index, [&](std::int64_t element) {
      const Pack<float, n> values = load_floats<n>(x + element);
      Pack<float, n> gradients = load_floats<n>(dy + element);
      for (int i = 0; i < n; ++i) {
        const float distance = values.at[i] - centre.at[i];
        const float dz = Activation::gradient(norm_at(distance, scale.at[i], offset.at[i]), gradients.at[i]);
        gradients.at[i] = gradient_at(dz, distance, direct.at[i], slope.at[i], constant.at[i]);
      }
      store_floats(gradients, dx + element);
    });
  }
};

}  // namespace carillon
