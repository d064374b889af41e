#include "src/step/gradients/whole_batch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/step/gradients/step_sums.h"

namespace carillon {
namespace {

std::unique_ptr<Executable> make_executable(const GradientSourceContext& of) {
  const Value loss = of.network.loss;
  const ExecutableContext context{of.device, of.parameters, of.buffers, of.inputs, of.towers, loss};
  return std::make_unique<Executable>(of.network.graph, context, true, std::vector<Value>{loss});
}

}  // namespace

WholeBatch::WholeBatch(const GradientSourceContext& context)
    : context_(context), executable_(make_executable(context)) {}

void WholeBatch::rebuild() {
  executable_.reset();  // frees its memory before the next one allocates
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

}  // namespace carillon
