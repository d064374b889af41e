#include "src/step/tower.h"

#include <algorithm>
#include <utility>

#include "carillon/core/error.h"
#include "src/core/crc32c.h"
#include "src/core/has_cuda.h"
#include "src/core/text.h"
#include "src/step/gradients/micro_batches.h"
#include "src/step/tensor_io.h"

namespace carillon {

/// Lets ops of all ranks communicate within a pass, through the communicator.
class CommunicatorLink final : public TowerLink {
 public:
  /// The objects that the arguments refer to outlive this object.
  CommunicatorLink(Communicator& communicator, Device& device) : communicator_(communicator), device_(device) {}

  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  /// After this call, rank r works on the batch of rank batches[r]. Empty: each rank works on its own batch.
  void set_batches(std::vector<int> batches) { batches_ = std::move(batches); }

  std::vector<double> gather(std::span<const double> own) override {
    // A double is sent as two floats with the same bits. Each rank's part has the length of its all-gather slice.
    const std::size_t part = aligned_float_count(own.size_bytes() / sizeof(float));
    const auto towers = static_cast<std::size_t>(size());
    floats_.resize(part * towers);
    std::memcpy(floats_.data() + part * static_cast<std::size_t>(communicator_.rank()), own.data(), own.size_bytes());
    communicator_.all_gather(floats_, device_.stream());
    std::vector<double> all(own.size() * towers);
    for (std::size_t tower = 0; tower < towers; ++tower) {
      const std::size_t batch = batches_.empty() ? tower : static_cast<std::size_t>(batches_[tower]);
      std::memcpy(all.data() + own.size() * batch, floats_.data() + part * tower, own.size_bytes());
    }
    return all;
  }

  void gather_rows(std::span<float> rows, Stream& stream) override { communicator_.all_gather(rows, stream); }

