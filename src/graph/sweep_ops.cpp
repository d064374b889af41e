#include "src/graph/sweep_ops.h"

#include "carillon/core/parallel.h"
#include "carillon/core/sum_in_order.h"

namespace carillon {

Tensor slice_of(const Tensor& whole, bool of_slice, const Sweep& sweep, const SlicePlace& place) {
  if (!sweep.is_sliced()) return whole;
  Tensor slice = whole;
  std::vector<std::int64_t> extents = whole.shape.extents();
  extents.at(0) = sweep.samples_of(place.slice);
  slice.shape = Shape(std::move(extents));
  if (!whole) return slice;
  const std::size_t offset = of_slice
                                 ? slice_memory_bytes(whole.bytes(), sweep) * static_cast<std::size_t>(place.worker)
                                 : whole.bytes() / static_cast<std::size_t>(sweep.batch) *
                                       static_cast<std::size_t>(sweep.begin_of(place.slice));
  slice.data = static_cast<std::byte*>(whole.data) + offset;
  return slice;
}

SweepOps::SweepOps(const Sweep& sweep, Device& device, std::span<float> gradients, const MakeOp& make_op)
    : sweep_(sweep), device_(device), gradients_(gradients), ops_(static_cast<std::size_t>(sweep.slices)) {
  const auto make_ops = [&](const SlicePlace& place) {
    for (int op = sweep_.first; op < sweep_.last; ++op) ops_[place.slice].push_back(make_op(op, place));
  };
  if (!sweep_.is_sliced()) {
    make_ops({.device = &device_});
    return;
  }
  if (!gradients_.empty()) slice_gradients_ = device_.allocate(gradient_stride() * sizeof(float) * ops_.size());
  device_.on_workers(sweep_.workers, [&](int worker) {
    const ThreadShare mine(sweep_.slices, worker, sweep_.workers);
    for (int slice = static_cast<int>(mine.first); slice < mine.last; ++slice) {
      make_ops({slice, worker, device_.workers()[worker].get(), gradients_.data(),
                gradients_.empty() ? nullptr : gradients_of(slice)});
    }
  });
}

template <typename Body>
void SweepOps::for_slices(const Body& body) {
  if (!sweep_.is_sliced()) return body(ops_.front());
  device_.on_workers(sweep_.workers, [&](int worker) {
    const ThreadShare mine(sweep_.slices, worker, sweep_.workers);
    for (auto slice = mine.first; slice < mine.last; ++slice) body(ops_[slice]);
  });
}

void SweepOps::forward(Stream& stream) {
  for_slices([&](const auto& ops) {
    for (const auto& op : ops) op->forward(stream);
  });
}

void SweepOps::backward(Stream& stream, const std::vector<bool>& runs) {
  for_slices([&](const auto& ops) {
    for (std::size_t i = ops.size(); i-- > 0;) {
      if (runs[i]) ops[i]->backward(stream);
    }
  });
  if (!sweep_.is_sliced() || gradients_.empty()) return;
  std::vector<const float*> parts;
  for (int slice = 0; slice < sweep_.slices; ++slice) parts.push_back(gradients_of(slice));
  sum_in_order(parts, gradients_.size(), 1.0f, gradients_.data());
}

}  // namespace carillon
