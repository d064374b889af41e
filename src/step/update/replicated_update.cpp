#include "src/step/update/replicated_update.h"

#include "src/optim/element_kernels.h"
#include "src/step/update/compute_copies.h"

namespace carillon {
namespace {

ParameterStore make_parameters(const UpdateContext& context) {
  const std::size_t bytes = gradient_bytes(ParameterLayout(context.graph.parameters()), context.step_sums);
  return {context.graph.parameters(), context.device,
          ParameterMemory{.gradients = context.communicator.allocate(bytes),
                          .compute_copies = make_compute_copies(context.graph, context.device)},
          optimizer_slots(context.optimizer), context.step_sums};
}

}  // namespace

ReplicatedUpdate::ReplicatedUpdate(const UpdateContext& context, const MakeOptimizer& make)
    : device_(context.device),
      communicator_(context.communicator),
      parameters_(make_parameters(context)),
      reducer_(communicator_, parameters_, bucket_bytes_on(device_.kind(), context.bucket_bytes)),
      optimizer_(make(context.optimizer, parameters_, device_, context.inputs, context.graph.arithmetic())),
      end_{parameters_.step_sums().data(), context.inputs.progress},
      clips_(context.optimizer.clip_norm > 0.0),
      gate_(context.gate) {}

void ReplicatedUpdate::broadcast_from_first() {
  communicator_.broadcast(parameters_.values(), 0);
  for (std::size_t slot = 0; slot < parameters_.slots().size(); ++slot) {
    communicator_.broadcast(parameters_.slot(static_cast<int>(slot)), 0);
  }
  refresh_compute_copies(parameters_, device_);
}

void ReplicatedUpdate::gradient_complete(int parameter, Stream& stream) { reducer_.add(parameter, stream); }

void ReplicatedUpdate::enqueue_means() {
  reducer_.finalize(device_.stream());
  end_.result_scale = communicator_.result_scale();
  if (gradients_ == MeanGradients::update_only || end_.result_scale == 1.0f) return;
  enqueue_scale(parameters_.gradients_and_sums(), end_.result_scale, device_);
  end_.result_scale = 1.0f;
}

void ReplicatedUpdate::enqueue_update() {
  if (gate_ != nullptr && device_.kind() == DeviceKind::cpu) gate_->enter();
  is_updating_ = true;
  optimizer_->apply(end_, device_.stream());
  is_updating_ = false;
}

std::optional<double> ReplicatedUpdate::gradient_norm() const {
  if (!clips_ || device_.kind() != DeviceKind::cpu || !end_.allows_update()) return std::nullopt;
  return optimizer_->gradient_norm();
}

}  // namespace carillon
