#include "src/step/tower.h"

#include <algorithm>
#include <utility>

#include "carillon/core/error.h"
#include "src/step/tensor_io.h"
#include "src/step/tower_link.h"
#include "src/step/update/compute_copies.h"

namespace carillon {
namespace {

InputStageSpec input_stage_spec(const Network& network, const Graph& graph, const TowerSettings& settings,
                                Device& device) {
  const std::size_t batch_size = static_cast<std::size_t>(settings.batch_size), image_bytes = network.image.bytes();
  return {.batch_size = batch_size,
          .image_bytes = image_bytes,
          .target_bytes = graph.target_bytes(),
          .slots = input_stage_slots(device.kind(), batch_size, image_bytes),
          .dataset = settings.dataset};
}

/// Where the towers' update is a common one; nothing: each makes it for itself.
SharedHostMemory* memory_of_update(const OptimizerSettings& optimizer, Communicator& communicator) {
  return updates_elements_apart(optimizer) ? communicator.shared_host_memory() : nullptr;
}

MicroBatchForm micro_batch_form(const TowerSettings& settings, int towers) {
  const std::int64_t own = settings.batch_size / settings.micro_batch;
  return {.samples = settings.micro_batch, .own_count = own, .total_count = own * towers};
}

std::int64_t samples_at_once(const TowerSettings& settings) {
  return settings.micro_batch > 0 ? settings.micro_batch : settings.batch_size;
}

/// With micro-batches the buffers are averaged in each step.
std::size_t sum_count(const Graph& graph, const TowerSettings& settings) {
  return settings.micro_batch > 0 ? step_sums_with(graph.buffers()) : step_sum_count;
}

ParameterMemory parameter_memory(const Graph& graph, const TowerSettings& settings, Device& device,
                                 Communicator& communicator) {
  const OptimizerSettings& optimizer = settings.optimizer;
  const ParameterLayout layout(graph.parameters());
  const std::size_t of_gradients = gradient_bytes(layout, sum_count(graph, settings)), of_values = value_bytes(layout);
  SharedHostMemory* const common = memory_of_update(optimizer, communicator);
  if (common == nullptr) {
    return {.gradients = communicator.allocate(of_gradients), .compute_copies = make_compute_copies(graph, device)};
  }
  Buffer own = communicator.allocate(of_gradients + of_values);  // where peers gather from
  Buffer values(static_cast<std::byte*>(own.data()) + of_gradients, of_values, [](void*) {});
  return {.gradients = std::move(own),
          .values = std::move(values),
          .slots = common->allocate(optimizer_slots(optimizer).size() * of_values)};
}

std::optional<ShardedUpdate> sharded_update(const OptimizerSettings& settings, Communicator& communicator,
                                            const ParameterStore& parameters, Optimizer& optimizer) {
  SharedHostMemory* const common = memory_of_update(settings, communicator);
  if (common == nullptr) return std::nullopt;
  return ShardedUpdate(*common, communicator.size(), parameters, optimizer);
}

std::optional<BufferLookahead> buffer_lookahead(const OptimizerSettings& optimizer, const BufferStore& buffers,
                                                Device& device, const StepInputs& inputs) {
  if (optimizer.lookahead.every == 0 || buffers.specs().empty()) return std::nullopt;
  return std::make_optional<BufferLookahead>(buffers, device, inputs);
}

const std::vector<NamedArray>& arrays_of_slot(const CheckpointState& state, const std::string& slot,
                                              const std::filesystem::path& path) {
  if (slot == moving_average_slot) return state.moving_averages;
  const auto found = state.optimizer.find(slot);
  if (found == state.optimizer.end()) {
    fail(ExitCode::data, "{} lacks the optimiser's '{}': it was trained with another one", path.string(), slot);
  }
  return found->second;
}

}  // namespace

Averaging averaging_of(const TowerSettings& settings, int towers) {
  if (settings.micro_batch == 0) return {.wire = settings.wire};
  return {.order = SumOrder::tree, .divisor = micro_batch_form(settings, towers).total_count};
}

Tower::Tower(const Network& network, const Task& task, const TowerSettings& settings, Device& device,
             Communicator& communicator)
    : device_(device),
      communicator_(communicator),
      optimizer_settings_(settings.optimizer),
      network_(network),
      task_(task),
      built_(build_network(network, task,
                           {samples_at_once(settings), settings.arithmetic, Purpose::training, device.kind()})),
      input_stage_spec_(input_stage_spec(network, graph(), settings, device)),
      input_stage_(make_input_stage(device, input_stage_spec_)),
      parameters_(graph().parameters(), device, parameter_memory(graph(), settings, device, communicator),
                  optimizer_slots(settings.optimizer), sum_count(graph(), settings)),
      buffers_(graph().buffers(), device),
      buffer_lookahead_(buffer_lookahead(settings.optimizer, buffers_, device, input_stage_->inputs())),
      link_(network.sync_batch_norm ? std::make_unique<CommunicatorLink>(communicator) : nullptr),
      executable_(settings.micro_batch > 0 ? nullptr : make_executable()),
      micro_batches_(settings.micro_batch == 0
                         ? nullptr
                         : std::make_unique<MicroBatches>(built_, micro_batch_form(settings, communicator.size()),
                                                          network.image.bytes(), parameters_, buffers_, device)),
      reducer_(communicator, parameters_, bucket_bytes_on(device.kind(), settings.bucket_bytes)),
      optimizer_(make_optimizer(settings.optimizer, parameters_, device, input_stage_->inputs())),
      trained_steps_(trained_steps(settings.optimizer, graph().parameters())),
      trains_(graph().parameters().size(), true),
      sharded_update_(sharded_update(settings.optimizer, communicator, parameters_, *optimizer_)),
      step_({.executable = executable_.get(),
             .loss = built_.loss,
             .parameters = parameters_,
             .reducer = reducer_,
             .optimizer = *optimizer_,
             .inputs = input_stage_->inputs(),
             .common = sharded_update_ ? &*sharded_update_ : nullptr,
             .micro_batches = micro_batches_.get(),
             .lookahead = buffer_lookahead_ ? &*buffer_lookahead_ : nullptr,
             .result_scale = communicator.result_scale()}),
      driver_(make_step_driver({device, communicator, *input_stage_, step_, parameters_}, input_stage_spec_,
                               settings.capture)) {
  check(!network.sync_batch_norm || (device.kind() == DeviceKind::cpu && settings.micro_batch == 0),
        "batch norms over all towers were asked of GPUs, or of micro-batches");
  device_.check_while_waiting([&communicator] { communicator.check_peers(); });
}

Tower::~Tower() { device_.check_while_waiting({}); }

std::unique_ptr<Executable> Tower::make_executable() {
  const ExecutableContext context{device_, parameters_, buffers_, input_stage_->inputs(), link_.get(), built_.loss};
  return std::make_unique<Executable>(graph(), context, true, std::vector<Value>{built_.loss});
}

void Tower::compute_gradients_for(std::int64_t step) {
  if (device_.kind() != DeviceKind::cpu) return;
  std::vector<bool> trains;
  for (const TrainedSteps& steps : trained_steps_) trains.push_back(steps.contain(step));
  if (trains == trains_) return;
  trains_ = std::move(trains);
  built_.graph.want_gradients_of(trains_);
  if (micro_batches_) {
    micro_batches_->run_in(built_);
    return;
  }
  executable_.reset();  // before there is memory for another one
  executable_ = make_executable();
  step_.run_in(executable_.get());
}

void Tower::check_fills_slots() const {
  check(communicator_.rank() == 0 || has_own_slots(), "common slots were to be filled on another rank than the first");
}

void Tower::initialize(std::uint64_t seed, const std::vector<GivenValues>& given) {
  check_fills_slots();
  const std::vector<ParameterSpec>& specs = parameters_.specs();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    upload_floats(device_, initial_values(specs[i], seed), parameters_.value(static_cast<int>(i)));
  }
  for (const GivenValues& own : given) {
    const auto spec = std::ranges::find(specs, own.variable, &ParameterSpec::name);
    check(spec != specs.end() && static_cast<std::int64_t>(own.values.size()) == spec->shape.element_count(),
          "initial values were given for a variable that the network does not have in that size");
    upload_floats(device_, own.values, parameters_.value(static_cast<int>(spec - specs.begin())));
  }
  begin_slots();
}

