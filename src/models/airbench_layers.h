// What the airbench networks have in common (Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024):
//
//   input               images mirrored in turn; padded, reflecting, and cropped; a square cut out
//   whiten + GELU       2x2 whitening filters, 8 a channel, which do not train; biases
//   group1, 2, 3        the network's own
//   pool                the largest of each channel's values
//   logits              without biases, divided by 9
#pragma once

#include <array>
#include <functional>
#include <string>

#include "carillon/models/network.h"

namespace carillon {

/// What tells them apart.
struct AirbenchParams {
  std::string name;
  std::int64_t padding = 0, cutout = 0;  ///< of the images (kernels/normalize_images)
  std::array<std::int64_t, 3> filters = {};
  /// Adds group `name`.
  std::function<Value(Graph& graph, const std::string& name, Value x, std::int64_t filters)> group;
};

/// Errors: usage (images that are not square, of 3 channels, with 12 to 128 rows).
Network airbench_network(const AirbenchParams& params, const NetworkSettings& settings);

/// A 3x3 convolution without biases that passes its input on at first, besides filters of PyTorch's.
Value dirac_conv(Graph& graph, const std::string& name, Value x, std::int64_t filters, float l2_factor);

/// Batch norm that shifts and does not scale. `momentum`: the share of a new batch in its running statistics.
Value shifting_norm(Graph& graph, const std::string& name, Value x, float momentum);

/// Largest values of windows without overlap; what is left of the last ones is passed over.
Value pool(Graph& graph, const std::string& name, Value x, std::int64_t window);

}  // namespace carillon
