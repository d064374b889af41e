#include "src/step/gradients/cuda_micro_batches.h"

#include "carillon/core/error.h"
#include "kernels/shared/tree_sum.h"
#include "src/device/cuda_device.h"

namespace carillon {
namespace {

void enqueue_copy(std::span<const float> from, std::span<float> to, Stream& stream) {
  if (from.empty()) return;
  check_cuda(
      cudaMemcpyAsync(to.data(), from.data(), from.size_bytes(), cudaMemcpyDeviceToDevice, as_cuda(stream).get()));
}

}  // namespace

CudaMicroBatches::CudaMicroBatches(const GradientSourceContext& context, const MicroBatchForm& form)
    : context_(context),
      form_(form),
      inputs_(context.inputs, static_cast<std::uint32_t>(form.samples), context.device),
      buffers_(context.buffers.specs(), context.device),
      executable_(context.network.graph,
                  {.device = context.device,
                   .parameters = context.parameters,
                   .buffers = buffers_,
                   .inputs = inputs_.inputs(),
                   .loss = context.network.loss},
                  true, {context.network.loss}),
      waiting_(context.device.allocate(tree_levels(static_cast<std::uint32_t>(form.own_count)) *
                                       context.parameters.gradients_and_sums().size_bytes())) {
  check_can_average(context);
  check(executable_.writes_step_sums(), "the loss does not write the step sums");
}

void CudaMicroBatches::enqueue(GradientSink& sink) {
  Stream& stream = context_.device.stream();
  const std::span<float> buffer_sums = buffers_among(context_.parameters.step_sums());
  for (std::uint32_t i = 0; i < form_.own_count; ++i) {
    inputs_.select(i, stream);
    enqueue_copy(context_.buffers.values(), buffers_.values(), stream);
    executable_.forward(stream);
    if (i == 0) sink.acquire(stream);
    enqueue_copy(buffers_.values(), buffer_sums, stream);
    executable_.backward(stream, [](int /*parameter*/) {});
    add_to_sum(i, stream);
  }
  for (const int parameter : context_.parameters.layout().order()) sink.gradient_complete(parameter, stream);
}

void CudaMicroBatches::add_to_sum(std::uint32_t micro_batch, Stream& stream) const {
  const std::span<float> sums = context_.parameters.gradients_and_sums();
  add_tree_leaf_cuda({.values = sums.data(),
                      .waiting = static_cast<float*>(waiting_.data()),
                      .result = sums.data(),
                      .count = static_cast<std::int64_t>(sums.size()),
                      .leaf = micro_batch,
                      .is_last = micro_batch + 1 == form_.own_count,
                      .factor = form_.own_factor()},
                     stream);
}

void CudaMicroBatches::finish() {
  for (const BufferMeans& means : buffer_means(context_)) {
    enqueue_copy(means.from, means.to, context_.device.stream());
  }
}

void CudaMicroBatches::rebuild() { fail(ExitCode::failed, "a captured step computes all gradients"); }

}  // namespace carillon
