// The GPU's Feed; cuda_feed.cpp, in builds with CUDA.
#pragma once

#include "carillon/step/feed.h"

namespace carillon {

std::unique_ptr<Feed> make_cuda_feed(Device& device, const FeedForm& form);

}  // namespace carillon
