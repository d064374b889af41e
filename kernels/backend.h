// Chooses an op's implementation for the device at hand.
#pragma once

#include <memory>

#include "carillon/core/error.h"
#include "carillon/graph/op.h"

namespace carillon {

/// The op that `make_cpu` makes, on a CPU. Errors: no_device for a device that the op has no form for.
template <typename MakeCpu>
std::unique_ptr<Op> on_device(const OpDefinition& definition, const OpContext& context, const MakeCpu& make_cpu) {
  if (context.device->kind() == DeviceKind::cpu) return make_cpu();
  fail(ExitCode::no_device, "op {} has no form for device {}", definition.type(), context.device->name());
}

}  // namespace carillon
