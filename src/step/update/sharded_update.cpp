#include "src/step/update/sharded_update.h"

#include <algorithm>
#include <utility>

#include "carillon/core/error.h"

namespace carillon {
namespace {

SharedHostMemory& memory_of(Communicator& communicator) {
  SharedHostMemory* const memory = communicator.shared_host_memory();
  check(memory != nullptr, "a sharded update requires memory that all ranks share");
  return *memory;
}

/// The communicator's memory holds gradients, then variables: other ranks copy from it.
ParameterStore make_parameters(const UpdateContext& context, SharedHostMemory& memory) {
  const ParameterLayout layout(context.graph.parameters());
  const std::size_t of_gradients = gradient_bytes(layout, context.step_sums), of_values = value_bytes(layout);
  std::vector<Slot> slots = optimizer_slots(context.optimizer);
  Buffer own = context.communicator.allocate(of_gradients + of_values);
  Buffer values(static_cast<std::byte*>(own.data()) + of_gradients, of_values, [](void*) {});
  Buffer of_slots = memory.allocate(slots.size() * of_values);
  return {context.graph.parameters(), context.device,
          ParameterMemory{.gradients = std::move(own), .values = std::move(values), .slots = std::move(of_slots)},
          std::move(slots), context.step_sums};
}

}  // namespace

ShardedUpdate::ShardedUpdate(const UpdateContext& context)
    : device_(context.device),
      communicator_(context.communicator),
      memory_(memory_of(communicator_)),
      one_rank_(communicator_.size() == 1),
      parameters_(make_parameters(context, memory_)),
      reducer_(communicator_, parameters_, bucket_bytes_on(device_.kind(), context.bucket_bytes)),
      optimizer_(make_elementwise_optimizer(context.optimizer, parameters_, context.inputs)),
      end_{parameters_.step_sums().data(), context.inputs.progress},
      sums_(parameters_.step_sums().size()) {}

/// Rank 0 has written the shared slots before it sends the variables.
void ShardedUpdate::broadcast_from_first() { communicator_.broadcast(parameters_.values(), 0); }

void ShardedUpdate::begin_step(MeanGradients gradients) {
  gradients_ = gradients;
  allowed_.reset();
}

void ShardedUpdate::acquire(Stream& stream) {
  if (gradients_ == MeanGradients::readable) reducer_.begin(stream);
}

void ShardedUpdate::gradient_complete(int parameter, Stream& stream) {
  if (gradients_ == MeanGradients::readable) return reducer_.add(parameter, stream);
  if (!one_rank_) return;
  if (!allowed_) allowed_ = end_.allows_update();
  if (!*allowed_) return;
  const std::size_t offset = parameters_.layout().offset(parameter);
  memory_.means_of(parameters_.gradient(parameter).floats(), [&](std::size_t first, std::span<const float> means) {
    optimizer_->update_range(offset + first, means);
  });
}

void ShardedUpdate::enqueue_means() {
  if (gradients_ == MeanGradients::readable) {
    reducer_.finalize(device_.stream());
  } else if (!one_rank_) {
    average_and_update();
  }
}

void ShardedUpdate::average_and_update() {
  memory_.meet();
  // Other ranks read this rank's sums until the second barrier, so the means are stored elsewhere until then.
  memory_.means_of(parameters_.step_sums(), [&](std::size_t first, std::span<const float> means) {
    std::ranges::copy(means, sums_.begin() + static_cast<std::ptrdiff_t>(first));
  });
  const bool allowed = StepEnd{sums_.data(), {}}.allows_update();
  if (allowed) {
    const Slice shard = memory_.shard(parameters_.layout().total());
    const std::span<const float> gradients = parameters_.gradients_and_sums();
    memory_.means_of(
        gradients.subspan(shard.begin, shard.end - shard.begin),
        [&](std::size_t first, std::span<const float> means) { optimizer_->update_range(shard.begin + first, means); });
  }
  memory_.meet();
  if (allowed) memory_.gather(parameters_.values());
  std::ranges::copy(sums_, parameters_.step_sums().begin());
}

void ShardedUpdate::enqueue_update() {
  if (gradients_ == MeanGradients::update_only) return;  // done with the means
  memory_.meet();  // until here an observer on another rank may have read the old slots
  if (end_.allows_update()) {
    const Slice shard = memory_.shard(parameters_.layout().total());
    update_on_all_threads(*optimizer_, shard.begin,
                          parameters_.gradients_and_sums().subspan(shard.begin, shard.end - shard.begin));
  }
  memory_.meet();
  if (end_.allows_update()) memory_.gather(parameters_.values());
}

}  // namespace carillon
