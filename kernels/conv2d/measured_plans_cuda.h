// Plans of cuDNN that were measured once on a GPU, and were the fastest for their convolution. CUDA builds only.
//
// A measurement at every start could choose another kernel in every run, and then two runs would differ in their bits.
// tests/gpu/time_conv_plans_gpu.cpp measures; tests/gpu/measured_plans.py writes the table, measured_plans.inc.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "kernels/shared/cudnn_target.h"

namespace carillon {

struct Conv2dTask;

struct MeasuredPlan {
  std::string_view convolution;  ///< as convolution_text
  std::string_view kernel;       ///< cuDNN's name of the kernel, with its parameters
};

/// The table; empty if is_switched_off("measured_plans").
std::span<const MeasuredPlan> measured_plans();

/// The conditions of a measurement: GPU, version of cuDNN, pass, types, extents.
std::string convolution_text(const GpuModel& gpu, std::size_t cudnn_version, const Conv2dTask& task);

/// The kernel of the entry for `convolution`; empty: the table has none.
std::string_view measured_kernel(std::span<const MeasuredPlan> plans, std::string_view convolution);

}  // namespace carillon
