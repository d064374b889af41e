// The ForwardPass of a GPU.
//
// Batches use the slots of a ring in turn. A block of batches is uploaded, computed and downloaded together, so that
// the host waits only once per block. The ring has two blocks: the host fills one while the GPU computes the other. A
// block never crosses the middle or the end of the ring, so that one copy moves a whole block. The first and the last
// block of an evaluation may be smaller. For the first batch, the host launches each kernel separately, so that CUDA
// loads the kernels. Then the host captures the pass of one batch, with all its views, as a CUDA graph, and replays the
// graph. The graph stays valid between evaluations, because the addresses of the variables do not change.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "carillon/core/error.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"
#include "src/device/cuda_device.h"
#include "src/step/forward/forward_kernels.h"
#include "src/step/forward/forward_pass.h"
#include "src/step/input/input_stage.h"

namespace carillon {
namespace {

/// The StepInputs of a view of the current batch.
///
/// Ops read a table with a single entry. The images of this entry are the views. `write` computes these views from the
/// images of the current batch. Therefore one executable serves all views.
class ViewInputs {
 public:
  /// `of_batch`: the inputs of a whole batch of `samples` images, on a GPU.
  ViewInputs(const StepInputs& of_batch, const ImageShape& image, std::size_t samples, Device& device);

  /// Returns the inputs that an executable reads. Their address does not change during the lifetime of this object.
  const StepInputs& inputs() const { return inputs_; }
  /// Enqueues the kernel that writes this view of the current batch.
  void write(const ImageView& view, Stream& stream) const;

 private:
  StepTable of_batch_;
  ImageShape image_;
  std::size_t samples_;
  Buffer entry_, images_;
  StepInputs inputs_;
};

/// One of several views of a batch.
struct ViewNumber {
  std::size_t number = 0, count = 1;
};

/// The outputs of the batches in flight as float32, on the GPU and on the host.
class OutputRing {
 public:
  /// `outputs`: the output tensor of a forward pass, f32 or bf16. `progress`: the progress of the input stage; its
  /// capacity becomes the capacity of the ring.
  OutputRing(const Tensor& outputs, const StepProgress& progress, CudaDevice& device);

  /// Enqueues the addition of weight * outputs to the sums of the current batch. After the last view, also counts the
  /// batch as done.
  void add(ViewNumber view, float weight, Stream& stream) const;
  /// Enqueues a copy of the outputs of `count` slots to the host, starting at slot `first`.
  void download(std::uint32_t first, std::uint32_t count, const CudaStream& stream) const;
  /// Returns the outputs in a slot, after they have been downloaded.
  std::span<const float> at(std::uint32_t slot) const;

