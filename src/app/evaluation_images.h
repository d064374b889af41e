// The images of a training's evaluations, if their shape is another one than that of its training images.
#pragma once

#include <string>

#include "carillon/device/device.h"
#include "carillon/models/network.h"
#include "carillon/options/train_options.h"

namespace carillon {

/// Checks that two networks have the same variables and buffers. Errors: usage (they depend on the image size).
void check_same_variables(const Network& trained, const Network& evaluated);

/// Checks that the network can evaluate images of the shape that the decoder of evaluations has. `size`: the option
/// that sets the shape, with its value, for messages; empty: there is none. Errors: usage.
void check_evaluation_images(const TrainOptions& options, const std::string& size);

/// Checks that a batch of an evaluation fits into the memory of a CPU. `local_ranks`: of this host. Errors: usage.
void check_evaluation_fits(const TrainOptions& options, const std::string& size, const Device& device, int local_ranks);

}  // namespace carillon
