// Mixing: how the samples of a batch are mixed with each other in training, by mixup or CutMix. One op mixes the
// images, and the loss mixes the targets. The op and the loss draw the same numbers independently.
//
//   mixup    lambda ~ Beta(a, a)      image = lambda x_i + (1 - lambda) x_j
//   CutMix   lambda' ~ Beta(a, a)     image = x_j in a box, else x_i; lambda = 1 - area of the box / area of the image
//   both     label = lambda onehot(label_i) + (1 - lambda) onehot(label_j);   j = i - 1; for sample 0, the last sample
//
// Half the side length of a box is int(sqrt(1 - lambda') / 2 extent). The centre of the box is uniform in the image.
// The parts of the box outside the image are cut off. There is one draw for all samples that an executable processes
// together. The draw depends only on the stream position of the first sample. Therefore, if the batches are the same,
// the draw does not depend on the number of ranks, and a resumed run repeats it. Sources: Zhang, Cisse, Dauphin,
// Lopez-Paz, "mixup: beyond empirical risk minimization", 2018; Yun and others, "CutMix", 2019; torchvision's
// transforms.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "carillon/core/host_device.h"
#include "carillon/core/philox.h"

namespace carillon {

/// Draws from the Beta(a, a) distribution, exactly, for any a > 0. Uses two random words, without rejection.
///
///   T = sqrt(2 a (U^(-1/a) - 1)) cos(2 pi V)            Student's distribution with 2 a degrees of freedom
///   X = 1/2 + T / (2 sqrt(2 a + T^2))                   Beta(a, a); U, V uniform in (0, 1)
///
/// The function computes X in float64 from q = U^(1/a) and without T, because T is infinite if q is 0. Sources: Bailey,
/// "Polar generation of random variates with the t-distribution", 1994; Devroye, "Random variate generation in one line
/// of code", 1996.
///
/// Returns a number from 0 to 1. `u`, `v`: uniform, independent.
CARILLON_HOST_DEVICE inline double symmetric_beta(double a, std::uint32_t u, std::uint32_t v) {
  const auto inside = [](std::uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; };
  const double log_q = std::log(inside(u)) / a, cosine = std::cos(2.0 * std::numbers::pi * inside(v));
  const double numerator = -std::expm1(log_q) * cosine * cosine;  // (1 - q) cos^2
  const double distance = std::sqrt(numerator / (std::exp(log_q) + numerator));
  return cosine < 0.0 ? 0.5 - 0.5 * distance : 0.5 + 0.5 * distance;
}

struct MixingParams {
  double mixup = 0.0,
         cutmix = 0.0;  ///< `a` of mixup and of CutMix; 0: off. If both are on, each batch uses one of them, each with
                        ///< probability 1/2
  std::int32_t height = 1, width = 1;  ///< extents of the images
  std::uint64_t seed = 0;              ///< seed of the draws

  CARILLON_HOST_DEVICE bool mixes() const { return mixup > 0.0 || cutmix > 0.0; }
};

/// The draw for one batch.
struct Mixing {
  float lambda = 1.0f;                                    ///< weight of the sample itself in its mixed image and label
  bool cuts = false;                                      ///< true: CutMix; the pixels in the box come from the other
                                                          ///< image
  std::int32_t top = 0, bottom = 0, left = 0, right = 0;  ///< the box: rows [top, bottom), columns [left, right)

  CARILLON_HOST_DEVICE float rest() const { return 1.0f - lambda; }
  /// Uses a fused multiply-add, so that every processor rounds in the same way.
  CARILLON_HOST_DEVICE float blend(float own, float other) const { return std::fma(lambda, own, rest() * other); }
  CARILLON_HOST_DEVICE bool is_cut(std::int32_t y, std::int32_t x) const {
    return y >= top && y < bottom && x >= left && x < right;
  }
};

/// Returns the number of the sample with which sample number `sample` of a batch is mixed.
template <typename Index>
CARILLON_HOST_DEVICE constexpr Index mixed_with(Index sample, Index batch) {
  return (sample == 0 ? batch : sample) - 1;
}

/// Makes the draw for one batch. `position`: stream position of the batch's first sample.
CARILLON_HOST_DEVICE inline Mixing draw_mixing(const MixingParams& params, std::uint64_t position) {
  Mixing mixing;
  if (!params.mixes()) return mixing;
  PhiloxDraws draws(params.seed, RandomPurpose::mixing, position);
  const bool is_first_kind = draws.word() >> 31 == 0;
  mixing.cuts = params.cutmix > 0.0 && (params.mixup == 0.0 || is_first_kind);
  const std::uint32_t u = draws.word(), v = draws.word();
  const double lambda = symmetric_beta(mixing.cuts ? params.cutmix : params.mixup, u, v);
  mixing.lambda = static_cast<float>(lambda);
  if (!mixing.cuts) return mixing;
  const double half = 0.5 * std::sqrt(1.0 - lambda);
  const auto cut = [&](std::int32_t extent, std::int32_t& first, std::int32_t& last) {
    const auto centre = static_cast<std::int32_t>(draws.below(static_cast<std::uint32_t>(extent)));
    const auto side = static_cast<std::int32_t>(half * extent);
    first = centre > side ? centre - side : 0;
    last = centre + side < extent ? centre + side : extent;
  };
  cut(params.width, mixing.left, mixing.right);
  cut(params.height, mixing.top, mixing.bottom);
  const double box = static_cast<double>(mixing.bottom - mixing.top) * (mixing.right - mixing.left);
  mixing.lambda = static_cast<float>(1.0 - box / (static_cast<double>(params.height) * params.width));
  return mixing;
}

}  // namespace carillon
