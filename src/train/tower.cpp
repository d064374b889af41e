#include "carillon/train/tower.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "carillon/core/error.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"

namespace carillon {
namespace {

// Places in ParameterStore::step_sums.
constexpr std::size_t cross_entropy_sum = 0;
constexpr std::size_t stop_sum = 1;

Tensor target_tensor(const ParameterStore& store, StoreArray target, int parameter) {
  return target == StoreArray::values ? store.value(parameter) : store.average(parameter);
}

std::vector<NamedArray> named_arrays(const ParameterStore& store, StoreArray target) {
  std::vector<NamedArray> arrays;
  for (std::size_t i = 0; i < store.specs().size(); ++i) {
    const std::span<const float> values = target_tensor(store, target, static_cast<int>(i)).floats();
    arrays.push_back({store.specs()[i].name, store.specs()[i].shape.extents(), {values.begin(), values.end()}});
  }
  return arrays;
}

}  // namespace

void load_arrays(const std::vector<NamedArray>& arrays, ParameterStore& store, StoreArray target,
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
    std::copy(found->values.begin(), found->values.end(),
              target_tensor(store, target, static_cast<int>(i)).floats().begin());
  }
}

Tower::Network Tower::build(const Model& model, const Settings& settings) {
  Graph graph(settings.batch_size);
  const Value logits = model.build(graph, settings.model);
  const Value loss = softmax_cross_entropy(graph, "cross_entropy", logits);
  return {std::move(graph), loss};
}

Tower::Tower(const Model& model, const Settings& settings, Device& device, Communicator& communicator)
    : Tower(build(model, settings), settings, device, communicator) {}

Tower::Tower(Network network, const Settings& settings, Device& device, Communicator& communicator)
    : device_(device),
      communicator_(communicator),
      graph_(std::move(network.graph)),
      loss_(network.loss),
      parameters_(
          graph_.parameters(), device,
          communicator.allocate((ParameterLayout(graph_.parameters()).total() + step_sum_count) * sizeof(float))),
      executable_(graph_, device, parameters_, true, {loss_}),
      reducer_(communicator, parameters_, settings.bucket_bytes),
      optimizer_(make_sgd(parameters_, device)) {}

void Tower::initialize(std::uint64_t seed) {
  for (std::size_t i = 0; i < parameters_.specs().size(); ++i) {
    const int parameter = static_cast<int>(i);
    const std::vector<float> values = initial_values(parameters_.specs()[i], parameter, seed);
    std::copy(values.begin(), values.end(), parameters_.value(parameter).floats().begin());
    std::copy(values.begin(), values.end(), parameters_.average(parameter).floats().begin());
  }
}

void Tower::load(const LoadedCheckpoint& checkpoint, bool variables_only) {
  const CheckpointState& state = checkpoint.state;
  load_arrays(state.variables, parameters_, StoreArray::values, checkpoint.path);
  load_arrays(variables_only ? state.variables : state.moving_averages, parameters_, StoreArray::averages,
              checkpoint.path);
}

void Tower::broadcast_from_first() {
  communicator_.broadcast(parameters_.values(), 0);
  communicator_.broadcast(parameters_.averages(), 0);
}

StepResult Tower::step(const Batch& batch, const UpdateStep& update, bool request_stop,
                       const std::function<void()>& before_update) {
  Stream& stream = device_.stream();
  executable_.inputs().batch = batch;
  executable_.forward(stream);

  reducer_.begin(stream);
  const std::span<float> sums = parameters_.step_sums();
  sums[cross_entropy_sum] = executable_.tensor(loss_).floats()[0];
  sums[stop_sum] = request_stop ? 1.0f : 0.0f;
  executable_.backward(stream, [&](int parameter) { reducer_.add(parameter, stream); });
  const auto backward_done = std::chrono::steady_clock::now();
  reducer_.finalize(stream);
  const std::chrono::duration<double> reducing = std::chrono::steady_clock::now() - backward_done;

  const StepResult result{sums[cross_entropy_sum], sums[stop_sum] > 0.0f, reducing.count()};
  if (!std::isfinite(result.cross_entropy)) return result;
  if (before_update) before_update();
  optimizer_->apply(update, stream);
  return result;
}

void Tower::save(CheckpointState& state) const {
  device_.stream().synchronize();
  state.variables = named_arrays(parameters_, StoreArray::values);
  state.moving_averages = named_arrays(parameters_, StoreArray::averages);
}

}  // namespace carillon
