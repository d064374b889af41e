#include "src/step/update/compute_copies.h"

#include <algorithm>

#include "kernels/shared/convert.h"
#include "src/core/has_cuda.h"

namespace carillon {
namespace {

/// `input`: shape of input 0 of the op that reads the parameter.
ComputeCopy make_compute_copy(const Shape& shape, ComputeCopyFormat form, DType type, const Shape& input,
                              Device& device) {
  if (form == ComputeCopyFormat::none || (form == ComputeCopyFormat::same_layout && type == DType::f32)) return {};
  ComputeCopy compute_copy{.tensor = {nullptr, shape, type}, .form = form};
  if (form == ComputeCopyFormat::filter_major) {
    compute_copy.padding = channel_padding(shape, input);
    const std::int64_t columns = shape.extents().back(), rows = shape.element_count() / columns;
    compute_copy.tensor.shape = {columns, compute_copy.padding.extent(rows)};
  }
  // The update writes whole lines.
  const std::size_t count = static_cast<std::size_t>(compute_copy.tensor.shape.element_count());
  compute_copy.memory = device.allocate(aligned_float_count(count) * size_of(type));
  compute_copy.tensor.data = compute_copy.memory.data();
  return compute_copy;
}

bool are_equal(const ComputeCopy& a, const ComputeCopy& b) {
  return a.form == b.form && a.tensor.shape == b.tensor.shape && a.tensor.type == b.tensor.type &&
         a.padding.channels == b.padding.channels && a.padding.padded == b.padding.padded;
}

}  // namespace

std::vector<ComputeCopy> make_compute_copies(const Graph& graph, Device& device) {
  std::vector<ComputeCopy> compute_copies;
  if (device.kind() != DeviceKind::cuda) return compute_copies;
  compute_copies.resize(graph.parameters().size());
  std::vector<bool> is_made(graph.parameters().size());
  for (const Graph::Node& node : graph.nodes()) {
    if (node.inputs.empty() || node.traits.compute_copy_format == nullptr) continue;
    const Graph::ValueInfo& input = graph.values()[node.inputs[0]];
    for (std::size_t i = 0; i < node.parameters.size(); ++i) {
      const auto parameter = static_cast<std::size_t>(node.parameters[i]);
      const ComputeCopyFormat form = node.traits.compute_copy_format(static_cast<int>(i));
      ComputeCopy copy = make_compute_copy(graph.parameters()[parameter].shape, form, input.type, input.shape, device);
      if (is_made[parameter] && !are_equal(copy, compute_copies[parameter])) {
        compute_copies[parameter] = {};  // ops that share the parameter read it in different formats
      } else if (!is_made[parameter]) {
        compute_copies[parameter] = std::move(copy);
      }
      is_made[parameter] = true;
    }
  }
  // If there are no compute copies, returns an empty list, so that the update does not look for any.
  if (std::ranges::none_of(compute_copies, [](const ComputeCopy& c) { return bool(c.tensor); })) return {};
  return compute_copies;
}

void refresh_compute_copies(const ParameterStore& parameters, Device& device) {
  if constexpr (has_cuda) {
    for (std::size_t i = 0; i < parameters.compute_copies().size(); ++i) {
      const ComputeCopy& compute_copy = parameters.compute_copies()[i];
      if (!compute_copy.tensor) continue;
      const Tensor value = parameters.value(static_cast<int>(i));
      if (compute_copy.form == ComputeCopyFormat::same_layout) {
        convert_cuda(value, compute_copy.tensor, device.stream());
      } else {
        const std::int64_t columns = compute_copy.tensor.shape[0];
        transpose_cuda({.from = value, .to = compute_copy.tensor, .to_padding = compute_copy.padding},
                       value.shape.element_count() / columns, columns, device.stream());
      }
    }
  }
}

}  // namespace carillon
