// The common layers of the airbench networks. Source: Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024.
//
//   input               mirrored in alternate epochs; padded by reflection and cropped; a square is cut out
//   whiten + GELU       2x2 whitening filters (not trained), 8 per channel; trained biases
//   group1, 2, 3        different in each network
//   pool                maximum of each channel
//   logits              no biases; divided by 9
#pragma once

#include <array>
#include <functional>
#include <string>

#include "carillon/models/network.h"

namespace carillon {

/// The differences between the airbench networks.
struct AirbenchParams {
  std::string name;
  std::int64_t padding = 0, cutout = 0;  ///< pixels (kernels/normalize_images)
  std::array<std::int64_t, 3> filters = {};
  /// Adds the layers of group `name`.
  std::function<Value(Graph& graph, const std::string& name, Value x, std::int64_t filters)> group;
};

/// Requires square images with 3 channels and 12 to 128 rows. Errors: usage (other images).
Network airbench_network(const AirbenchParams& params, const NetworkSettings& settings);

/// A 3x3 convolution without biases. Initially its first filters copy the input channels; the other filters have
/// PyTorch's initial values.
Value dirac_conv(Graph& graph, const std::string& name, Value x, std::int64_t filters, float l2_factor);

/// Batch norm with a trained shift and without a trained scale. `momentum`: weight of the new batch in the running
/// statistics.
Value shifting_norm(Graph& graph, const std::string& name, Value x, float momentum);

/// Max pooling over windows without overlap. Incomplete windows at the end are ignored.
Value pool(Graph& graph, const std::string& name, Value x, std::int64_t window);

}  // namespace carillon
