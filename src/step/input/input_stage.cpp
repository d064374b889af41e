#include "src/step/input/input_stage.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "src/core/has_cuda.h"

namespace carillon {
namespace {

class CpuInputStage final : public InputStage {
 public:
  CpuInputStage(Device& device, const InputStageSpec& form)
      : batch_size_(form.batch_size), targets_(device.allocate(form.batch_size * form.target_bytes)) {
    inputs_.targets = static_cast<std::byte*>(targets_.data());
  }

  void write(std::uint32_t /*slot*/, const StepRequest& request) override {
    check(request.batch.images.size() == batch_size_, "the batch size differs from the input stage's");
    inputs_.batch = request.batch;
    inputs_.scalars = request.scalars;
    inputs_.request_sync = request.request_sync;
    if (targets_.bytes() == 0) return;
    check(request.batch.targets.size() == targets_.bytes(),
          "the size of the batch's targets differs from the input stage's");
    std::ranges::copy(request.batch.targets, inputs_.targets);
  }
  void upload(std::uint32_t /*first*/, std::uint32_t /*count*/, Stream& /*stream*/) override {}
  StepOutcome outcome(std::uint32_t /*slot*/) const override {
    fail(ExitCode::failed, "a CPU's step has its results in the step sums");
  }

 private:
  std::size_t batch_size_;
  Buffer targets_;
};

}  // namespace

std::unique_ptr<InputStage> make_input_stage(Device& device, const InputStageSpec& form) {
  if (device.kind() == DeviceKind::cpu) {
    check(form.slots == 1, "a CPU's input stage must have one slot");
    return std::make_unique<CpuInputStage>(device, form);
  }
  if constexpr (has_cuda) return make_cuda_input_stage(device, form);
  fail(ExitCode::failed, "this build has no input stage for device {}", device.name());
}

}  // namespace carillon
