// Whitening: filters of a first convolution that make what they see of an image uncorrelated and of variance 1.
//
//   P [n, p]   all patches of kernel x kernel pixels, stride 1, of some images, normalised; p = kernel^2 channels
//   C = P^T P / n = sum over i of l_i v_i v_i^T        not about the mean; l_1 >= l_2 >= ..., v_i of length 1
//   filter i = v_i / sqrt(l_i + epsilon), i < p        filter p + i = -filter i
//
// An eigenvector's sign is free: of its first component at least half as large as its largest, it is positive.
// Source: Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024, after Page, "How to train your ResNet",
// 2018.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/normalize_images/normalize_images.h"

namespace carillon {

struct WhiteningParams {
  NormalizeImagesParams input;  ///< the images' shape, and their normalisation
  std::int64_t kernel = 2;
  double epsilon = 5e-4;  ///< > 0
};

/// C, row-major [p, p], of `images`, as records have them: [channels, height, width]. A patch's components are in the
/// order [row, column, channel].
std::vector<double> patch_covariance(std::span<const std::uint8_t* const> images, const WhiteningParams& params);

/// [kernel, kernel, channels, 2 p], of C. Errors: failed (C is not finite).
std::vector<float> whitening_filters(const std::vector<double>& covariance, double epsilon);

}  // namespace carillon
