#include "src/graph/tiled_ops.h"

#include "carillon/core/parallel.h"
#include "carillon/core/sum_in_order.h"

namespace carillon {

Tensor slice_of(const Tensor& whole, bool of_slice, const TiledSection& section, const BatchTile& place) {
  if (!section.is_tiled()) return whole;
  Tensor slice = whole;
  std::vector<std::int64_t> extents = whole.shape.extents();
  extents.at(0) = section.samples_of(place.slice);
  slice.shape = Shape(std::move(extents));
  if (!whole) return slice;
  const std::size_t offset = of_slice
                                 ? slice_memory_bytes(whole.bytes(), section) * static_cast<std::size_t>(place.worker)
                                 : whole.bytes() / static_cast<std::size_t>(section.batch) *
                                       static_cast<std::size_t>(section.begin_of(place.slice));
  slice.data = static_cast<std::byte*>(whole.data) + offset;
  return slice;
}

TiledOps::TiledOps(const TiledSection& section, Device& device, std::span<float> gradients, const MakeOp& make_op)
    : section_(section), device_(device), gradients_(gradients), ops_(static_cast<std::size_t>(section.slices)) {
  const auto make_ops = [&](const BatchTile& place) {
    for (int op = section_.first; op < section_.last; ++op) ops_[place.slice].push_back(make_op(op, place));
  };
  if (!section_.is_tiled()) {
    make_ops({.device = &device_});
    return;
  }
  if (!gradients_.empty()) slice_gradients_ = device_.allocate(gradient_stride() * sizeof(float) * ops_.size());
  device_.on_workers(section_.workers, [&](int worker) {
    const ThreadShare mine(section_.slices, worker, section_.workers);
    for (int slice = static_cast<int>(mine.first); slice < mine.last; ++slice) {
      make_ops({slice, worker, device_.workers()[worker].get(), gradients_.data(),
                gradients_.empty() ? nullptr : gradients_of(slice)});
    }
  });
}

template <typename Body>
void TiledOps::for_slices(const Body& body) {
  if (!section_.is_tiled()) return body(ops_.front());
  device_.on_workers(section_.workers, [&](int worker) {
    const ThreadShare mine(section_.slices, worker, section_.workers);
    for (auto slice = mine.first; slice < mine.last; ++slice) body(ops_[slice]);
  });
}

void TiledOps::forward(Stream& stream) {
  for_slices([&](const auto& ops) {
    for (const auto& op : ops) op->forward(stream);
  });
}

void TiledOps::backward(Stream& stream, const std::vector<bool>& runs) {
  for_slices([&](const auto& ops) {
    for (std::size_t i = ops.size(); i-- > 0;) {
      if (runs[i]) ops[i]->backward(stream);
    }
  });
  if (!section_.is_tiled() || gradients_.empty()) return;
  std::vector<const float*> parts;
  for (int slice = 0; slice < section_.slices; ++slice) parts.push_back(gradients_of(slice));
  sum_in_order(parts, gradients_.size(), 1.0f, gradients_.data());
}

}  // namespace carillon
