#include "src/step/update/update_strategy.h"

#include <omp.h>

#include "src/step/update/replicated_update.h"
#include "src/step/update/sharded_update.h"

namespace carillon {
namespace {

bool is_sharded(const OptimizerSettings& optimizer, Communicator& communicator) {
  return communicator.shared_host_memory() != nullptr && is_elementwise(optimizer);
}

}  // namespace

std::unique_ptr<UpdateStrategy> make_update_strategy(const UpdateContext& context) {
  if (is_sharded(context.optimizer, context.communicator)) return std::make_unique<ShardedUpdate>(context);
  return std::make_unique<ReplicatedUpdate>(context);
}

std::size_t shared_bytes(std::size_t parameter_count, const OptimizerSettings& optimizer, const Device& device,
                         Communicator& communicator) {
  if (communicator.size() == 1 || device.kind() != DeviceKind::cpu) return 0;
  const std::size_t gradients = parameter_count * sizeof(float);
  if (!is_sharded(optimizer, communicator)) return gradients;
  const std::size_t slots = optimizer_slots(optimizer).size();
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const std::size_t log = ShardLog::bytes({.count = parameter_count,
                                           .slots = slots,
                                           .ranks = ranks,
                                           .threads = static_cast<std::size_t>(omp_get_max_threads())});
  const std::size_t sums = optimizer.clip_norm > 0.0 ? ShardNorm::bytes(parameter_count) : 0;
  return 2 * gradients + slots * gradients / ranks + log + sums;
}

}  // namespace carillon
