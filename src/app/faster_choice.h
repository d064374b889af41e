// The faster choice that a training names if it will take more than an hour.
#pragma once

#include <string>

#include "carillon/app/program_spec.h"

namespace carillon {

/// LoggingOptions::faster_choice of a training with these options: ProgramSpec::fast_network and fast_image_size, if
/// they need less work per image, or fewer steps. Empty: the program has no fast network, or the data are synthetic.
/// `options`: with network, task and records resolved. `evaluates_other_size`: --eval-image-size is set.
std::string faster_choice(const ProgramSpec& program_spec, const TrainOptions& options, bool evaluates_other_size);

}  // namespace carillon
