#include "src/comm/allreduce/communicators.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <vector>

#include "carillon/core/parallel.h"
#include "src/core/has_cuda.h"

namespace carillon {
namespace {

/// Refuses a mix of CPU and GPU ranks: they would wait for each other in different collective calls.
void require_one_kind(const Mpi& mpi, Device& device) {
  const std::vector<std::string> kinds = mpi.all_gather(device.kind() == DeviceKind::cuda ? "a GPU" : "a CPU");
  mpi.run_on_all([&] {
    for (std::size_t rank = 1; rank < kinds.size(); ++rank) {
      if (kinds[rank] == kinds[0]) continue;
      fail(ExitCode::no_device, "rank 0 computes on {}, rank {} on {}: choose --device cpu, or hosts with GPUs only",
           kinds[0], rank, kinds[rank]);
    }
  });
}

/// Returns advice if the ranks of a host see one GPU each; otherwise returns an empty text. Call it only if no two
/// ranks share a GPU.
std::string advice_on_hidden_gpus(std::span<const GpuPlace> gpus) {
  std::map<std::string, int> ranks;  // number of ranks on each host, by host name
  for (const GpuPlace& place : gpus) {
    if (place.visible_gpus != 1 || ++ranks[place.host] == 1) continue;
    return fmt::format(
        "each rank on {} sees only its own GPU, as with Slurm's --gpus-per-task; direct copies between these GPUs may "
        "fail inside NCCL: use --gpus-per-node, which shows all GPUs of a node to its ranks",
        place.host);
  }
  return {};
}

/// The SharedHostMemory of a single rank. The rank's shard is the whole array.
class SelfMemory final : public SharedHostMemory {
 public:
  explicit SelfMemory(Device& device) : device_(device) {}
  Buffer allocate(std::size_t bytes) override { return device_.allocate(bytes); }
  void meet() override {}
  void meet_after_update(const std::function<void(int rank)>& /*finish*/) override {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::byte* on_rank(int /*rank*/, std::byte* own) const override { return own; }
  void means_of(std::span<const float> values, const TakeMeans& take) const override {
    parallel_ranges(values.size(), elementwise_grain, [&](std::size_t begin, std::size_t end) {
      // Passes large ranges. Blocks would have no advantage: nothing was summed, so no block is in the cache.
      take(begin, values.subspan(begin, end - begin));
    });
  }
  void gather(std::span<float> /*values*/) const override {}

 private:
  Device& device_;
};

class SelfCommunicator final : public Communicator {
 public:
  explicit SelfCommunicator(Device& device) : device_(device), memory_(device) {}
  std::string_view name() const override { return "self"; }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Buffer allocate(std::size_t bytes) override { return device_.allocate(bytes); }
  void acquire(Stream& /*stream*/) override {}
  void start_allreduce_mean(std::span<float> /*bucket*/, Stream& /*stream*/) override {}
  void finish(Stream& /*stream*/) override {}
  void broadcast(std::span<float> /*values*/, int /*root*/) override {}
  void mean(std::span<float> /*values*/) override {}
  void all_gather(std::span<float> /*values*/, Stream& /*stream*/) override {}
  SharedHostMemory* shared_host_memory() override { return device_.kind() == DeviceKind::cpu ? &memory_ : nullptr; }
  bool capturable() const override { return true; }

 private:
  Device& device_;
  SelfMemory memory_;
};

}  // namespace

void Communicator::all_gather(std::span<float> /*values*/, Stream& /*stream*/) {
  fail(ExitCode::failed, "the communicator '{}' has no all_gather", name());
}

bool sums_as_one_tree(std::span<const int> hosts) {
  if (!std::ranges::is_sorted(hosts)) return false;
  const auto on_host = [&](int host) { return static_cast<std::size_t>(std::ranges::count(hosts, host)); };
  const std::size_t of_first = on_host(0);
  for (int host = 0; host < hosts.back(); ++host) {
    if (on_host(host) != of_first) return false;
  }
  return hosts.back() == 0 || (std::has_single_bit(of_first) && on_host(hosts.back()) <= of_first);
}

std::unique_ptr<Communicator> make_communicator(const Mpi& mpi, Device& device, std::string_view choice,
                                                WaitLimit limit, Averaging averaging) {
  require_one_kind(mpi, device);
  if (device.kind() == DeviceKind::cuda) {
    if constexpr (has_cuda) return make_cuda_communicator(mpi, device, choice, limit, averaging);
  }
  mpi.run_on_all([&] {
    if (choice == "nccl") fail(ExitCode::no_device, "--comm nccl requires GPUs; this rank uses a CPU");
  });
  if (mpi.size() == 1) return make_self_communicator(device);
  return make_host_communicator(mpi, mpi.hosts(), limit, averaging);
}

std::unique_ptr<Communicator> make_self_communicator(Device& device) {
  return std::make_unique<SelfCommunicator>(device);
}

std::string shared_gpus(const Mpi& mpi, Device& device) {
  if constexpr (has_cuda) {
    if (device.kind() == DeviceKind::cuda) return shared_cuda_gpus(mpi, device);
  }
  return {};
}

std::string shared_gpus(std::span<const GpuPlace> gpus) {
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> ranks;
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) ranks[{gpus[rank].host, gpus[rank].gpu}].push_back(rank);
  constexpr std::size_t max_listed = 4;  // a limit that keeps the line readable
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
