#include "src/step/shadows.h"

#include "carillon/core/has_cuda.h"
#include "kernels/shared/convert.h"

namespace carillon {
namespace {

Shadow make_shadow(const Shape& shape, ShadowForm form, DType type, Device& device) {
  if (form == ShadowForm::none || (form == ShadowForm::as_it_lies && type == DType::f32)) return {};
  const std::int64_t count = shape.element_count(), columns = shape.extents().back();
  Shadow shadow{.tensor = {nullptr, form == ShadowForm::filter_major ? Shape{columns, count / columns} : shape, type},
                .form = form};
  // The update writes a parameter's lines whole.
  shadow.memory = device.allocate(aligned_float_count(static_cast<std::size_t>(count)) * size_of(type));
  shadow.tensor.data = shadow.memory.data();
  return shadow;
}

}  // namespace

std::vector<Shadow> make_shadows(const Graph& graph, Device& device) {
  std::vector<Shadow> shadows;
  if (device.kind() != DeviceKind::cuda) return shadows;
  shadows.resize(graph.parameters().size());
  for (const Graph::Node& node : graph.nodes()) {
    const DType type = graph.values()[node.outputs[0]].type;
    for (std::size_t i = 0; i < node.parameters.size(); ++i) {
      const auto parameter = static_cast<std::size_t>(node.parameters[i]);
      const ShadowForm form = node.definition->shadow_form(static_cast<int>(i));
      shadows[parameter] = make_shadow(graph.parameters()[parameter].shape, form, type, device);
    }
  }
  return shadows;
}

void refresh_shadows(const ParameterStore& parameters, Device& device) {
  if constexpr (has_cuda) {
    for (std::size_t i = 0; i < parameters.shadows().size(); ++i) {
      const Shadow& shadow = parameters.shadows()[i];
      if (!shadow.tensor) continue;
      const Tensor value = parameters.value(static_cast<int>(i));
      if (shadow.form == ShadowForm::as_it_lies) {
        convert_cuda(value, shadow.tensor, device.stream());
      } else {
        transpose_cuda(value, shadow.tensor, shadow.tensor.shape[1], shadow.tensor.shape[0], device.stream());
      }
    }
  }
}

}  // namespace carillon
