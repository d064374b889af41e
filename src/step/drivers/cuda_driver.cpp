// The StepDriver of a GPU. In the first steps, the driver launches each kernel separately, so that CUDA loads the
// kernels. Later, the driver captures one step and one block of steps as CUDA graphs when it first needs them, and then
// replays the graphs.
//
// All ranks enqueue and flush the same steps, so they capture at the same step. NCCL requires that all ranks capture
// the calls of NCCL together.
#include <deque>
#include <exception>
#include <utility>
#include <vector>

#include "carillon/core/error.h"
#include "src/device/cuda_device.h"
#include "src/step/drivers/driver.h"

namespace carillon {
namespace {

constexpr std::uint64_t warm_up_steps = 2;

class CudaStepDriver final : public StepDriver, private StepEngine {
 public:
  CudaStepDriver(const DrivenTower& tower, const InputStageSpec& form, bool capture)
      : device_(as_cuda(tower.device)),
        communicator_(tower.communicator),
        input_stage_(tower.input_stage),
        step_(tower.step),
        form_(ring_of(form.slots)),
        captures_(capture && tower.communicator.capturable()),
        queue_(*this, form_) {
    check(form.slots == form_.capacity(), "the input stage has another number of slots than its driver");
  }

  /// Waits for the steps in flight, because they use memory that will be freed next.
  ~CudaStepDriver() override {
    drain(device_.side_stream());
    drain(device_.compute_stream());
  }

  void enqueue(const StepRequest& request) override {
    queue_.push(request, steps_enqueued_ < warm_up_steps);
    ++steps_enqueued_;
  }

  void flush() override { queue_.flush(); }
  std::optional<StepResult> next_result(Results wanted) override { return queue_.next_result(wanted); }
  const std::vector<std::string>& captured_nodes() const override { return captured_nodes_; }

 private:
  void write(std::uint32_t slot, const StepRequest& request) override { input_stage_.write(slot, request); }

  void launch(std::uint32_t first, std::uint32_t count, const std::function<void()>& before_update) override {
    const CudaStream& compute = device_.compute_stream();
    input_stage_.upload(first, count, device_.side_stream());
    uploaded_.record(device_.side_stream());
    uploaded_.make_wait(compute);
    if (before_update || !captures_ || steps_enqueued_ < warm_up_steps) {
      for (std::uint32_t i = 0; i < count; ++i) enqueue_step(before_update);
    } else {
      replay(count);
    }
    if (spare_events_.empty()) spare_events_.emplace_back();
    under_way_.push_back(std::move(spare_events_.back()));
    spare_events_.pop_back();
    under_way_.back().record(compute);
  }

  /// Ignores errors, because other calls report them. If a peer is lost, check_peers ends the work that waits for this
  /// peer.
  void drain(const CudaStream& stream) const {
    poll_until([&] { return cudaStreamQuery(stream.get()) != cudaErrorNotReady; },
               [this] {
                 try {
                   communicator_.check_peers();
                 } catch (const std::exception&) {
                 }
               });
    static_cast<void>(cudaGetLastError());
  }

  void enqueue_step(const std::function<void()>& before_update) const {
    step_.enqueue_gradients(before_update ? MeanGradients::readable : MeanGradients::update_only);
    step_.enqueue_means();
    if (before_update) before_update();
    step_.enqueue_update();
  }

  void replay(std::uint32_t count) {
    const cudaStream_t stream = device_.compute_stream().get();
    if (!one_step_) one_step_ = captured(1);  // also if only blocks run: captured_nodes lists its nodes
    if (count == form_.block && count > 1) {
      if (!block_) block_ = captured(form_.block);
      check_cuda(cudaGraphLaunch(block_.get(), stream));
    } else {
      for (std::uint32_t i = 0; i < count; ++i) check_cuda(cudaGraphLaunch(one_step_.get(), stream));
    }
  }

  ExecutableGraph captured(std::uint32_t steps) {
    const auto enqueue = [&] {
      for (std::uint32_t i = 0; i < steps; ++i) enqueue_step({});
    };
    return capture(device_.compute_stream(), enqueue, "a step", steps == 1 ? &captured_nodes_ : nullptr);
  }

  void wait_for_oldest() override {
    device_.wait_for(under_way_.front());
    spare_events_.push_back(std::move(under_way_.front()));
    under_way_.pop_front();
  }

  StepOutcome outcome(std::uint32_t slot) const override { return input_stage_.outcome(slot); }

  CudaDevice& device_;
  Communicator& communicator_;
  InputStage& input_stage_;
  TrainingStep& step_;
  StepRingForm form_;
  bool captures_;
  std::uint64_t steps_enqueued_ = 0;
  CudaEvent uploaded_;
  std::deque<CudaEvent> under_way_;  ///< the end of each launch in flight
  std::vector<CudaEvent> spare_events_;
  ExecutableGraph one_step_, block_;
  std::vector<std::string> captured_nodes_;
  StepQueue queue_;
};

}  // namespace

std::unique_ptr<StepDriver> make_cuda_step_driver(const DrivenTower& tower, const InputStageSpec& form, bool capture) {
  return std::make_unique<CudaStepDriver>(tower, form, capture);
}

}  // namespace carillon
