// Mean and standard deviation of each channel of CIFAR-10's training images, for pixels from 0 to 1.
#pragma once

#include "kernels/normalize_images/normalize_images.h"

namespace carillon {

using ByChannel = decltype(NormalizeImagesParams::mean);

inline constexpr ByChannel cifar10_mean{0.4914f, 0.4822f, 0.4465f};
inline constexpr ByChannel cifar10_deviation{0.2470f, 0.2435f, 0.2616f, 1.0f};

}  // namespace carillon