 private:
  Tensor outputs_;
  StepProgress progress_;
  std::size_t count_;  ///< number of output elements of a batch
  Buffer device_, host_;
};

ViewInputs::ViewInputs(const StepInputs& of_batch, const ImageShape& image, std::size_t samples, Device& device)
    : of_batch_(of_batch.table),
      image_(image),
      samples_(samples),
      entry_(device.allocate(StepTable::bytes_of_entry(samples))),
      images_(device.allocate(samples * image.bytes())) {
  std::vector<std::uint32_t> rows(samples);
  std::iota(rows.begin(), rows.end(), 0u);
  device.upload(rows.data(), static_cast<std::byte*>(entry_.data()) + StepTable::rows_offset,
                samples * sizeof(std::uint32_t));
  inputs_.table = of_batch.table;
  inputs_.table.entries = static_cast<const std::byte*>(entry_.data());
  inputs_.table.entry_bytes = StepTable::bytes_of_entry(samples);
  inputs_.table.records_at = StepTable::records_offset(samples);
  inputs_.table.capacity = 1;
  inputs_.table.images = static_cast<const std::uint8_t*>(images_.data());
}

void ViewInputs::write(const ImageView& view, Stream& stream) const {
  launch(WriteViewKernel{.table = of_batch_,
                         .map = ViewMap(view, image_),
                         .channels = static_cast<std::int32_t>(image_.channels),
                         .views = static_cast<std::uint8_t*>(images_.data()),
                         .batch = static_cast<std::int64_t>(samples_)},
         stream);
}

OutputRing::OutputRing(const Tensor& outputs, const StepProgress& progress, CudaDevice& device)
    : outputs_(outputs),
      progress_(progress),
      count_(static_cast<std::size_t>(outputs.shape.element_count())),
      device_(device.allocate(progress.capacity * count_ * sizeof(float))),
      host_(device.allocate_pinned(progress.capacity * count_ * sizeof(float))) {}

void OutputRing::add(ViewNumber view, float weight, Stream& stream) const {
  with_float_type(outputs_.type, [&]<typename T>(std::type_identity<T>) {
    launch(CollectOutputsKernel<T>{.progress = progress_,
                                   .outputs = static_cast<const T*>(outputs_.data),
                                   .sums = static_cast<float*>(device_.data()),
                                   .count = static_cast<std::int64_t>(count_),
                                   .weight = weight,
                                   .is_first = view.number == 0,
                                   .is_last = view.number + 1 == view.count},
           stream);
  });
}

void OutputRing::download(std::uint32_t first, std::uint32_t count, const CudaStream& stream) const {
  check(first + count <= progress_.capacity, "the outputs of a block must be contiguous");
  const std::size_t place = first * count_;
  check_cuda(cudaMemcpyAsync(static_cast<float*>(host_.data()) + place,
                             static_cast<const float*>(device_.data()) + place, count * count_ * sizeof(float),
                             cudaMemcpyDeviceToHost, stream.get()));
}

std::span<const float> OutputRing::at(std::uint32_t slot) const {
  return {static_cast<const float*>(host_.data()) + slot * count_, count_};
}

/// Returns the number of batches per block, a power of two. Limits the memory of the images and outputs in flight, and
/// the time until the host sees the first outputs.
std::uint32_t block_of(std::size_t image_bytes, std::size_t output_bytes) {
  constexpr std::size_t max_block = 16, max_image_bytes = std::size_t{64} << 20,
                        max_output_bytes = std::size_t{16} << 20;
  const std::size_t fitting = std::min(max_image_bytes / image_bytes, max_output_bytes / output_bytes);
  return static_cast<std::uint32_t>(std::bit_floor(std::clamp<std::size_t>(fitting, 1, max_block)));
}

InputStageSpec input_stage_spec(const BuiltNetwork& built, const ForwardSettings& settings) {
  const auto batch_size = static_cast<std::size_t>(built.graph.batch_size());
  const auto outputs = static_cast<std::size_t>(built.graph.values()[built.output.index].shape.element_count());
  return {.batch_size = batch_size,
          .image_bytes = settings.image.bytes(),
          .slots = 2 * block_of(batch_size * settings.image.bytes(), outputs * sizeof(float)),
          .dataset = settings.dataset,
          .kept = settings.kept,
          .max_kept_bytes = settings.max_kept_bytes};
}

class CudaForwardPass final : public ForwardPass {
 public:
  CudaForwardPass(const ForwardContext& context, const ForwardSettings& settings)
      : device_(as_cuda(context.device)),
        spec_(input_stage_spec(context.built, settings)),
        input_stage_(make_cuda_input_stage(device_, spec_)),
        views_(settings.averages_views
                   ? std::make_unique<ViewInputs>(input_stage_->inputs(), settings.image, spec_.batch_size, device_)
                   : nullptr),
        executable_(context.built.graph,
                    {.device = device_,
                     .parameters = context.parameters,
                     .buffers = context.buffers,
                     .inputs = views_ ? views_->inputs() : input_stage_->inputs(),
                     .reads_compute_copies = true},
                    false, {context.built.output}),
        outputs_(executable_.tensor(context.built.output), input_stage_->inputs().progress, device_),
        captures_(settings.capture) {}

