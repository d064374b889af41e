#include "src/step/shadows.h"

#include "carillon/core/has_cuda.h"
#include "kernels/shared/convert.h"

namespace carillon {
namespace {

/// `input`: of the op that reads the parameter of this shape.
Shadow make_shadow(const Shape& shape, ShadowForm form, DType type, const Shape& input, Device& device) {
  if (form == ShadowForm::none || (form == ShadowForm::as_it_lies && type == DType::f32)) return {};
  Shadow shadow{.tensor = {nullptr, shape, type}, .form = form};
  if (form == ShadowForm::filter_major) {
    shadow.padding = channel_padding(shape, input);
    const std::int64_t columns = shape.extents().back(), rows = shape.element_count() / columns;
    shadow.tensor.shape = {columns, shadow.padding.extent(rows)};
  }
  // The update writes a parameter's lines whole.
  const std::size_t count = static_cast<std::size_t>(shadow.tensor.shape.element_count());
  shadow.memory = device.allocate(aligned_float_count(count) * size_of(type));
  shadow.tensor.data = shadow.memory.data();
  return shadow;
}

}  // namespace

std::vector<Shadow> make_shadows(const Graph& graph, Device& device) {
  std::vector<Shadow> shadows;
  if (device.kind() != DeviceKind::cuda) return shadows;
  shadows.resize(graph.parameters().size());
  for (const Graph::Node& node : graph.nodes()) {
    if (node.inputs.empty()) continue;
    const Graph::ValueInfo& input = graph.values()[node.inputs[0]];
    for (std::size_t i = 0; i < node.parameters.size(); ++i) {
      const auto parameter = static_cast<std::size_t>(node.parameters[i]);
      const ShadowForm form = node.definition->shadow_form(static_cast<int>(i));
      shadows[parameter] = make_shadow(graph.parameters()[parameter].shape, form, input.type, input.shape, device);
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
        const std::int64_t columns = shadow.tensor.shape[0];
        transpose_cuda({.from = value, .to = shadow.tensor, .to_padding = shadow.padding},
                       value.shape.element_count() / columns, columns, device.stream());
      }
    }
  }
}

}  // namespace carillon
