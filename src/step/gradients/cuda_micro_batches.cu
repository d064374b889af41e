// CudaMicroBatches: the GradientSource that divides a rank's batch into micro-batches on a GPU.
//
// One executable computes the micro-batches one after the other. Therefore only the activations of one micro-batch are
// in memory at a time. As on CPUs (micro_batches.h), each micro-batch is computed as if it were a complete batch. One
// binary tree sums gradients and step sums over all micro-batches of all ranks.
//
//   for each micro-batch   select its inputs; old buffers -> own buffers; forward; own buffers -> step sums; backward;
//                          add gradients and step sums to the tree
//   (the update strategy averages over the ranks)
//   finish                 averaged step sums -> buffers
//
// The calls only enqueue work, and each step enqueues the same work. Therefore a step can be captured.
#include <cstdint>
#include <memory>
#include <span>

#include "carillon/core/error.h"
#include "carillon/graph/step_inputs.h"
#include "kernels/shared/launch.cuh"
#include "kernels/shared/tree_sum.h"
#include "src/device/cuda_device.h"
#include "src/graph/executable.h"
#include "src/step/gradients/micro_batches.h"

namespace carillon {

/// Copies the header of the current entry, and the samples of the entry from number `first` on. `i`: number of a sample
/// in the micro-batch.
struct SelectMicroBatch {
  StepTable from;
  std::byte* to = nullptr;       ///< the entry for the micro-batch
  std::uint32_t records_at = 0;  ///< StepTable::records_at of that entry
  std::uint32_t first = 0;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const auto sample = static_cast<std::uint32_t>(i);
    if (sample == 0) {
      StepHeader& header = *reinterpret_cast<StepHeader*>(to);
      header = from.header();
      header.first_position += first;
    }
    reinterpret_cast<std::uint32_t*>(to + StepTable::rows_offset)[sample] = from.row(first + sample);
    reinterpret_cast<std::uint32_t*>(to + records_at)[sample] = from.record(first + sample);
  }
};

namespace {

/// The StepInputs of one micro-batch of the current step on a GPU.
///
/// Ops read a table with a single entry. `select` copies the header and the samples of a micro-batch from the current
/// entry of the step's ring to this entry. Therefore one executable serves all micro-batches, and a captured step
/// repeats the selection at each replay.
class MicroBatchInputs {
 public:
  /// `of_step`: the inputs of the rank's whole batch, on a GPU. `samples`: samples per micro-batch.
  MicroBatchInputs(const StepInputs& of_step, std::uint32_t samples, Device& device);

  /// Returns the inputs that an executable reads. Their address does not change during the lifetime of this object.
  const StepInputs& inputs() const { return inputs_; }
  /// Enqueues the selection of micro-batch number `micro_batch` of the current step.
  void select(std::uint32_t micro_batch, Stream& stream) const;

 private:
  StepTable of_step_;
  std::uint32_t samples_;
  Buffer entry_;
  StepInputs inputs_;
};

class CudaMicroBatches final : public GradientSource {
 public:
  CudaMicroBatches(const GradientSourceContext& context, const MicroBatchForm& form);

  void enqueue(GradientSink& sink) override;
  void finish() override;
  void rebuild() override;
  bool averages_buffers() const override { return true; }
  std::size_t activation_bytes() const override { return executable_.memory_bytes(); }

 private:
  void add_to_sum(std::uint32_t micro_batch, Stream& stream) const;

  GradientSourceContext context_;
  MicroBatchForm form_;
  MicroBatchInputs inputs_;
  BufferStore buffers_;  ///< buffers of the current micro-batch
  Executable executable_;
  Buffer waiting_;  ///< [levels][gradients and step sums] sums of the tree
};

MicroBatchInputs::MicroBatchInputs(const StepInputs& of_step, std::uint32_t samples, Device& device)
    : of_step_(of_step.table), samples_(samples), entry_(device.allocate(StepTable::bytes_of_entry(samples))) {
  inputs_.table = of_step.table;
  inputs_.table.entries = static_cast<const std::byte*>(entry_.data());
  inputs_.table.entry_bytes = StepTable::bytes_of_entry(samples);
  inputs_.table.records_at = StepTable::records_offset(samples);
  inputs_.table.capacity = 1;
}

void MicroBatchInputs::select(std::uint32_t micro_batch, Stream& stream) const {
  const SelectMicroBatch kernel{of_step_, static_cast<std::byte*>(entry_.data()), inputs_.table.records_at,
                                micro_batch * samples_};
  launch(ForEachElement{kernel, static_cast<std::int64_t>(samples_)}, stream);
}

void enqueue_copy(std::span<const float> from, std::span<float> to, Stream& stream) {
  if (from.empty()) return;
  check_cuda(
      cudaMemcpyAsync(to.data(), from.data(), from.size_bytes(), cudaMemcpyDeviceToDevice, as_cuda(stream).get()));
}

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

}  // namespace

std::unique_ptr<GradientSource> make_cuda_micro_batches(const GradientSourceContext& context,
                                                        const MicroBatchForm& form) {
  return std::make_unique<CudaMicroBatches>(context, form);
}

}  // namespace carillon
