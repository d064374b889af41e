#pragma once

#include "carillon/models/model.h"

namespace carillon {

/// A LeNet-5-style network for MNIST, with ReLU and max pooling. 1,663,370 parameters.
Value build_lenet(Graph& graph, const ModelSettings& settings);

}  // namespace carillon
