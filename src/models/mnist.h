#pragma once

#include "carillon/models/model.h"

namespace carillon {

/// The MNIST network of the reference: 784 -> dense 500, ReLU -> dense 10. 397,510 parameters.
Value build_mnist(Graph& graph, const ModelSettings& settings);

}  // namespace carillon
