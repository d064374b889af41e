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
    const Tensor buffer = tensor(static_cast<int>(i));
    const std::vector<float> initial(static_cast<std::size_t>(buffer.shape.element_count()), specs_[i].initial_value);
    upload_floats(device, initial, buffer);
  }
}

Tensor BufferStore::tensor(int buffer) const {
  return {static_cast<float*>(memory_.data()) + offsets_.at(buffer), specs_.at(buffer).shape, DType::f32};
}

}  // namespace carillon
