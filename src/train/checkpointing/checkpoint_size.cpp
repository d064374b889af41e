#include "src/train/checkpointing/checkpoint_size.h"

namespace carillon {

std::uint64_t max_checkpoint_bytes(const Network& network) {
  constexpr std::uint64_t max_copies = 16;                        // variables, averages, optimiser slots
  constexpr std::uint64_t other_bytes = std::uint64_t{64} << 20;  // options, names, HDF5's metadata
  const BuiltNetwork built = build_network(network, {1, Arithmetic::fp32, Purpose::evaluation});
  std::uint64_t values = 0;
  for (const auto& spec : built.graph.parameters()) values += static_cast<std::uint64_t>(spec.shape.element_count());
  for (const auto& spec : built.graph.buffers()) values += static_cast<std::uint64_t>(spec.shape.element_count());
  return max_copies * values * sizeof(float) + other_bytes;
}

}  // namespace carillon
