#include "src/graph/batch_tiling.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "carillon/core/reduction.h"

namespace carillon {
namespace {

/// Maximum number of bytes that all inputs and outputs of an op have together for one tile: about the size of a
/// second-level cache.
constexpr std::int64_t tile_bytes = std::int64_t{3} << 19;
/// An op reads its parameters and writes their gradients once per tile, so the parameters must be small compared with
/// the activations.
constexpr std::int64_t max_parameter_bytes = tile_bytes / 2;

std::int64_t bytes_per_sample(const Graph& graph, const Graph::Node& node) {
  std::int64_t bytes = 0;
  for (const std::vector<int>* values : {&node.inputs, &node.outputs}) {
    for (const int value : *values) {
      const Graph::ValueInfo& info = graph.values()[value];
      bytes += info.shape.elements_per_sample() * static_cast<std::int64_t>(size_of(info.type));
    }
  }
  return bytes;
}

/// The largest number of tiles. For larger batches, the tiles become larger and not more numerous. Reason: each tile
/// has its own array of gradients, and these arrays must be summed.
constexpr std::int64_t max_tiles = 64;

bool shares_memory(const Graph::Node& node) {
  for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i) {
    if (node.definition->output_shares_input(i)) return true;
  }
  for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i) {
    if (node.definition->gradient_shares_output(i)) return true;
  }
  return false;
}

bool can_be_tiled(const Graph& graph, const Graph::Node& node) {
  // The gradients of tiles are summed in the flat gradient array. Gradients of gradient_values are not in this array,
  // so such an op is not tiled.
  if (!node.traits.samples_are_independent || shares_memory(node) || !node.gradient_values.empty()) return false;
  check(node.buffers.empty(), "an op with independent samples must not have buffers");
  std::int64_t parameter_bytes = 0;
  for (const int parameter : node.parameters) {
    parameter_bytes += graph.parameters()[parameter].shape.element_count() * static_cast<std::int64_t>(sizeof(float));
  }
  return parameter_bytes <= max_parameter_bytes && bytes_per_sample(graph, node) <= tile_bytes;
}

int tiles_for(const Graph& graph, int first, int last, std::int64_t min_samples) {
  std::int64_t bytes = 0;
  for (int op = first; op < last; ++op) bytes = std::max(bytes, bytes_per_sample(graph, graph.nodes()[op]));
  const std::int64_t samples = tile_bytes / bytes;
  const std::int64_t tiles = std::min((graph.batch_size() + samples - 1) / samples, max_tiles);
  // Rounds up to a multiple of 4 tiles, so that each of 2 or 4 threads processes the same number of tiles.
  const std::int64_t most = (graph.batch_size() + min_samples - 1) / min_samples;
  return static_cast<int>(std::min(tiles > 2 ? (tiles + 3) / 4 * 4 : tiles, most));
}

}  // namespace

std::vector<TiledSection> plan_tiling(const Graph& graph, int workers, std::int64_t min_samples) {
  const int op_count = static_cast<int>(graph.nodes().size());
  std::vector<TiledSection> sections;
  const auto add_whole = [&](int first, int last) {
    for (int op = first; op < last; ++op)
      sections.push_back({.first = op, .last = op + 1, .batch = graph.batch_size()});
  };
  for (int first = 0; first < op_count;) {
    int last = first;
    while (workers > 0 && last < op_count && can_be_tiled(graph, graph.nodes()[last])) ++last;
    const int tiles = last - first > 1 ? tiles_for(graph, first, last, min_samples) : 1;
    if (tiles > 1) {
      sections.push_back({first, last, tiles, std::min(workers, tiles), graph.batch_size(), min_samples});
    } else {
      add_whole(first, last = std::max(last, first + 1));
    }
    first = last;
  }
  return sections;
}

std::size_t tile_memory_bytes(std::size_t bytes, const TiledSection& section) {
  return aligned_bytes(bytes / static_cast<std::size_t>(section.batch) *
                       static_cast<std::size_t>(section.max_samples()));
}

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