 private:
  Communicator& communicator_;
  Device& device_;
  std::vector<float> floats_;
  std::vector<int> batches_;
};

namespace {

/// The number of forward and backward passes in a step.
std::uint32_t passes(const TowerSettings& settings) {
  return settings.micro_batch > 0 ? static_cast<std::uint32_t>(settings.batch_size / settings.micro_batch) : 1;
}

InputStageSpec input_stage_spec(const Network& network, const Graph& graph, const TowerSettings& settings,
                                Device& device) {
  const std::size_t batch_size = static_cast<std::size_t>(settings.batch_size), image_bytes = network.image.bytes();
  return {.batch_size = batch_size,
          .image_bytes = image_bytes,
          .target_bytes = graph.target_bytes(),
          .slots = input_stage_slots(device.kind(), batch_size, image_bytes, passes(settings)),
          .dataset = settings.dataset};
}

MicroBatchForm micro_batch_form(const TowerSettings& settings, int towers) {
  const std::int64_t own = settings.batch_size / settings.micro_batch;
  return {.samples = settings.micro_batch, .own_count = own, .total_count = own * towers};
}

std::int64_t samples_at_once(const TowerSettings& settings) {
  return settings.micro_batch > 0 ? settings.micro_batch : settings.batch_size;
}

/// Returns the number of step sums. With micro-batches, the step sums include the buffers, so that each step averages
/// the buffers.
std::size_t sum_count(const Graph& graph, const TowerSettings& settings) {
  return settings.micro_batch > 0 ? step_sums_with(graph.buffers()) : step_sum_count;
}

std::unique_ptr<GradientSource> make_source(const GradientSourceContext& context, const TowerSettings& settings,
                                            int ranks, std::size_t image_bytes) {
  if (settings.micro_batch == 0) return make_whole_batch(context);
  const MicroBatchForm form = micro_batch_form(settings, ranks);
  if constexpr (has_cuda) {
    if (context.device.kind() == DeviceKind::cuda) return make_cuda_micro_batches(context, form);
  }
  return std::make_unique<MicroBatches>(context, form, image_bytes);
}

const std::vector<NamedArray>& arrays_of_slot(const CheckpointState& state, const std::string& slot,
                                              const std::filesystem::path& path) {
  if (slot == moving_average_slot) return state.moving_averages;
  const auto found = state.optimizer.find(slot);
  if (found == state.optimizer.end()) {
    const std::string trained = slot == lookahead_slot ? "without --lookahead-every" : "with another --optimizer";
    fail(ExitCode::data, "{}: was trained {} (it lacks the optimiser slot '{}'): choose another --train-dir",
         path.string(), trained, slot);
  }
  return found->second;
}

/// A sink that ignores all calls.
class NullSink final : public GradientSink {
 public:
  void acquire(Stream& /*stream*/) override {}
  void gradient_complete(int /*parameter*/, Stream& /*stream*/) override {}
};

}  // namespace

Averaging averaging_of(const TowerSettings& settings, int ranks) {
  if (settings.micro_batch == 0) return {.wire = settings.wire};
  return {.order = SumOrder::tree, .divisor = micro_batch_form(settings, ranks).total_count};
}

Tower::Tower(const Network& network, const Task& task, const TowerSettings& settings, Device& device,
             Communicator& communicator)
    : device_(device),
      communicator_(communicator),
      optimizer_settings_(settings.optimizer),
      slots_(optimizer_slots(settings.optimizer)),
      network_(network),
      task_(task),
      built_(build_network(network, task,
                           {samples_at_once(settings), settings.arithmetic, Purpose::training, device.kind()})),
      input_stage_spec_(input_stage_spec(network, graph(), settings, device)),
      input_stage_(make_input_stage(device, input_stage_spec_)),
      buffers_(graph().buffers(), device),
      buffer_lookahead_(settings.optimizer.lookahead, buffers_, device, input_stage_->inputs()),
      completed_buffers_(device.kind() == DeviceKind::cpu ? buffers_.specs() : std::vector<BufferSpec>(), device),
      completed_slow_(device.kind() == DeviceKind::cpu ? buffer_lookahead_.slow().specs() : std::vector<BufferSpec>(),
                      device),
      link_(network.sync_batch_norm ? std::make_unique<CommunicatorLink>(communicator, device) : nullptr),
      update_(settings.make_update({.graph = graph(),
                                    .optimizer = optimizer_settings_,
                                    .device = device,
                                    .communicator = communicator,
                                    .inputs = input_stage_->inputs(),
                                    .step_sums = sum_count(graph(), settings),
                                    .bucket_bytes = settings.bucket_bytes,
                                    .gate = &gate_})),
      source_(make_source({built_, device, parameters(), buffers_, input_stage_->inputs(), link_.get()}, settings,
                          communicator.size(), network.image.bytes())),
      trained_steps_(trained_steps(settings.optimizer, graph().parameters())),
      trains_(graph().parameters().size(), true),
      step_(*source_, *update_, buffer_lookahead_),
      driver_(make_step_driver({device, communicator, *input_stage_, step_}, input_stage_spec_, settings.capture)) {
  check(!network.sync_batch_norm || settings.micro_batch == 0, "sync_batch_norm requires whole batches");
  device_.check_while_waiting([&communicator] { communicator.check_peers(); });
}

TowerLink* Tower::link() const { return link_.get(); }

Tower::~Tower() { device_.check_while_waiting({}); }

void Tower::compute_gradients_for(std::int64_t step) {
  if (device_.kind() != DeviceKind::cpu) return;
  std::vector<bool> trains;
  for (const TrainedSteps& steps : trained_steps_) trains.push_back(steps.contain(step));
  if (trains == trains_) return;
  trains_ = std::move(trains);
  built_.graph.want_gradients_of(trains_);
  source_->rebuild();
}

void Tower::check_may_write_slots() const {
  check(communicator_.rank() == 0 || update_->replicates_slots(), "only rank 0 may write slots that ranks share");
}

void Tower::initialize(std::uint64_t seed, const std::vector<GivenValues>& given) {
  check_may_write_slots();
  const std::vector<ParameterSpec>& specs = parameters().specs();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    upload_floats(device_, initial_values(specs[i], seed), parameters().value(static_cast<int>(i)));
  }
  replace(given);
}

