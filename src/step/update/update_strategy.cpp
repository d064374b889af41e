#include "src/step/update/update_strategy.h"

#include <omp.h>

#include <algorithm>

#include "kernels/shared/convert.h"
#include "src/core/has_cuda.h"
#include "src/optim/optimizer.h"
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

namespace {

/// Makes the compute copy of a parameter of this shape. If the op reads the parameter itself, the result has no tensor.
/// `input`: shape of input 0 of the op that reads the parameter.
ComputeCopy make_compute_copy(const Shape& shape, ComputeCopyFormat form, DType type, const Shape& input,
                              Device& device) {
  if (form == ComputeCopyFormat::none || (form == ComputeCopyFormat::same_layout && type == DType::f32)) return {};
  ComputeCopy compute_copy{.tensor = {nullptr, shape, type}, .form = form};
  if (form == ComputeCopyFormat::filter_major) {
    compute_copy.padding = channel_padding(shape, input);
    const std::int64_t columns = shape.extents().back(), rows = shape.element_count() / columns;
    compute_copy.tensor.shape = {columns, compute_copy.padding.extent(rows)};
  }
  // The update writes lines of 16 elements, so the memory holds whole lines.
  const std::size_t count = static_cast<std::size_t>(compute_copy.tensor.shape.element_count());
  compute_copy.memory = device.allocate(aligned_float_count(count) * size_of(type));
  compute_copy.tensor.data = compute_copy.memory.data();
  return compute_copy;
}

bool are_equal(const ComputeCopy& a, const ComputeCopy& b) {
  return a.form == b.form && a.tensor.shape == b.tensor.shape && a.tensor.type == b.tensor.type &&
         a.padding.channels == b.padding.channels && a.padding.padded == b.padding.padded;
}

}  // namespace

std::vector<ComputeCopy> make_compute_copies(const Graph& graph, Device& device) {
  std::vector<ComputeCopy> compute_copies;
  if (device.kind() != DeviceKind::cuda) return compute_copies;
  compute_copies.resize(graph.parameters().size());
  std::vector<bool> is_made(graph.parameters().size());
  for (const Graph::Node& node : graph.nodes()) {
    if (node.inputs.empty() || node.traits.compute_copy_format == nullptr) continue;
    const Graph::ValueInfo& input = graph.values()[node.inputs[0]];
    for (std::size_t i = 0; i < node.parameters.size(); ++i) {
      const auto parameter = static_cast<std::size_t>(node.parameters[i]);
      const ComputeCopyFormat form = node.traits.compute_copy_format(static_cast<int>(i));
      ComputeCopy copy = make_compute_copy(graph.parameters()[parameter].shape, form, input.type, input.shape, device);
      if (is_made[parameter] && !are_equal(copy, compute_copies[parameter])) {
        compute_copies[parameter] = {};  // ops that share the parameter read it in different formats
      } else if (!is_made[parameter]) {
        compute_copies[parameter] = std::move(copy);
      }
      is_made[parameter] = true;
    }
  }
  // If there are no compute copies, returns an empty list, so that the update does not check each parameter.
  if (std::ranges::none_of(compute_copies, [](const ComputeCopy& c) { return bool(c.tensor); })) return {};
  return compute_copies;
}

void refresh_compute_copies(const ParameterStore& parameters, Device& device) {
  if constexpr (has_cuda) {
    for (std::size_t i = 0; i < parameters.compute_copies().size(); ++i) {
      const ComputeCopy& compute_copy = parameters.compute_copies()[i];
      if (!compute_copy.tensor) continue;
      const Tensor value = parameters.value(static_cast<int>(i));
      if (compute_copy.form == ComputeCopyFormat::same_layout) {
        convert_cuda(value, compute_copy.tensor, device.stream());
      } else {
        const std::int64_t columns = compute_copy.tensor.shape[0];
        transpose_cuda({.from = value, .to = compute_copy.tensor, .to_padding = compute_copy.padding},
                       value.shape.element_count() / columns, columns, device.stream());
      }
    }
  }
}

}  // namespace carillon
