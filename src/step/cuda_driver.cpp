// Steps on a GPU: the first ones launch kernel by kernel, which loads them; then a step, and a block of steps, are
// captured as CUDA graphs when they are first wanted, and replayed from there on.
//
// All ranks take and flush the same steps, so they capture at the same one: NCCL's calls are captured on all together.
#include "src/step/cuda_driver.h"

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "src/step/cuda_step_table.h"
#include "src/step/queue.h"
#include "src/step/step_sums.h"

namespace carillon {
namespace {

constexpr std::uint64_t warm_up_steps = 2;

/// As many steps to a block as fit into some memory when their images are copied. A function of the settings alone, so
/// that all ranks launch alike, wherever their data lie.
StepRingForm ring_form(const StepDriverSettings& settings) {
  constexpr std::uint32_t blocks = 4, longest_block = 16;
  constexpr std::size_t most_staging_bytes = std::size_t{128} << 20;
  const std::size_t bytes_of_single_steps = blocks * settings.batch_size * settings.image_bytes;
  const std::size_t fitting = most_staging_bytes / std::max<std::size_t>(bytes_of_single_steps, 1);
  return {std::clamp(static_cast<std::uint32_t>(fitting), 1u, longest_block), blocks};
}

using Graph = Handle<cudaGraph_t, cudaGraphDestroy>;
using ExecutableGraph = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;

/// What `enqueue` puts on `stream`, and on the streams it forks from it and joins, as a graph.
template <typename Enqueue>
ExecutableGraph capture(const CudaStream& stream, const Enqueue& enqueue) {
  check_cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
  cudaGraph_t raw = nullptr;
  try {
    enqueue();
  } catch (const Error& error) {
    const cudaError_t status = cudaStreamEndCapture(stream.get(), &raw);
    const Graph unfinished(raw);
    static_cast<void>(cudaGetLastError());
    fail(error.code(), "{} (the capture: {})", error.what(), cudaGetErrorString(status));
  }
  check_cuda(cudaStreamEndCapture(stream.get(), &raw));
  const Graph graph(raw);
  cudaGraphExec_t executable = nullptr;
  check_cuda(cudaGraphInstantiate(&executable, graph.get(), 0));
  ExecutableGraph result(executable);
  check_cuda(cudaGraphUpload(executable, stream.get()));
  return result;
}

class CudaStepDriver final : public StepDriver, private StepEngine {
 public:
  CudaStepDriver(CudaDevice& device, Communicator& communicator, const StepDriverSettings& settings)
      : device_(device),
        communicator_(communicator),
        form_(ring_form(settings)),
        table_(device, settings.batch_size, settings.image_bytes, form_.capacity(), settings.dataset),
        captures_(settings.capture && communicator.capturable()),
        queue_(*this, form_) {}

  /// Steps under way use memory that others free next. Errors have been told, or are about to be.
  ~CudaStepDriver() override {
    static_cast<void>(cudaStreamSynchronize(device_.side_stream().get()));
    static_cast<void>(cudaStreamSynchronize(device_.compute_stream().get()));
  }

  StepInputs inputs() const override { return table_.inputs(); }

  void enqueue_sums(const Tensor& loss, std::span<float> sums, Stream& stream) override {
    enqueue_step_sums_cuda(static_cast<const float*>(loss.data), table_.inputs().table, sums.data(), stream);
  }

  void step(StepInputs& /*inputs*/, const StepRequest& request, const Enqueue& enqueue) override {
    enqueue_ = enqueue;
    queue_.push(request, steps_taken_ < warm_up_steps);
    ++steps_taken_;
  }

  void flush() override { queue_.flush(); }
  std::optional<StepResult> take_result(bool all) override { return queue_.take_result(all); }

 private:
  void write(std::uint32_t slot, const StepRequest& request) override {
    table_.write(slot, request.batch, request.update, request.request_stop);
  }

  void launch(std::uint32_t first, std::uint32_t count, const std::function<void()>& before_update) override {
    const CudaStream& compute = device_.compute_stream();
    table_.upload(first, count, device_.side_stream());
    uploaded_.record(device_.side_stream());
    uploaded_.make_wait(compute);
    if (before_update || !captures_ || steps_taken_ < warm_up_steps) {
      for (std::uint32_t i = 0; i < count; ++i) enqueue_(before_update);
    } else {
      replay(count);
    }
    if (spare_events_.empty()) spare_events_.emplace_back();
    under_way_.push_back(std::move(spare_events_.back()));
    spare_events_.pop_back();
    under_way_.back().record(compute);
  }

  void replay(std::uint32_t count) {
    const cudaStream_t stream = device_.compute_stream().get();
    if (count == form_.block) {
      if (!block_) block_ = captured(form_.block);
      check_cuda(cudaGraphLaunch(block_.get(), stream));
    } else {
      if (!one_step_) one_step_ = captured(1);
      for (std::uint32_t i = 0; i < count; ++i) check_cuda(cudaGraphLaunch(one_step_.get(), stream));
    }
  }

  ExecutableGraph captured(std::uint32_t steps) const {
    try {
      return capture(device_.compute_stream(), [&] {
        for (std::uint32_t i = 0; i < steps; ++i) enqueue_({});
      });
    } catch (const Error& error) {
      fail(error.code(), "{}; while a step was captured: --cuda-graph=false launches each instead", error.what());
    }
  }

  void wait_for_oldest() override {
    constexpr int polls_between_checks = 1024;
    for (int polls = 0; !under_way_.front().done(); ++polls) {
      if (polls % polls_between_checks == polls_between_checks - 1) {
        communicator_.check_peers();
        std::this_thread::yield();
      }
      spin_pause();
    }
    spare_events_.push_back(std::move(under_way_.front()));
    under_way_.pop_front();
  }

  StepOutcome outcome(std::uint32_t slot) const override { return table_.outcome(slot); }

  CudaDevice& device_;
  Communicator& communicator_;
  StepRingForm form_;
  CudaStepTable table_;
  bool captures_;
  Enqueue enqueue_;
  std::uint64_t steps_taken_ = 0;
  CudaEvent uploaded_;
  std::deque<CudaEvent> under_way_;  ///< the end of each launch
  std::vector<CudaEvent> spare_events_;
  ExecutableGraph one_step_, block_;
  StepQueue queue_;
};

/// One slot, on the compute stream: the forward that reads it follows there, and its results are downloaded, which
/// waits, before the next batch is written.
class CudaBatchFeed final : public BatchFeed {
 public:
  CudaBatchFeed(CudaDevice& device, std::size_t batch_size, std::size_t image_bytes)
      : device_(device), table_(device, batch_size, image_bytes, 1, nullptr) {}

  StepInputs inputs() const override { return table_.inputs(); }
  void set(StepInputs& /*inputs*/, const Batch& batch) override {
    table_.write(0, batch, {}, false);
    table_.upload(0, 1, device_.compute_stream());
  }

 private:
  CudaDevice& device_;
  CudaStepTable table_;
};

}  // namespace

std::unique_ptr<StepDriver> make_cuda_step_driver(Device& device, Communicator& communicator,
                                                  const StepDriverSettings& settings) {
  return std::make_unique<CudaStepDriver>(as_cuda(device), communicator, settings);
}

std::unique_ptr<BatchFeed> make_cuda_batch_feed(Device& device, std::size_t batch_size, std::size_t image_bytes) {
  return std::make_unique<CudaBatchFeed>(as_cuda(device), batch_size, image_bytes);
}

}  // namespace carillon