void Tower::replace(const std::vector<GivenValues>& given) {
  check_may_write_slots();
  const std::vector<ParameterSpec>& specs = parameters().specs();
  for (const GivenValues& own : given) {
    const auto buffer = std::ranges::find(buffers_.specs(), own.variable, &BufferSpec::name);
    if (buffer != buffers_.specs().end()) {
      const Tensor tensor = buffers_.tensor(static_cast<int>(buffer - buffers_.specs().begin()));
      check(static_cast<std::int64_t>(own.values.size()) == tensor.shape.element_count(),
            "initial values of a buffer have another size");
      upload_floats(device_, own.values, tensor);
      continue;
    }
    const auto spec = std::ranges::find(specs, own.variable, &ParameterSpec::name);
    check(spec != specs.end() && static_cast<std::int64_t>(own.values.size()) == spec->shape.element_count(),
          "initial values for an unknown variable, or of another size");
    upload_floats(device_, own.values, parameters().value(static_cast<int>(spec - specs.begin())));
  }
  begin_slots();
}

void Tower::begin_slots() {
  const std::vector<NamedArray> variables = download(variables_of(parameters()), device_);
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot].starts_as_values) continue;
    upload(variables, parts_of(update_->slot(static_cast<int>(slot)), parameters()), device_, {});
  }
  buffer_lookahead_.begin();
}

std::vector<NamedTensor> Tower::saved_slot(std::size_t slot, const BufferStore& slow) const {
  std::vector<NamedTensor> named = parts_of(update_->slot(static_cast<int>(slot)), parameters());
  if (slots_[slot].name != lookahead_slot) return named;
  for (NamedTensor& buffer : buffers_of(slow)) named.push_back(std::move(buffer));
  return named;
}

void Tower::copy_completed_buffers() {
  if (device_.kind() != DeviceKind::cpu) return;
  gate_.enter();
  std::ranges::copy(buffers_.values(), completed_buffers_.values().begin());
  std::ranges::copy(buffer_lookahead_.slow().values(), completed_slow_.values().begin());
}

std::span<float> Tower::moving_averages() const {
  if (!optimizer_settings_.keeps_averages()) return parameters().values();
  const auto found = std::ranges::find(slots_, moving_average_slot, &Slot::name);
  return update_->slot(static_cast<int>(found - slots_.begin()));
}

std::size_t Tower::saved_floats() const {
  const std::size_t arrays =
      1 + slots_.size() + (optimizer_settings_.keeps_averages() ? 0 : 1);  // a checkpoint always contains moving
                                                                           // averages
  return parameters().values().size() * arrays + buffers_.values().size() + buffer_lookahead_.slow().values().size();
}

void Tower::restore(const LoadedCheckpoint& checkpoint) {
  check_may_write_slots();
  for (const auto& [name, arrays] : checkpoint.state.optimizer) {
    const auto is_kept = [&, &slot_name = name](const Slot& slot) { return slot.name == slot_name; };
    if (std::ranges::none_of(slots_, is_kept)) {
      const std::string trained = name == lookahead_slot ? "with --lookahead-every" : "with another --optimizer";
      fail(ExitCode::data,
           "{}: was trained {} (it has the optimiser slot '{}'): repeat it, or choose another --train-dir",
           checkpoint.path.string(), trained, printable(name));
    }
  }
  upload(checkpoint.state.variables, variables_of(parameters()), device_, checkpoint.path);
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    upload(arrays_of_slot(checkpoint.state, slots_[slot].name, checkpoint.path),
           saved_slot(slot, buffer_lookahead_.slow()), device_, checkpoint.path);
  }
  upload(checkpoint.state.buffers, buffers_of(buffers_), device_, checkpoint.path);
  buffer_lookahead_.begin_equal();
}

void Tower::initialize_from(const LoadedCheckpoint& checkpoint) {
  check_may_write_slots();
  upload(checkpoint.state.variables, variables_of(parameters()), device_, checkpoint.path);
  upload(checkpoint.state.buffers, buffers_of(buffers_), device_, checkpoint.path);
  begin_slots();
}

void Tower::broadcast_from_first() {
  update_->broadcast_from_first();
  const BufferStore& slow = buffer_lookahead_.slow();
  if (!buffers_.specs().empty()) communicator_.broadcast(buffers_.values(), 0);
  if (!slow.specs().empty()) communicator_.broadcast(slow.values(), 0);
  buffers_are_synchronized_ = true;
  copy_completed_buffers();
  gate_.leave();
}

