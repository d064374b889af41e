// on_device: chooses an op's implementation for the context's device.
#pragma once

#include <memory>

#include "carillon/core/error.h"
#include "carillon/graph/op.h"
#include "src/core/has_cuda.h"

namespace carillon {

/// Returns make_cpu() or make_cuda(), depending on the context's device.
template <typename MakeCpu, typename MakeCuda>
std::unique_ptr<Op> on_device(const OpContext& context, const MakeCpu& make_cpu, const MakeCuda& make_cuda) {
  if (context.device->kind() == DeviceKind::cpu) return make_cpu();
  if constexpr (has_cuda) return make_cuda();
  fail(ExitCode::failed, "this build has no CUDA ops (device {})", context.device->name());
}

}  // namespace carillon
