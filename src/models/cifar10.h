#pragma once

#include "carillon/models/model.h"

namespace carillon {

/// The CIFAR-10 tutorial's network. 1,068,298 parameters.
Value build_cifar10(Graph& graph, const ModelSettings& settings);

}  // namespace carillon
