#include "src/train/input/batch_memory.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "src/core/memory.h"
#include "src/core/text.h"
#include "src/graph/memory_plan.h"

namespace carillon {

std::size_t activation_bytes(const BuiltNetwork& built, const Device& device, std::int64_t at_once) {
  const bool trains = built.loss.index >= 0;
  const Value results[] = {trains ? built.loss : built.output};
  const std::vector<TiledSection> sections =
      plan_tiling(built.graph, at_once > 0 ? 1 : static_cast<int>(device.workers().size()),
                  device.min_samples(built.graph.arithmetic()));
  return plan_memory(tensor_lifetimes(built.graph, sections, trains, results)).peak_bytes *
         static_cast<std::size_t>(std::max<std::int64_t>(at_once, 1));
}

void check_batch_fits(const BuiltNetwork& built, const Device& device, int ranks, const BatchInMemory& batch) {
  if (device.kind() != DeviceKind::cpu) return;
  const std::size_t bytes = activation_bytes(built, device, batch.at_once);
  constexpr double bytes_per_gib = 1 << 30;
  const double wanted = static_cast<double>(bytes) / bytes_per_gib;
  const double there = static_cast<double>(total_memory_bytes()) / bytes_per_gib;
  if (wanted * ranks <= there) return;
  fail(ExitCode::usage, "{}: needs {:.1f} GiB of memory per rank, and this host has {:.1f} GiB for {}: reduce it",
       batch.option, wanted, there, count_text(ranks, "rank"));
}

}  // namespace carillon
