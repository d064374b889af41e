#include "src/step/gradients/micro_batches.h"

#include <algorithm>
#include <atomic>

#include "carillon/core/error.h"
#include "carillon/core/reduction.h"
#include "src/graph/executable.h"
#include "src/step/input/input_stage.h"

namespace carillon {
namespace {

/// Returns the memory for the parameters of a lane (one thread's part of the work): the lane's own gradients, and the
/// variables that all lanes share.
ParameterMemory lane_memory(const ParameterStore& parameters, Device& device) {
  const std::span<float> values = parameters.values();
  return {.gradients = device.allocate(parameters.gradients_and_sums().size_bytes()),
          .values = Buffer(values.data(), values.size_bytes(), [](void*) {})};
}

float* floats_of(const Buffer& buffer) { return static_cast<float*>(buffer.data()); }

}  // namespace

std::size_t step_sums_with(const std::vector<BufferSpec>& buffers) {
  std::size_t count = step_sum_count;
  for (const BufferSpec& spec : buffers)
    count += aligned_float_count(static_cast<std::size_t>(spec.shape.element_count()));
  return count;
}

std::span<float> buffers_among(std::span<float> step_sums) { return step_sums.subspan(step_sum_count); }

void check_can_average(const GradientSourceContext& context) {
  check(buffers_among(context.parameters.step_sums()).size() == context.buffers.values().size(),
        "the step sums have no room for the buffers");
  check(
      std::ranges::none_of(context.buffers.specs(), [](const auto& s) { return s.across_ranks == AcrossRanks::first; }),
      "micro-batches require buffers that are averaged over ranks");
}

std::vector<BufferMeans> buffer_means(const GradientSourceContext& context) {
  const std::span<const float> sums = buffers_among(context.parameters.step_sums());
  const BufferStore& buffers = context.buffers;
  std::vector<BufferMeans> means;
  for (std::size_t i = 0; i < buffers.specs().size(); ++i) {
    if (buffers.specs()[i].across_ranks == AcrossRanks::equal) continue;
    const std::span<float> values = buffers.tensor(static_cast<int>(i)).floats();
    const auto offset = static_cast<std::size_t>(values.data() - buffers.values().data());
    means.push_back({sums.subspan(offset, values.size()), values});
  }
  return means;
}

/// The executable of one thread, with its own gradients, buffers and inputs.
struct MicroBatches::Lane {
  Lane(const BuiltNetwork& network, const InputStageSpec& form, const ParameterStore& of_all, Device& on)
      : device(on),
        loss(network.loss),
        input_stage(make_input_stage(on, form)),
        parameters(of_all.specs(), on, lane_memory(of_all, on), {}, of_all.step_sums().size()),
        buffers(network.graph.buffers(), on),
        executable(network.graph, {on, parameters, buffers, input_stage->inputs()}, true, {network.loss}) {}

