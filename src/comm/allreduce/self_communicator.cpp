#include "carillon/core/parallel.h"
#include "src/comm/allreduce/communicators.h"
#include "src/comm/allreduce/shared_host_memory.h"

namespace carillon {
namespace {

/// SharedHostMemory of a single rank, whose shard is the whole array.
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
      take(begin, values.subspan(begin, end - begin));  // in place: nothing was summed, so no block is in the cache
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

std::unique_ptr<Communicator> make_self_communicator(Device& device) {
  return std::make_unique<SelfCommunicator>(device);
}

}  // namespace carillon
