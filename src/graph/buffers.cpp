#include "carillon/graph/buffers.h"

namespace carillon {

BufferStore::BufferStore(std::vector<BufferSpec> specs, Device& device) : specs_(std::move(specs)) {
  std::size_t total = 0;
  for (const BufferSpec& spec : specs_) {
    offsets_.push_back(total);
    total += aligned_float_count(static_cast<std::size_t>(spec.shape.element_count()));
  }
  if (total == 0) return;
  memory_ = device.allocate(total * sizeof(float));
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const Tensor state = tensor(static_cast<int>(i));
    const std::vector<float> initial(static_cast<std::size_t>(state.shape.element_count()), specs_[i].initial_value);
    upload_floats(device, initial, state);
  }
}

Tensor BufferStore::tensor(int state) const {
  return {static_cast<float*>(memory_.data()) + offsets_.at(state), specs_.at(state).shape, DType::f32};
}

}  // namespace carillon
