#include "src/graph/tiled_ops.h"

#include "carillon/core/parallel.h"
#include "carillon/core/sum_in_order.h"

namespace carillon {

Tensor tile_of(const Tensor& whole, bool per_worker, const TiledSection& section, const BatchTile& tile) {
  if (!section.is_tiled()) return whole;
  Tensor part = whole;
  std::vector<std::int64_t> extents = whole.shape.extents();
  extents.at(0) = section.samples_of(tile.index);
  part.shape = Shape(std::move(extents));
  if (!whole) return part;
  const std::size_t offset = per_worker
                                 ? tile_memory_bytes(whole.bytes(), section) * static_cast<std::size_t>(tile.worker)
                                 : whole.bytes() / static_cast<std::size_t>(section.batch) *
                                       static_cast<std::size_t>(section.begin_of(tile.index));
  part.data = static_cast<std::byte*>(whole.data) + offset;
  return part;
}

TiledOps::TiledOps(const TiledSection& section, Device& device, std::span<float> gradients, const MakeOp& make_op)
    : section_(section), device_(device), gradients_(gradients), ops_(static_cast<std::size_t>(section.tiles)) {
  const auto make_ops = [&](const BatchTile& tile) {
    for (int op = section_.first; op < section_.last; ++op) ops_[tile.index].push_back(make_op(op, tile));
  };
  if (!section_.is_tiled()) {
    make_ops({.device = &device_});
    return;
  }
  if (!gradients_.empty()) tile_gradients_ = device_.allocate(gradient_stride() * sizeof(float) * ops_.size());
  device_.on_workers(section_.workers, [&](int worker) {
    const ThreadShare mine(section_.tiles, worker, section_.workers);
    for (int tile = static_cast<int>(mine.first); tile < mine.last; ++tile) {
      make_ops({tile, worker, device_.workers()[worker].get(), gradients_.data(),
                gradients_.empty() ? nullptr : gradients_of(tile)});
    }
  });
}

template <typename Body>
void TiledOps::for_tiles(const Body& body) {
  if (!section_.is_tiled()) return body(ops_.front());
  device_.on_workers(section_.workers, [&](int worker) {
    const ThreadShare mine(section_.tiles, worker, section_.workers);
    for (auto tile = mine.first; tile < mine.last; ++tile) body(ops_[tile]);
  });
}

void TiledOps::forward(Stream& stream) {
  for_tiles([&](const auto& ops) {
    for (const auto& op : ops) op->forward(stream);
  });
}

void TiledOps::backward(Stream& stream, const std::vector<bool>& runs) {
  for_tiles([&](const auto& ops) {
    for (std::size_t i = ops.size(); i-- > 0;) {
      if (runs[i]) ops[i]->backward(stream);
    }
  });
  if (!section_.is_tiled() || gradients_.empty()) return;
  std::vector<const float*> parts;
  for (int tile = 0; tile < section_.tiles; ++tile) parts.push_back(gradients_of(tile));
  sum_in_order(parts, gradients_.size(), 1.0f, gradients_.data());
}

}  // namespace carillon