void Tower::begin_slots() {
  const std::vector<NamedArray> variables = download(variables_of(parameters_), device_);
  for (std::size_t slot = 0; slot < parameters_.slots().size(); ++slot) {
    if (!parameters_.slots()[slot].starts_as_values) continue;
    upload(variables, slot_of(parameters_, static_cast<int>(slot)), device_, {});
  }
  if (buffer_lookahead_) copy_floats(device_, buffers_.values(), buffer_lookahead_->slow().values());
}

NamedTensors Tower::saved_slot(std::size_t slot) const {
  NamedTensors named = slot_of(parameters_, static_cast<int>(slot));
  if (!buffer_lookahead_ || parameters_.slots()[slot].name != lookahead_slot) return named;
  const NamedTensors slow = buffers_of(buffer_lookahead_->slow());
  named.names.insert(named.names.end(), slow.names.begin(), slow.names.end());
  named.tensors.insert(named.tensors.end(), slow.tensors.begin(), slow.tensors.end());
  return named;
}

std::size_t Tower::saved_floats() const {
  const std::size_t state_copies = buffer_lookahead_ ? 2 : 1;
  return parameters_.values().size() * (1 + parameters_.slots().size()) + buffers_.values().size() * state_copies;
}

void Tower::restore(const LoadedCheckpoint& checkpoint) {
  check_fills_slots();
  for (const auto& [name, arrays] : checkpoint.state.optimizer) {
    const auto is_kept = [&, &slot_name = name](const Slot& slot) { return slot.name == slot_name; };
    if (std::ranges::none_of(parameters_.slots(), is_kept)) {
      fail(ExitCode::data, "{} holds the optimiser's '{}', which this one does not keep", checkpoint.path.string(),
           name);
    }
  }
  upload(checkpoint.state.variables, variables_of(parameters_), device_, checkpoint.path);
  for (std::size_t slot = 0; slot < parameters_.slots().size(); ++slot) {
    upload(arrays_of_slot(checkpoint.state, parameters_.slots()[slot].name, checkpoint.path), saved_slot(slot), device_,
           checkpoint.path);
  }
  upload(checkpoint.state.buffers, buffers_of(buffers_), device_, checkpoint.path);
}

