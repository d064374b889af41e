#include "src/comm/host_memory.h"

#include <vector>

#include "carillon/core/error.h"
#include "src/comm/sum_in_rank_order.h"

namespace carillon {

Buffer HostMemory::allocate(std::size_t bytes) {
  check(common_ == nullptr, "common memory was allocated twice");
  common_ = std::make_unique<SharedArrays>(host_, host_.rank() == 0 ? bytes : 0);
  return {common_->array(0), bytes, [](void*) {}};
}

void HostMemory::meet() {
  common_->reach(&SharedArrays::Progress::started, ++meetings_);
  common_->wait_for_all(&SharedArrays::Progress::started, meetings_, "averaging");
}

void HostMemory::means_of(std::span<const float> values, const TakeMeans& take) const {
  std::vector<const float*> parts;
  for (int rank = 0; rank < host_.size(); ++rank) parts.push_back(own_->array(rank) + (values.data() - own_->own()));
  sum_blocks_in_rank_order(parts, values.size(), 1.0f / static_cast<float>(host_.size()), take);
}

}  // namespace carillon
