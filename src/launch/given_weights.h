// Given weights: what the weights of `carillon train --from` require of the training.
#pragma once

#include <optional>
#include <string>

namespace carillon {

struct GivenNetwork {
  std::string network;
  std::string preprocessing;  ///< empty: unknown
};

/// Of the weights in `from`: a file of PyTorch's weights, a checkpoint or a train directory. `model`: --model, if it is
/// given. Errors: usage (another network, or none for pictures), those of reading the file.
GivenNetwork network_of_weights(const std::string& from, const std::optional<std::string>& model);

}  // namespace carillon
