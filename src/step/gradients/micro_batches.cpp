#include "src/step/gradients/micro_batches.h"

#include <algorithm>
#include <atomic>

#include "carillon/core/error.h"
#include "src/step/gradients/step_sums.h"
#include "src/step/gradients/sum_tree.h"

namespace carillon {
namespace {

/// Memory for gradients of its own; the variables are those of all.
ParameterMemory lane_memory(const ParameterStore& parameters, Device& device) {
  const std::span<float> values = parameters.values();
  return {.gradients = device.allocate(parameters.gradients_and_sums().size_bytes()),
          .values = Buffer(values.data(), values.size_bytes(), [](void*) {})};
}

std::span<float> buffers_among(std::span<float> step_sums) { return step_sums.subspan(step_sum_count); }

}  // namespace

std::size_t step_sums_with(const std::vector<BufferSpec>& buffers) {
  std::size_t count = step_sum_count;
  for (const BufferSpec& spec : buffers)
    count += aligned_float_count(static_cast<std::size_t>(spec.shape.element_count()));
  return count;
}

/// What a thread takes micro-batches through.
struct MicroBatches::Lane {
  Lane(const BuiltNetwork& network, const InputStageSpec& form, const ParameterStore& of_all, Device& on)
      : device(on),
        loss(network.loss),
        input_stage(make_input_stage(on, form)),
        parameters(of_all.specs(), on, lane_memory(of_all, on), {}, of_all.step_sums().size()),
        buffers(network.graph.buffers(), on),
        executable(network.graph, {on, parameters, buffers, input_stage->inputs()}, true, {network.loss}) {}

  void run(const StagedStep& step, std::span<const float> old_buffers) {
    Stream& stream = device.stream();
    input_stage->write(0, step);
    std::ranges::copy(old_buffers, buffers.values().begin());
    executable.forward(stream);
    write_step_sums(device, executable.tensor(loss), input_stage->inputs(), parameters.step_sums());
    std::ranges::copy(buffers.values(), buffers_among(parameters.step_sums()).begin());
    executable.backward(stream, [](int /*parameter*/) {});
  }

  Device& device;
  Value loss;
  std::unique_ptr<InputStage> input_stage;
  ParameterStore parameters;
  BufferStore buffers;
  Executable executable;
};

MicroBatches::MicroBatches(const BuiltNetwork& network, const MicroBatchForm& form, std::size_t image_bytes,
                           const ParameterStore& parameters, const BufferStore& buffers, Device& device)
    : form_(form), image_bytes_(image_bytes), parameters_(parameters), buffers_(buffers), device_(device) {
  check(device.kind() == DeviceKind::cpu, "micro-batches were asked of a GPU");
  const std::size_t sums = parameters.gradients_and_sums().size();
  check(buffers_among(parameters.step_sums()).size() == buffers.values().size(),
        "the step sums have no room for buffers");
  check(std::ranges::all_of(buffers.specs(), [](const auto& s) { return s.across_ranks == AcrossRanks::mean; }),
        "a state that is no mean over the towers was to be averaged over micro-batches");
  lanes_.resize(std::min(device.workers().size(), static_cast<std::size_t>(form.own_count)));
  run_in(network);
  sum_ = std::make_unique<SumTree>(static_cast<int>(form.own_count), sums, device_);
}

MicroBatches::~MicroBatches() = default;

void MicroBatches::run_in(const BuiltNetwork& network) {
  const InputStageSpec of_lane{.batch_size = static_cast<std::size_t>(form_.samples),
                               .image_bytes = image_bytes_,
                               .target_bytes = network.graph.target_bytes()};
  device_.on_workers(static_cast<int>(lanes_.size()), [&](int worker) {
    lanes_[worker].reset();  // before there is memory for another one
    lanes_[worker] = std::make_unique<Lane>(network, of_lane, parameters_, *device_.workers()[worker]);
  });
}

void MicroBatches::compute(const StepInputs& inputs) {
  const auto samples = static_cast<std::size_t>(form_.samples);
  std::atomic<int> next{0};
  device_.on_workers(static_cast<int>(lanes_.size()), [&](int worker) {
    Lane& lane = *lanes_[worker];
    for (int taken = next++; taken < form_.own_count; taken = next++) {
      lane.run({.batch = inputs.batch.part(static_cast<std::size_t>(taken) * samples, samples),
                .scalars = inputs.scalars,
                .request_sync = inputs.request_sync},
               buffers_.values());
      sum_->add(taken, lane.parameters.gradients_and_sums());
    }
  });
}

void MicroBatches::finish() {
  const bool alone = form_.own_count == form_.total_count;
  sum_->finish(alone ? 1.0f / static_cast<float>(form_.total_count) : 1.0f, parameters_.gradients_and_sums());
}

void MicroBatches::take_buffers() {
  std::ranges::copy(buffers_among(parameters_.step_sums()), buffers_.values().begin());
}

std::size_t MicroBatches::memory_bytes() const { return lanes_.front()->executable.memory_bytes(); }

}  // namespace carillon
