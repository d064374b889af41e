// The ForwardPass of a GPU.
//
// Batches use the slots of a ring in turn. A block of batches is uploaded, computed and downloaded together, so the
// host waits once per block. The ring has two blocks: the host fills one while the GPU computes the other. A block ends
// at half of the ring or at its end, so that each copy of a block is one piece; the first and the last block of an
// evaluation may be smaller. The first batch launches each kernel, which loads the kernels. Then the pass of one batch,
// with all its views, is captured as a CUDA graph and replayed. The graph stays valid between evaluations: it reads the
// variables from the same addresses.
#include <algorithm>
#include <bit>
#include <deque>
#include <vector>

#include "carillon/core/error.h"
#include "src/device/cuda_capture.h"
#include "src/step/forward/forward_memory.h"
#include "src/step/forward/forward_pass.h"
#include "src/step/forward/image_views.h"
#include "src/step/input/cuda_input_stage.h"

namespace carillon {
namespace {

/// Batches per block: a power of two. Limits the memory of the images and outputs in flight, and the time that passes
/// until the host sees the first outputs.
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
        input_stage_(device_, spec_),
        views_(settings.averages_views
                   ? std::make_unique<ViewInputs>(input_stage_.inputs(), settings.image, spec_.batch_size, device_)
                   : nullptr),
        executable_(context.built.graph,
                    {.device = device_,
                     .parameters = context.parameters,
                     .buffers = context.buffers,
                     .inputs = views_ ? views_->inputs() : input_stage_.inputs(),
                     .reads_compute_copies = true},
                    false, {context.built.output}),
        outputs_(executable_.tensor(context.built.output), input_stage_.inputs().progress, device_),
        captures_(settings.capture) {}

  /// Waits for the passes in flight, because they use memory that is freed next. Ignores errors, which are reported
  /// elsewhere.
  ~CudaForwardPass() override {
    static_cast<void>(cudaStreamSynchronize(device_.side_stream().get()));
    static_cast<void>(cudaStreamSynchronize(device_.compute_stream().get()));
  }

  bool keeps_records() const override { return input_stage_.keeps_records(); }

  void enqueue(const Batch& batch) override {
    check(enqueued_ - returned_ < spec_.slots, "outputs that are due must be taken before the next batch");
    input_stage_.write(slot_of(enqueued_), {.batch = batch});
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
    input_stage_.upload(first, count, device_.side_stream());
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
  CudaInputStage input_stage_;
  std::unique_ptr<ViewInputs> views_;  ///< null: no views
  Executable executable_;
  OutputRing outputs_;
  bool captures_;
  bool is_warm_ = false;  ///< a batch has launched each kernel
  ExecutableGraph graph_;
  CudaEvent uploaded_;
  std::uint64_t enqueued_ = 0, launched_ = 0, completed_ = 0, returned_ = 0;  ///< counts of batches
  std::deque<Block> blocks_;                                                  ///< in flight, oldest first
};

}  // namespace

std::unique_ptr<ForwardPass> make_cuda_forward_pass(const ForwardContext& context, const ForwardSettings& settings) {
  return std::make_unique<CudaForwardPass>(context, settings);
}

}  // namespace carillon
