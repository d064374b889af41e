#include <fmt/ranges.h>

#include <map>
#include <string>
#include <vector>

#include "src/comm/allreduce/communicators.h"

namespace carillon {
namespace {

/// Advice if ranks on one host see one GPU each; otherwise an empty text. Requires that no ranks share a GPU.
std::string advice_on_hidden_gpus(std::span<const GpuPlace> gpus) {
  std::map<std::string, int> ranks;  // by host
  for (const GpuPlace& place : gpus) {
    if (place.visible_gpus != 1 || ++ranks[place.host] == 1) continue;
    return fmt::format(
        "each rank on {} sees only its own GPU, as with Slurm's --gpus-per-task; direct copies between these GPUs may "
        "fail inside NCCL: use --gpus-per-node, which shows all GPUs of a node to its ranks",
        place.host);
  }
  return {};
}

}  // namespace

std::string shared_gpus(std::span<const GpuPlace> gpus) {
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> ranks;
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) ranks[{gpus[rank].host, gpus[rank].gpu}].push_back(rank);
  constexpr std::size_t max_listed = 4;  // the line stays readable
  std::vector<std::string> parts;
  std::size_t more = 0;
  for (const auto& [place, sharing] : ranks) {
    if (sharing.size() == 1) continue;
    if (parts.size() == max_listed) {
      ++more;
      continue;
    }
    const std::span all_but_last(sharing.data(), sharing.size() - 1);
    parts.push_back(fmt::format("ranks {} and {} share {} on {}", fmt::join(all_but_last, ", "), sharing.back(),
                                place.second, place.first));
  }
  const std::string text = fmt::format("{}", fmt::join(parts, ", "));
  return more == 0 ? text : fmt::format("{}, and {} more GPUs are shared", text, more);
}

GpuPlan plan_gpu_averaging(std::span<const GpuPlace> gpus, std::string_view choice) {
  if (gpus.size() == 1) return {choice == "nccl" ? GpuAveraging::nccl : GpuAveraging::self, {}};
  if (choice == "mpi") return {GpuAveraging::staged, {}};
  const std::string shared = shared_gpus(gpus);
  if (shared.empty()) return {GpuAveraging::nccl, advice_on_hidden_gpus(gpus)};
  if (choice == "nccl") {
    fail(ExitCode::no_device,
         "--comm nccl: {}; NCCL needs one GPU per rank: start as many ranks as GPUs, or use --comm mpi", shared);
  }
  return {
      GpuAveraging::staged,
      fmt::format(
          "{}; without NVIDIA's MPS they take turns; NCCL cannot average between them, so gradients go through host "
          "memory and MPI",
          shared)};
}

}  // namespace carillon