void Tower::step(StepRequest request) {
  compute_gradients_for(request.step);
  buffers_are_synchronized_ = source_->averages_buffers();
  request.scalars = step_scalars(optimizer_settings_, request.step, request.schedule_step.value_or(request.step));
  driver_->enqueue(request);
  copy_completed_buffers();
  ++completed_steps_;
  gate_.leave();
}

std::function<void(int)> Tower::storing_in(GradientChecksums& checksums) const {
  checksums.assign(parameters().specs().size(), 0);
  return [this, &checksums](int variable) {
    if (!trains_[static_cast<std::size_t>(variable)]) return;
    const std::span<const float> gradient = parameters().gradient(variable).floats();
    checksums[static_cast<std::size_t>(variable)] = crc32c(std::as_bytes(gradient));
  };
}

GradientChecksums Tower::gradient_checksums(std::int64_t step, const Batch& batch, const std::vector<int>& batches) {
  check(device_.kind() == DeviceKind::cpu, "checksums of gradients require a CPU");
  compute_gradients_for(step);
  const std::vector<float> buffers(buffers_.values().begin(), buffers_.values().end());
  GradientChecksums checksums;
  input_stage_->write(0, {.batch = batch, .scalars = step_scalars(optimizer_settings_, step)});
  if (link_) link_->set_batches(batches);
  NullSink null_sink;
  ObservedSink sink(null_sink, storing_in(checksums));
  source_->enqueue(sink);
  if (link_) link_->set_batches({});
  std::ranges::copy(buffers, buffers_.values().begin());
  return checksums;
}

void Tower::synchronize_buffers() {
  driver_->flush();
  update_->synchronize();
  // The buffers are equal already. A second mean could round to another value.
  if (std::exchange(buffers_are_synchronized_, true)) return;
  const auto synchronize = [this](const BufferStore& buffers) {
    for (std::size_t i = 0; i < buffers.specs().size(); ++i) {
      const Tensor state = buffers.tensor(static_cast<int>(i));
      // Does not average equal values, because their mean may round to another value.
      if (buffers.specs()[i].across_ranks == AcrossRanks::equal) continue;
      if (buffers.specs()[i].across_ranks == AcrossRanks::mean) communicator_.mean(state.floats());
      communicator_.broadcast(state.floats(), 0);
    }
  };
  synchronize(buffers_);
  synchronize(buffer_lookahead_.slow());
  copy_completed_buffers();
  gate_.leave();
}

Tower::RankBuffers Tower::rank_buffers() {
  driver_->flush();
  if (buffers_are_synchronized_ || communicator_.size() == 1) return {.are_synchronized = true};
  return {.values = download(buffers_of(buffers_), device_),
          .slow = download(buffers_of(buffer_lookahead_.slow()), device_)};
}

void Tower::restore(const RankBuffers& own) {
  if (own.are_synchronized) return;
  upload(own.values, buffers_of(buffers_), device_, {});
  upload(own.slow, buffers_of(buffer_lookahead_.slow()), device_, {});
  buffers_are_synchronized_ = false;
  copy_completed_buffers();
  gate_.leave();
}

void Tower::save(CheckpointState& state) const {
  driver_->flush();
  save_arrays(buffers_, buffer_lookahead_.slow(), state);
}

void Tower::save_whole_step(CheckpointState& state) const {
  check(holds_whole_step(), "a step that is not complete cannot be saved");
  update_->synchronize();  // needs no other rank, because this rank holds the whole step
  save_arrays(completed_buffers_, completed_slow_, state);
  check(holds_whole_step(), "another rank has begun the next update meanwhile");
}

void Tower::save_arrays(const BufferStore& buffers, const BufferStore& slow, CheckpointState& state) const {
  state.network = description_text(network_);
  state.variables = download(variables_of(parameters()), device_);
  if (!optimizer_settings_.keeps_averages()) state.moving_averages = state.variables;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    const std::string& name = slots_[slot].name;
    std::vector<NamedArray> arrays = download(saved_slot(slot, slow), device_);
    (name == moving_average_slot ? state.moving_averages : state.optimizer[name]) = std::move(arrays);
  }
  state.buffers = download(buffers_of(buffers), device_);
}

}  // namespace carillon
