// The faster choice that a training names if it will take more than an hour.
#pragma once

#include <string>

#include "carillon/app/program_spec.h"

namespace carillon {

/// LoggingOptions::faster_choice of a training with these options: ProgramSpec::fast_network and fast_image_size, if
/// they need less work per image, or fewer steps. Empty: the program has no fast network, or the data are synthetic.
/// `options`: with network, task and records resolved.
std::string faster_choice(const ProgramSpec& program_spec, const TrainOptions& options);

}  // namespace carillon