  void run(const StepRequest& request, std::span<const float> old_buffers) {
    Stream& stream = device.stream();
    input_stage->write(0, request);
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

MicroBatches::MicroBatches(const GradientSourceContext& context, const MicroBatchForm& form, std::size_t image_bytes)
    : context_(context),
      form_(form),
      image_bytes_(image_bytes),
      sum_(static_cast<int>(form.own_count), context.parameters.gradients_and_sums().size(), context.device) {
  check(context.device.kind() == DeviceKind::cpu, "micro-batches require a CPU");
  check_can_average(context);
  lanes_.resize(std::min(context.device.workers().size(), static_cast<std::size_t>(form.own_count)));
  rebuild();
}

MicroBatches::~MicroBatches() = default;

void MicroBatches::rebuild() {
  const InputStageSpec of_lane{.batch_size = static_cast<std::size_t>(form_.samples),
                               .image_bytes = image_bytes_,
                               .target_bytes = context_.network.graph.target_bytes()};
  context_.device.on_workers(static_cast<int>(lanes_.size()), [&](int worker) {
    lanes_[worker].reset();  // frees the memory of the old lane before the new lane allocates memory
    lanes_[worker] =
        std::make_unique<Lane>(context_.network, of_lane, context_.parameters, *context_.device.workers()[worker]);
  });
}

void MicroBatches::compute() {
  const StepInputs& inputs = context_.inputs;
  const auto samples = static_cast<std::size_t>(form_.samples);
  std::atomic<int> next{0};
  context_.device.on_workers(static_cast<int>(lanes_.size()), [&](int worker) {
    Lane& lane = *lanes_[worker];
    for (int taken = next++; taken < form_.own_count; taken = next++) {
      lane.run({.batch = inputs.batch.part(static_cast<std::size_t>(taken) * samples, samples),
                .request_sync = inputs.request_sync,
                .scalars = inputs.scalars},
               context_.buffers.values());
      sum_.add(taken, lane.parameters.gradients_and_sums());
    }
  });
}

void MicroBatches::enqueue(GradientSink& sink) {
  Stream& stream = context_.device.stream();
  compute();
  sink.acquire(stream);
  sum_.finish(form_.own_factor(), context_.parameters.gradients_and_sums());
  for (const int parameter : context_.parameters.layout().order()) sink.gradient_complete(parameter, stream);
}

void MicroBatches::finish() {
  for (const BufferMeans& means : buffer_means(context_)) std::ranges::copy(means.from, means.to.begin());
}

std::size_t MicroBatches::activation_bytes() const { return lanes_.front()->executable.memory_bytes(); }

void SumTree::add(int leaf, std::span<const float> values) {
  check(leaf >= 0 && leaf < leaves_ && values.size() == count_,
        "an array of another size, or of an unknown leaf, was added to a sum");
  const float* sum = values.data();
  Buffer own;  // holds `sum` after the first addition
  for (Node node{.level = 0, .index = leaf};; node = node.parent()) {
    Buffer other;
    {
      const std::lock_guard lock(mutex_);
      other = remove(node.neighbour());
      if (other.data() == nullptr && own.data() == nullptr) own = spare_buffer();
    }
    if (other.data() == nullptr) {
      if (sum == values.data()) std::ranges::copy(values, floats_of(own));
      const std::lock_guard lock(mutex_);
      other = remove(node.neighbour());  // another thread may have added the neighbour
      if (other.data() == nullptr) {
        kept_[node] = std::move(own);
        return;
      }
    }
    const float* const parts[] = {sum, floats_of(other)};
    sum = floats_of(other);
    sum_in_order(parts, count_, 1.0f, floats_of(other));
    std::swap(own, other);
    if (other.data() == nullptr) continue;
    const std::lock_guard lock(mutex_);
    spare_.push_back(std::move(other));
  }
}

void SumTree::finish(float factor, std::span<float> out) {
  // The kept arrays are sums of whole subtrees. The smallest subtrees contain the last leaves. The loop joins the
  // subtrees, beginning with the smallest.
  std::vector<float*> rest;
  int leaves = 0;
  for (const auto& [node, array] : kept_) {
    leaves += 1 << node.level;
    if (rest.size() == 2) {
      sum_in_order(rest, count_, 1.0f, rest.back());
      rest.erase(rest.begin());
    }
    rest.push_back(floats_of(array));
  }
  check(leaves == leaves_ && out.size() == count_, "a sum is finished before all arrays are added");
  sum_in_order(rest, count_, factor, out.data());
  while (!kept_.empty()) spare_.push_back(remove(kept_.begin()->first));
}

Buffer SumTree::remove(Node node) {
  const auto found = kept_.find(node);
  if (found == kept_.end()) return {};
  Buffer array = std::move(found->second);
  kept_.erase(found);
  return array;
}

Buffer SumTree::spare_buffer() {
  if (spare_.empty()) return device_.allocate(count_ * sizeof(float));
  Buffer array = std::move(spare_.back());
  spare_.pop_back();
  return array;
}

}  // namespace carillon
