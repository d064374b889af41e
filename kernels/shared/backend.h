// Chooses an op's implementation for the device at hand.
#pragma once

#include <memory>

#include "carillon/core/error.h"
#include "carillon/graph/op.h"
#include "src/core/has_cuda.h"

namespace carillon {

/// The op that `make_cpu` or `make_cuda` makes, as the device asks.
template <typename MakeCpu, typename MakeCuda>
std::unique_ptr<Op> on_device(const OpContext& context, const MakeCpu& make_cpu, const MakeCuda& make_cuda) {
  if (context.device->kind() == DeviceKind::cpu) return make_cpu();
  if constexpr (has_cuda) return make_cuda();
  fail(ExitCode::failed, "this build has no form of an op for device {}", context.device->name());
}

}  // namespace carillon
