// attention on a GPU. In bf16, uses a fused operation of cuDNN if there is one; otherwise uses matrix products.
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

/// A plan, and the number of equal parts into which the op divides the batch. The plan computes one part; the op runs
/// the plan once for each part.
struct DividedPlan {
  const AttentionPlan* plan = nullptr;  ///< null: cuDNN has no plan
  std::int64_t parts = 1;
};

/// Divides the batch if the workspace is too small for the whole batch. Only the backward pass needs a workspace: for
/// 577 tokens and 12 heads, it needs 9.9 MB for each sample. The smallest part is a sixteenth of the batch, because
/// fewer samples would not fill a GPU.
DividedPlan find_plan(CudaDevice& device, AttentionTask task) {
  constexpr std::int64_t most_parts = 16;
  const std::int64_t batch = task.shape.batch;
  for (std::int64_t parts = 1; parts <= most_parts && batch % parts == 0; parts *= 2) {
    task.shape.batch = batch / parts;
    if (const AttentionPlan* const plan = shared_plan(device, task)) return {plan, parts};
  }
  return {};
}

/// The plans of an op. `backward` has no plan if no gradient is needed.
struct AttentionPlans {
  DividedPlan forward, backward;
};

/// Finds the plans of the op. Returns nullopt if cuDNN has no plan.
std::optional<AttentionPlans> find_plans(CudaDevice& device, const AttentionShape& shape, bool training) {
  const auto plan = [&](AttentionPass pass) {
    return find_plan(device, {.pass = pass, .shape = shape, .workspace_bytes = device.workspace().size()});
  };
  AttentionPlans plans{.forward = plan(training ? AttentionPass::training : AttentionPass::evaluation)};
  if (plans.forward.plan == nullptr) return std::nullopt;
  if (training) plans.backward = plan(AttentionPass::backward);
  if (training && plans.backward.plan == nullptr) return std::nullopt;
  return plans;
}

class FusedAttentionCuda final : public Op {
 public:
  FusedAttentionCuda(const AttentionPlans& plans, const AttentionShape& shape, CudaDevice& device,
                     const OpTensors& tensors)
      : device_(device), shape_(shape), plans_(plans) {
    memory_ = {.qkv = tensors.inputs.at(0).data, .y = tensors.outputs.at(0).data};
    if (plans.backward.plan == nullptr) return;
    statistics_ = device.allocate(static_cast<std::size_t>(shape.batch * shape.heads * shape.tokens) * sizeof(float));
    memory_.statistics = statistics_.data();
    memory_.dy = tensors.output_gradients.at(0).data;
    memory_.dqkv = tensors.input_gradients.at(0).data;
  }

  void forward(Stream& stream) override { run(plans_.forward, stream); }
  void backward(Stream& stream) override {
    if (plans_.backward.plan != nullptr) run(plans_.backward, stream);
  }

 private:
  void run(const DividedPlan& divided, Stream& stream) const {
    check(as_cuda(stream).get() == device_.compute_stream().get(),
          "cuDNN must run on the compute stream of its device");
    for (std::int64_t part = 0; part < divided.parts; ++part) {
      divided.plan->run(device_.cudnn(), memory_from(part * shape_.batch / divided.parts), device_.workspace().data());
    }
  }

  /// Returns the address of sample number `sample` in each tensor.
  AttentionPlan::Memory memory_from(std::int64_t sample) const {
    const std::int64_t output = sample * shape_.tokens * shape_.width * static_cast<std::int64_t>(size_of(DType::bf16));
    const std::int64_t statistics = sample * shape_.heads * shape_.tokens * std::int64_t{sizeof(float)};
    const auto from = [](void* first, std::int64_t bytes) -> void* {
      return first == nullptr ? nullptr : static_cast<std::byte*>(first) + bytes;
    };
    return {.qkv = from(memory_.qkv, 3 * output),
            .y = from(memory_.y, output),
            .statistics = from(memory_.statistics, statistics),
            .dy = from(memory_.dy, output),
            .dqkv = from(memory_.dqkv, 3 * output)};
  }

  CudaDevice& device_;
  AttentionShape shape_;
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
