// Whitening: filters for a first convolution. They make the components of image patches uncorrelated, with variance 1.
//
//   P [n, p]   all kernel x kernel patches, stride 1, of the normalised images; p = kernel^2 channels
//   C = P^T P / n = sum over i of l_i v_i v_i^T        mean not subtracted; l_1 >= l_2 >= ..., v_i of length 1
//   filter i = v_i / sqrt(l_i + epsilon), i < p        filter p + i = -filter i
//
// The sign of an eigenvector is arbitrary. The sign is chosen so that one component is positive: the first component
// with at least half the magnitude of the largest component.
//
// Source: Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024, after Page, "How to train your ResNet",
// 2018.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/normalize_images/normalize_images.h"

namespace carillon {

struct WhiteningParams {
  NormalizeImagesParams input;  ///< shape and normalisation of the images
  std::int64_t kernel = 2;
  double epsilon = 5e-4;  ///< > 0
};

/// Returns C, row-major [p, p]. `images`: [channels, height, width] of uint8 each, as in records. The components of a
/// patch are in the order [row, column, channel].
std::vector<double> patch_covariance(std::span<const std::uint8_t* const> images, const WhiteningParams& params);

/// Returns the filters of C, [kernel, kernel, channels, 2 p]. Errors: failed (C is not finite).
std::vector<float> whitening_filters(const std::vector<double>& covariance, double epsilon);

}  // namespace carillon
