// Shadow: a parameter once more, in the type and the order in which products read it. The update writes both, so that
// no step has to copy them (src/step/shadows.h).
#pragma once

#include "carillon/core/tensor.h"
#include "carillon/device/device.h"

namespace carillon {

enum class ShadowForm {
  none,
  as_it_lies,    ///< in the activations' type
  filter_major,  ///< [last extent, all others], in the activations' type
};

struct Shadow {
  Tensor tensor;  ///< no data: the parameter has none
  ShadowForm form = ShadowForm::none;
  Buffer memory = {};  ///< the tensor's
};

}  // namespace carillon
