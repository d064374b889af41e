// attention on a GPU: uses a fused operation of cuDNN if there is one (bf16), otherwise matrix products.
#include <fmt/format.h>

#include <optional>

#include "carillon/core/error.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_plan_cuda.h"
#include "src/device/cuda_backend.h"
#include "src/device/cuda_device.h"

namespace carillon {
namespace {

/// Returns the device's plan for the task, or null if cuDNN has no plan.
const AttentionPlan* shared_plan(CudaDevice& device, const AttentionTask& task) {
  const AttentionShape& shape = task.shape;
  const std::string key =
      fmt::format("pass {}, batch {}, tokens {}, width {}, heads {}, workspace {}", static_cast<int>(task.pass),
                  shape.batch, shape.tokens, shape.width, shape.heads, task.workspace_bytes);
  return device.shared().get<AttentionPlan>(key, [&] {
    std::string reason;
    return AttentionPlan::find({.handle = device.cudnn()}, task, reason);
  });
}

/// The plans of an op. `backward` is null if the op computes no gradient.
struct AttentionPlans {
  const AttentionPlan* forward = nullptr;
  const AttentionPlan* backward = nullptr;
};

/// Finds the plans of the op. Returns nullopt if cuDNN has no plan.
std::optional<AttentionPlans> find_plans(CudaDevice& device, const AttentionShape& shape, bool training) {
  const auto plan = [&](AttentionPass pass) {
    return shared_plan(device, {.pass = pass, .shape = shape, .workspace_bytes = device.workspace().size()});
  };
  AttentionPlans plans{.forward = plan(training ? AttentionPass::training : AttentionPass::evaluation)};
  if (!plans.forward) return std::nullopt;
  if (training) plans.backward = plan(AttentionPass::backward);
  if (training && !plans.backward) return std::nullopt;
  return plans;
}

class FusedAttentionCuda final : public Op {
 public:
  FusedAttentionCuda(const AttentionPlans& plans, const AttentionShape& shape, CudaDevice& device,
                     const OpTensors& tensors)
      : device_(device), plans_(plans) {
    memory_ = {.qkv = tensors.inputs.at(0).data, .y = tensors.outputs.at(0).data};
    if (!plans.backward) return;
    statistics_ = device.allocate(static_cast<std::size_t>(shape.batch * shape.heads * shape.tokens) * sizeof(float));
    memory_.statistics = statistics_.data();
    memory_.dy = tensors.output_gradients.at(0).data;
    memory_.dqkv = tensors.input_gradients.at(0).data;
  }

  void forward(Stream& stream) override { run(*plans_.forward, stream); }
  void backward(Stream& stream) override {
    if (plans_.backward) run(*plans_.backward, stream);
  }

 private:
  void run(const AttentionPlan& plan, Stream& stream) const {
    check(as_cuda(stream).get() == device_.compute_stream().get(),
          "cuDNN must run on the compute stream of its device");
    plan.run(device_.cudnn(), memory_, device_.workspace().data());
  }

  CudaDevice& device_;
  AttentionPlans plans_;
  Buffer statistics_;
  AttentionPlan::Memory memory_;
};

}  // namespace

std::unique_ptr<Op> make_attention_cuda(const AttentionParams& params, const OpContext& context,
                                        const OpTensors& tensors) {
  CudaDevice& device = as_cuda(*context.device);
  const AttentionShape shape(tensors.outputs.at(0).shape, params);
  const bool training = !tensors.output_gradients.empty() && tensors.input_gradients.at(0);
  if (context.arithmetic == Arithmetic::bf16 && !is_switched_off("fused_attention")) {
    if (const auto plans = find_plans(device, shape, training)) {
      return std::make_unique<FusedAttentionCuda>(*plans, shape, device, tensors);
    }
  }
  return make_attention_products_cuda(params, context, tensors);
}

}  // namespace carillon
