// The arithmetic of batch_norm for one channel, on CPU and GPU.
//
// The error of a mean in float32 is up to half a unit in the last place. If the standard deviation is small, this error
// is large compared with the deviation (mean 1000, deviation 0.01: 0.3 % of the deviation). Therefore the formulas use
// `centre`, the rounded mean. x - centre is nearly always exact, and the rounding error of the mean is part of the
// offset:
//
//   z  = (x - centre) scale + offset                    scale = gamma inv, offset = beta - (mean - centre) scale
//   dx = direct dz + slope (x - centre) + constant
#pragma once

#include <cmath>
#include <cstdint>

#include "carillon/core/host_device.h"

namespace carillon {

/// Count, mean and sum of squared distances from the mean, of some values of a channel.
struct Moments {
  double count, mean, squares;
};

/// Computes the moments from the sums of x - shift and (x - shift)^2 over `count` values. `shift` must be one of the
/// values. In this case, (mean - shift)^2 <= squares, so that the cancellation in the difference is at most a factor of
/// count + 1.
CARILLON_HOST_DEVICE inline Moments moments_about(double shift, double count, double sum, double square_sum) {
  const double squares = square_sum - sum * sum / count;
  return {count, shift + sum / count, squares < 0.0 ? 0.0 : squares};  // NaN stays NaN
}

/// Two values of each rank for a channel: rank r has the values first[r * row] and second[r * row].
struct ValuesOfRanks {
  const double *first = nullptr, *second = nullptr;
  std::int64_t row = 0;
  int ranks = 1;

  /// Shifts the view from channel 0 to channel c.
  CARILLON_HOST_DEVICE ValuesOfRanks channel(std::int64_t c) const { return {first + c, second + c, row, ranks}; }
};

/// Combines the moments of all ranks, in rank order. `of`: mean and squares (Moments) of each rank. `count`: number of
/// values of each rank.
CARILLON_HOST_DEVICE inline Moments moments_of_ranks(const ValuesOfRanks& of, double count) {
  double mean = 0.0, squares = 0.0;
  for (int rank = 0; rank < of.ranks; ++rank) mean += of.first[rank * of.row] / of.ranks;
  for (int rank = 0; rank < of.ranks; ++rank) {
    const double distance = of.first[rank * of.row] - mean;
    squares += of.second[rank * of.row] + count * distance * distance;
  }
  return {count * of.ranks, mean, squares};
}

struct ChannelSums {
  double sum = 0.0, product = 0.0;  ///< sum of dz; sum of dz (x - centre)
};

/// Adds the sums of all ranks, in rank order.
CARILLON_HOST_DEVICE inline ChannelSums sums_of_ranks(const ValuesOfRanks& of) {
  ChannelSums total;
  for (int rank = 0; rank < of.ranks; ++rank) {
    total.sum += of.first[rank * of.row];
    total.product += of.second[rank * of.row];
  }
  return total;
}

/// Computes z of an element. Backward computes z again with the same rounding, to find the elements at which a ReLU
/// passes the gradient.
CARILLON_HOST_DEVICE inline float norm_at(float from_centre, float scale, float offset) {
  return from_centre * scale + offset;
}

/// Statistics of a channel in one step. They are kept from forward to backward.
struct ChannelStatistics {
  double mean, inverse;  ///< inverse: 1 / sqrt(variance + epsilon)
};

struct ChannelNorm {
  float centre, scale, offset;
};

CARILLON_HOST_DEVICE inline ChannelNorm channel_norm(const ChannelStatistics& of, float gamma, float beta) {
  const float centre = static_cast<float>(of.mean);
  const double scale = gamma * of.inverse;
  return {centre, static_cast<float>(scale), static_cast<float>(beta - (of.mean - centre) * scale)};
}

/// Returns dx of an element.
CARILLON_HOST_DEVICE inline float gradient_at(float dz, float from_centre, float direct, float slope, float constant) {
  return direct * dz + (slope * from_centre + constant);
}

struct ChannelGradient {
  float direct, slope, constant;
  float dgamma, dbeta;
};

/// Computes the coefficients of dx. `sum`: sum of dz over `count` rows. `product`: sum of dz (x - centre) over these
/// rows.
CARILLON_HOST_DEVICE inline ChannelGradient channel_gradient(const ChannelStatistics& of, float gamma, double count,
                                                             double sum, double product) {
  const double rest = of.mean - static_cast<float>(of.mean);
  const double dgamma = of.inverse * (product - rest * sum), direct = gamma * of.inverse;
  const double slope = -direct * of.inverse * dgamma / count;
  return {static_cast<float>(direct), static_cast<float>(slope),
          static_cast<float>(-direct * sum / count - slope * rest), static_cast<float>(dgamma),
          static_cast<float>(sum)};
}

/// Computes the coefficients of dx if the statistics do not depend on x.
CARILLON_HOST_DEVICE inline ChannelGradient frozen_channel_gradient(const ChannelStatistics& of, float gamma,
                                                                    double sum, double product) {
  const double rest = of.mean - static_cast<float>(of.mean);
  return {static_cast<float>(gamma * of.inverse), 0.0f, 0.0f, static_cast<float>(of.inverse * (product - rest * sum)),
          static_cast<float>(sum)};
}

/// Returns the new value of `moving` after a batch for which the statistic is `value`.
CARILLON_HOST_DEVICE inline float moved(float moving, double value, float momentum) {
  return static_cast<float>((1.0 - momentum) * moving + momentum * value);
}

/// Returns the statistics of a batch that has the moments `batch`. Updates the moving statistics of the channel.
CARILLON_HOST_DEVICE inline ChannelStatistics take_batch(const Moments& batch, float epsilon, float momentum,
                                                         float& moving_mean, float& moving_variance) {
  const double unbiased = batch.squares / (batch.count > 1.0 ? batch.count - 1.0 : 1.0);
  moving_mean = moved(moving_mean, batch.mean, momentum);
  moving_variance = moved(moving_variance, unbiased, momentum);
  return {batch.mean, 1.0 / std::sqrt(batch.squares / batch.count + epsilon)};
}

/// Returns the statistics that evaluation uses.
CARILLON_HOST_DEVICE inline ChannelStatistics moving_statistics(float moving_mean, float moving_variance,
                                                                float epsilon) {
  return {moving_mean, 1.0 / std::sqrt(static_cast<double>(moving_variance) + epsilon)};
}

}  // namespace carillon
