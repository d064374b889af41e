#include "carillon/step/tower.h"

#include <algorithm>
#include <chrono>

#include "carillon/core/error.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"

namespace carillon {
namespace {

Tensor target_tensor(const ParameterStore& store, StoreArray target, int parameter) {
  return target == StoreArray::values ? store.value(parameter) : store.average(parameter);
}

std::vector<NamedArray> named_arrays(const ParameterStore& store, Device& device, StoreArray target) {
  std::vector<NamedArray> arrays;
  for (std::size_t i = 0; i < store.specs().size(); ++i) {
    arrays.push_back({store.specs()[i].name, store.specs()[i].shape.extents(),
                      download_floats(device, target_tensor(store, target, static_cast<int>(i)))});
  }
  return arrays;
}

}  // namespace

void load_arrays(const std::vector<NamedArray>& arrays, ParameterStore& store, Device& device, StoreArray target,
                 const std::filesystem::path& path) {
  const std::string what = path.string();
  for (const NamedArray& array : arrays) {
    const bool known = std::any_of(store.specs().begin(), store.specs().end(),
                                   [&](const ParameterSpec& spec) { return spec.name == array.name; });
    if (!known) fail(ExitCode::data, "{} holds a variable '{}' that the model does not have", what, array.name);
  }
  for (std::size_t i = 0; i < store.specs().size(); ++i) {
    const ParameterSpec& spec = store.specs()[i];
    const auto found =
        std::find_if(arrays.begin(), arrays.end(), [&](const NamedArray& array) { return array.name == spec.name; });
    if (found == arrays.end()) fail(ExitCode::data, "{} lacks the model's variable '{}'", what, spec.name);
    if (found->shape != spec.shape.extents()) {
      fail(ExitCode::data, "{} holds '{}' of shape {}, the model's is {}", what, spec.name, Shape(found->shape).text(),
           spec.shape.text());
    }
    upload_floats(device, found->values, target_tensor(store, target, static_cast<int>(i)));
  }
}

Tower::Network Tower::build(const Model& model, const Settings& settings, DType activations) {
  Graph graph(settings.batch_size, activations);
  const Value logits = model.build(graph, settings.model);
  const Value loss = softmax_cross_entropy(graph, "cross_entropy", logits);
  return {std::move(graph), loss};
}

Tower::Tower(const Model& model, const Settings& settings, Device& device, Communicator& communicator)
    : Tower(build(model, settings, device.activation_type()), model, settings, device, communicator) {}

Tower::Tower(Network network, const Model& model, const Settings& settings, Device& device, Communicator& communicator)
    : device_(device),
      communicator_(communicator),
      graph_(std::move(network.graph)),
      loss_(network.loss),
      driver_(make_step_driver(device, communicator,
                               {.batch_size = static_cast<std::size_t>(settings.batch_size),
                                .image_bytes = model.schema.image_shape.bytes(),
                                .dataset = settings.dataset,
                                .capture = settings.capture})),
      parameters_(
          graph_.parameters(), device,
          communicator.allocate((ParameterLayout(graph_.parameters()).total() + step_sum_count) * sizeof(float))),
      executable_(graph_, device, parameters_, true, {loss_}, driver_->inputs()),
      reducer_(communicator, parameters_, settings.bucket_bytes),
      optimizer_(make_sgd(parameters_, device, executable_.inputs())) {}

void Tower::initialize(std::uint64_t seed) {
  for (std::size_t i = 0; i < parameters_.specs().size(); ++i) {
    const int parameter = static_cast<int>(i);
    const std::vector<float> values = initial_values(parameters_.specs()[i], parameter, seed);
    upload_floats(device_, values, parameters_.value(parameter));
    upload_floats(device_, values, parameters_.average(parameter));
  }
}

void Tower::load(const LoadedCheckpoint& checkpoint, bool variables_only) {
  const CheckpointState& state = checkpoint.state;
  load_arrays(state.variables, parameters_, device_, StoreArray::values, checkpoint.path);
  load_arrays(variables_only ? state.variables : state.moving_averages, parameters_, device_, StoreArray::averages,
              checkpoint.path);
}

void Tower::broadcast_from_first() {
  communicator_.broadcast(parameters_.values(), 0);
  communicator_.broadcast(parameters_.averages(), 0);
}

void Tower::enqueue_step(const std::function<void()>& before_update) {
  Stream& stream = device_.stream();
  executable_.forward(stream);
  reducer_.begin(stream);
  driver_->enqueue_sums(executable_.tensor(loss_), parameters_.step_sums(), stream);
  executable_.backward(stream, [&](int parameter) { reducer_.add(parameter, stream); });
  const auto backward_done = std::chrono::steady_clock::now();
  reducer_.finalize(stream);
  reduce_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - backward_done).count();
  if (before_update) before_update();
  optimizer_->apply(stream);
}

void Tower::step(const StepRequest& request) {
  driver_->step(executable_.inputs(), request,
                [this](const std::function<void()>& before_update) { enqueue_step(before_update); });
}

std::optional<StepResult> Tower::take_result(bool all) {
  std::optional<StepResult> result = driver_->take_result(all);
  if (result && device_.kind() == DeviceKind::cpu) result->reduce_seconds = reduce_seconds_;
  return result;
}

double Tower::l2_loss() {
  driver_->flush();
  return optimizer_->l2_loss(device_.stream());
}

void Tower::save(CheckpointState& state) const {
  driver_->flush();
  state.variables = named_arrays(parameters_, device_, StoreArray::values);
  state.moving_averages = named_arrays(parameters_, device_, StoreArray::averages);
}

}  // namespace carillon
