#include "src/step/update/update_strategy.h"

#include "src/step/update/replicated_update.h"
#include "src/step/update/sharded_update.h"

namespace carillon {

std::unique_ptr<UpdateStrategy> make_update_strategy(const UpdateContext& context) {
  if (context.communicator.shared_host_memory() != nullptr && is_elementwise(context.optimizer)) {
    return std::make_unique<ShardedUpdate>(context);
  }
  return std::make_unique<ReplicatedUpdate>(context);
}

}  // namespace carillon
