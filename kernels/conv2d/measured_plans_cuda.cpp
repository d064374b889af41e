// The table of measured plans (conv2d_plan_cuda.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>

#include "kernels/conv2d/conv2d_plan_cuda.h"
#include "src/device/cuda_backend.h"

namespace carillon {
namespace {

constexpr std::initializer_list<MeasuredPlan> table = {
#include "kernels/conv2d/measured_plans.inc"
};

std::string_view name_of(Conv2dPass pass) {
  switch (pass) {
    case Conv2dPass::forward:
      return "forward";
    case Conv2dPass::forward_bias:
      return "forward_bias";
    case Conv2dPass::weights_gradient:
      return "weights_gradient";
    case Conv2dPass::data_gradient:
      return "data_gradient";
  }
  return "?";
}

std::string_view name_of(Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::bf16) return "bf16";
  return arithmetic == Arithmetic::tf32 ? "tf32" : "fp32";
}

}  // namespace

std::span<const MeasuredPlan> measured_plans() {
  if (is_switched_off("measured_plans")) return {};
  return {table.begin(), table.size()};
}

std::string convolution_text(const GpuModel& gpu, std::size_t cudnn_version, const Conv2dTask& task) {
  const Conv2dLayout& layout = task.layout;
  std::string text = fmt::format("sm_{} x {}, cuDNN {}, {}, {} {}, x {}, weights {}, y {}, stride {}, padding {} {}",
                                 gpu.compute_capability, gpu.multiprocessors, cudnn_version, name_of(task.pass),
                                 name_of(task.arithmetic), task.type == DType::bf16 ? "bf16" : "f32",
                                 fmt::join(layout.x.extents, "x"), fmt::join(layout.weights.extents, "x"),
                                 fmt::join(layout.y.extents, "x"), fmt::join(layout.stride, "x"),
                                 fmt::join(layout.padding_before, "x"), fmt::join(layout.padding_after, "x"));
  if (layout.dilation != std::array<std::int64_t, 2>{1, 1})
    text += fmt::format(", dilation {}", fmt::join(layout.dilation, "x"));
  return text;
}

std::string_view measured_kernel(std::span<const MeasuredPlan> plans, std::string_view convolution) {
  const auto found = std::ranges::find(plans, convolution, &MeasuredPlan::convolution);
  return found == plans.end() ? std::string_view{} : found->kernel;
}

}  // namespace carillon
