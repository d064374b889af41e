// Names of networks that have changed since a checkpoint was written.
#pragma once

#include <string>

#include "src/checkpoint/checkpoint.h"

namespace carillon {

/// The present name of the network of `state`. Before 2026-11-24, "resnet18" was the network that is now
/// "resnet18_cifar". The stem's weights tell the two apart: 3x3 or 7x7.
std::string present_model_name(const CheckpointState& state);

}  // namespace carillon
