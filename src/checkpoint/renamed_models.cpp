#include "src/checkpoint/renamed_models.h"

#include <algorithm>

namespace carillon {

std::string present_model_name(const CheckpointState& state) {
  if (state.model != "resnet18") return state.model;
  const auto stem = std::ranges::find(state.variables, "stem/weights", &NamedArray::name);
  const bool is_3x3 = stem != state.variables.end() && stem->shape == std::vector<std::int64_t>{3, 3, 3, 64};
  return is_3x3 ? "resnet18_cifar" : state.model;
}

}  // namespace carillon
