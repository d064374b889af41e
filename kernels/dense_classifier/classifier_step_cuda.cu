// The memory and the launches of classifier_step.
#include "kernels/dense_classifier/classifier_step.h"
#include "kernels/dense_classifier/gradient_tiles.h"
#include "kernels/shared/launch.cuh"

namespace carillon {

struct ClassifierStepCuda::Kernels {
  Kernels(const ClassifierForm& form, Device& device, const ParameterStore& parameters, const StepInputs& inputs);

  template <typename T>
  T* allocate(Device& device, std::int64_t count) {
    Buffer& buffer = buffers.emplace_back(device.allocate(static_cast<std::size_t>(count) * sizeof(T)));
    bytes += buffer.bytes();
    return static_cast<T*>(buffer.data());
  }
  ClassifierActivations activations(const ClassifierForm& form, Device& device);

  std::vector<Buffer> buffers;
  std::size_t bytes = 0;
  ClassifierActivations of;
  const float* weights1;
  LogitGradients logits;
  TileKernel<StoreGradients> gradients;
};

ClassifierActivations ClassifierStepCuda::Kernels::activations(const ClassifierForm& form, Device& device) {
  ClassifierActivations made{.batch = static_cast<int>(form.batch),
                             .inputs = static_cast<int>(form.inputs),
                             .hidden = static_cast<int>(form.hidden),
                             .classes = static_cast<int>(form.classes),
                             .scale = form.scale};
  const std::int64_t hidden_count = form.batch * form.hidden;
  made.products = allocate<float>(device, made.chunks() * hidden_count);
  made.h = allocate<float>(device, hidden_count);
  made.dh = allocate<float>(device, hidden_count);
  made.dz = allocate<float>(device, form.batch * ClassifierLimits::classes);
  return made;
}

ClassifierStepCuda::Kernels::Kernels(const ClassifierForm& form, Device& device, const ParameterStore& parameters,
                                     const StepInputs& inputs)
    : of(activations(form, device)), weights1(parameters.value(form.weights1).floats().data()) {
  const ParameterLayout& layout = parameters.layout();
  logits = {.table = inputs.table,
            .biases1 = parameters.value(form.biases1).floats().data(),
            .weights2 = parameters.value(form.weights2).floats().data(),
            .biases2 = parameters.value(form.biases2).floats().data(),
            .of = of,
            .losses = allocate<double>(device, form.batch),
            .blocks_done = allocate<std::uint32_t>(device, 1),
            .step_sums = parameters.step_sums().data()};
  gradients = {.tiles = {.table = inputs.table,
                         .of = of,
                         .weights1 = layout.offset(form.weights1),
                         .biases1 = layout.offset(form.biases1),
                         .weights2 = layout.offset(form.weights2),
                         .biases2 = layout.offset(form.biases2)},
               .consumer = {.gradients = parameters.gradients_and_sums().data()}};
}

ClassifierStepCuda::ClassifierStepCuda(const ClassifierForm& form, Device& device, const ParameterStore& parameters,
                                       const StepInputs& inputs)
    : kernels_(std::make_unique<Kernels>(form, device, parameters, inputs)) {}
ClassifierStepCuda::~ClassifierStepCuda() = default;

void ClassifierStepCuda::enqueue_activations(Stream& stream) const {
  const ClassifierActivations& of = kernels_->of;
  with_rows_per_thread(of.batch, [&]<int rows>(std::integral_constant<int, rows>) {
    launch(HiddenProducts<rows>{.table = kernels_->logits.table, .weights = kernels_->weights1, .of = of}, stream);
  });
  launch(kernels_->logits, stream);
}

void ClassifierStepCuda::enqueue_gradients(Stream& stream) const { launch(kernels_->gradients, stream); }
const GradientTiles& ClassifierStepCuda::gradients() const { return kernels_->gradients.tiles; }
std::size_t ClassifierStepCuda::memory_bytes() const { return kernels_->bytes; }

}  // namespace carillon
