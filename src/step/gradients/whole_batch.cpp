// The GradientSource that computes a rank's batch in one pass, on a CPU or a GPU.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "carillon/core/error.h"
#include "src/graph/executable.h"
#include "src/step/gradients/gradient_source.h"

namespace carillon {
namespace {

std::unique_ptr<Executable> make_executable(const GradientSourceContext& of) {
  const Value loss = of.network.loss;
  const ExecutableContext context{of.device, of.parameters, of.buffers, of.inputs, of.towers, loss};
  return std::make_unique<Executable>(of.network.graph, context, true, std::vector<Value>{loss});
}

class WholeBatch final : public GradientSource {
 public:
  explicit WholeBatch(const GradientSourceContext& context);

  void enqueue(GradientSink& sink) override;
  void finish() override {}
  void rebuild() override;
  bool averages_buffers() const override { return false; }
  std::size_t activation_bytes() const override { return executable_->memory_bytes(); }

 private:
  GradientSourceContext context_;
  std::unique_ptr<Executable> executable_;
  /// The next step first sets all gradients to 0, because a new `executable_` may write only some of them.
  bool clears_gradients_ = false;
};

WholeBatch::WholeBatch(const GradientSourceContext& context)
    : context_(context), executable_(make_executable(context)) {}

void WholeBatch::rebuild() {
  executable_.reset();  // frees the memory of the old executable before the new executable allocates memory
  executable_ = make_executable(context_);
  clears_gradients_ = true;
}

void WholeBatch::enqueue(GradientSink& sink) {
  Stream& stream = context_.device.stream();
  executable_->forward(stream);
  sink.acquire(stream);
  if (std::exchange(clears_gradients_, false)) std::ranges::fill(context_.parameters.gradients_and_sums(), 0.0f);
  if (!executable_->writes_step_sums()) {
    write_step_sums(context_.device, executable_->tensor(context_.network.loss), context_.inputs,
                    context_.parameters.step_sums());
  }
  executable_->backward(stream, [&](int parameter) { sink.gradient_complete(parameter, stream); });
}

}  // namespace

std::unique_ptr<GradientSource> make_whole_batch(const GradientSourceContext& context) {
  return std::make_unique<WholeBatch>(context);
}

void write_step_sums(const Device& device, const Tensor& loss, const StepInputs& inputs, std::span<float> sums) {
  check(device.kind() == DeviceKind::cpu, "a GPU's loss does not write the step sums");
  sums[loss_sum] = loss.floats()[0];
  sums[sync_sum] = inputs.request_sync ? 1.0f : 0.0f;
}

}  // namespace carillon