  /// Waits for the passes in flight, because they use memory that is freed next. Ignores errors, because other calls
  /// report them.
  ~CudaForwardPass() override {
    static_cast<void>(cudaStreamSynchronize(device_.side_stream().get()));
    static_cast<void>(cudaStreamSynchronize(device_.compute_stream().get()));
  }

  bool keeps_records() const override { return input_stage_->keeps_records(); }

  void enqueue(const Batch& batch) override {
    check(enqueued_ - returned_ < spec_.slots, "outputs that are due must be taken before the next batch");
    input_stage_->write(slot_of(enqueued_), {.batch = batch});
    ++enqueued_;
    if (enqueued_ % (spec_.slots / 2) == 0) launch();
  }

  std::optional<std::span<const float>> next_outputs(Results wanted) override {
    if (wanted == Results::all) launch();
    if (returned_ == completed_) {
      const bool is_due = wanted == Results::all ? launched_ > completed_ : enqueued_ - returned_ == spec_.slots;
      if (!is_due) return std::nullopt;
      device_.wait_for(blocks_.front().end);
      completed_ += blocks_.front().count;
      blocks_.pop_front();
    }
    return outputs_.at(slot_of(returned_++));
  }

 private:
  struct Block {
    std::uint32_t count;
    CudaEvent end;
  };

  std::uint32_t slot_of(std::uint64_t batch) const { return static_cast<std::uint32_t>(batch % spec_.slots); }

  /// Launches the enqueued batches as a block.
  void launch() {
    const auto count = static_cast<std::uint32_t>(enqueued_ - launched_);
    if (count == 0) return;
    const CudaStream& compute = device_.compute_stream();
    const std::uint32_t first = slot_of(launched_);
    input_stage_->upload(first, count, device_.side_stream());
    uploaded_.record(device_.side_stream());
    uploaded_.make_wait(compute);
    for (std::uint32_t i = 0; i < count; ++i) run();
    outputs_.download(first, count, compute);
    launched_ = enqueued_;
    blocks_.push_back({count, {}});
    blocks_.back().end.record(compute);
  }

  /// Enqueues the pass of one batch.
  void run() {
    if (!captures_ || !is_warm_) {
      enqueue_pass();
      is_warm_ = true;
      return;
    }
    const CudaStream& compute = device_.compute_stream();
    if (!graph_)
      graph_ = capture(
          compute, [this] { enqueue_pass(); }, "an evaluation");
    check_cuda(cudaGraphLaunch(graph_.get(), compute.get()));
  }

  void enqueue_pass() {
    Stream& stream = device_.stream();
    if (!views_) {
      executable_.forward(stream);
      return outputs_.add({}, 1.0f, stream);
    }
    for (std::size_t i = 0; i < augmented_views.size(); ++i) {
      views_->write(augmented_views[i], stream);
      executable_.forward(stream);
      outputs_.add({i, augmented_views.size()}, augmented_views[i].weight, stream);
    }
  }

  CudaDevice& device_;
  InputStageSpec spec_;
  std::unique_ptr<InputStage> input_stage_;
  std::unique_ptr<ViewInputs> views_;  ///< null: the pass computes each image once, not several views of it
  Executable executable_;
  OutputRing outputs_;
  bool captures_;
  bool is_warm_ = false;  ///< true: a batch has launched each kernel
  ExecutableGraph graph_;
  CudaEvent uploaded_;
  std::uint64_t enqueued_ = 0, launched_ = 0, completed_ = 0, returned_ = 0;  ///< numbers of batches
  std::deque<Block> blocks_;                                                  ///< blocks in flight, oldest first
};

}  // namespace

std::unique_ptr<ForwardPass> make_cuda_forward_pass(const ForwardContext& context, const ForwardSettings& settings) {
  return std::make_unique<CudaForwardPass>(context, settings);
}

}  // namespace carillon