void Tower::initialize_from(const LoadedCheckpoint& checkpoint) {
  check_fills_slots();
  upload(checkpoint.state.variables, variables_of(parameters_), device_, checkpoint.path);
  upload(checkpoint.state.buffers, buffers_of(buffers_), device_, checkpoint.path);
  begin_slots();
}

void Tower::broadcast_from_first() {
  communicator_.broadcast(parameters_.values(), 0);
  if (has_own_slots()) {  // else rank 0 wrote them before its values went out
    for (std::size_t slot = 0; slot < parameters_.slots().size(); ++slot) {
      communicator_.broadcast(parameters_.slot(static_cast<int>(slot)), 0);
    }
  }
  refresh_compute_copies(parameters_, device_);
  if (!buffers_.specs().empty()) communicator_.broadcast(buffers_.values(), 0);
  if (buffer_lookahead_) communicator_.broadcast(buffer_lookahead_->slow().values(), 0);
  buffers_are_synchronized_ = true;
}

void Tower::step(const TowerStep& step) {
  compute_gradients_for(step.step);
  buffers_are_synchronized_ = micro_batches_ != nullptr;  // in the step itself
  driver_->take({.step = step.step,
                 .inputs = {.batch = step.batch,
                            .scalars = step_scalars(optimizer_settings_, step.step),
                            .request_sync = step.request_sync,
                            .tells_l2 = step.tells_l2},
                 .before_update = step.before_update});
}

void Tower::synchronize_buffers() {
  driver_->flush();
  if (std::exchange(buffers_are_synchronized_, true)) return;  // a mean of means may round differently
  const auto join = [this](const BufferStore& buffers) {
    for (std::size_t i = 0; i < buffers.specs().size(); ++i) {
      const Tensor state = buffers.tensor(static_cast<int>(i));
      if (buffers.specs()[i].across_ranks == AcrossRanks::mean) communicator_.mean(state.floats());
      communicator_.broadcast(state.floats(), 0);
    }
  };
  join(buffers_);
  if (buffer_lookahead_) join(buffer_lookahead_->slow());
}

void Tower::save(CheckpointState& state) const {
  driver_->flush();
  state.variables = download(variables_of(parameters_), device_);
  for (std::size_t slot = 0; slot < parameters_.slots().size(); ++slot) {
    const std::string& name = parameters_.slots()[slot].name;
    std::vector<NamedArray> arrays = download(saved_slot(slot), device_);
    (name == moving_average_slot ? state.moving_averages : state.optimizer[name]) = std::move(arrays);
  }
  state.buffers = download(buffers_of(buffers_), device_);
}

}  // namespace carillon
