#include "src/train/checkpointing/checkpoint_size.h"

#include "src/checkpoint/checkpoint_bounds.h"

namespace carillon {

std::uint64_t max_checkpoint_bytes(const Network& network) {
  constexpr std::uint64_t max_copies = 16;  // variables, averages, optimiser slots
  constexpr std::uint64_t other_bytes = (std::uint64_t{48} << 20) + max_text_bytes;
  const BuiltNetwork built = build_network(network, {1, Arithmetic::fp32, Purpose::evaluation});
  const std::uint64_t arrays = built.graph.parameters().size() + built.graph.buffers().size();
  std::uint64_t values = 0;
  for (const auto& spec : built.graph.parameters()) values += static_cast<std::uint64_t>(spec.shape.element_count());
  for (const auto& spec : built.graph.buffers()) values += static_cast<std::uint64_t>(spec.shape.element_count());
  return max_copies * (values * sizeof(float) + arrays * max_array_overhead_bytes) + other_bytes;
}

}  // namespace carillon
