#include "src/step/tensor_io.h"

#include <algorithm>
#include <cmath>

#include "carillon/core/error.h"

namespace carillon {

NamedTensors variables_of(const ParameterStore& parameters) { return parts_of(parameters.values(), parameters); }

NamedTensors parts_of(std::span<float> array, const ParameterStore& parameters) {
  NamedTensors named;
  for (std::size_t i = 0; i < parameters.specs().size(); ++i) {
    const ParameterSpec& spec = parameters.specs()[i];
    named.names.push_back(spec.name);
    named.tensors.push_back({array.data() + parameters.layout().offset(static_cast<int>(i)), spec.shape, DType::f32});
  }
  return named;
}

NamedTensors buffers_of(const BufferStore& buffers) {
  NamedTensors named;
  for (std::size_t i = 0; i < buffers.specs().size(); ++i) {
    named.names.push_back(buffers.specs()[i].name);
    named.tensors.push_back(buffers.tensor(static_cast<int>(i)));
  }
  return named;
}

const NamedArray* find_not_finite(std::span<const NamedArray> arrays) {
  const auto found = std::ranges::find_if_not(arrays, [](const NamedArray& array) {
    return std::ranges::all_of(array.values, [](float value) { return std::isfinite(value); });
  });
  return found == arrays.end() ? nullptr : &*found;
}

std::vector<NamedArray> download(const NamedTensors& tensors, Device& device) {
  std::vector<NamedArray> arrays;
  for (std::size_t i = 0; i < tensors.names.size(); ++i) {
    const Tensor& tensor = tensors.tensors[i];
    arrays.push_back({tensors.names[i], tensor.shape.extents(), download_floats(device, tensor)});
  }
  return arrays;
}

void upload(const std::vector<NamedArray>& arrays, const NamedTensors& tensors, Device& device,
            const std::filesystem::path& path) {
  const std::string what = path.string();
  for (const NamedArray& array : arrays) {
    if (std::find(tensors.names.begin(), tensors.names.end(), array.name) == tensors.names.end()) {
      fail(ExitCode::data, "{} holds a variable '{}' that the model does not have", what, array.name);
    }
  }
  std::vector<const NamedArray*> found;
  for (std::size_t i = 0; i < tensors.names.size(); ++i) {
    const auto array = std::find_if(arrays.begin(), arrays.end(),
                                    [&](const NamedArray& candidate) { return candidate.name == tensors.names[i]; });
    if (array == arrays.end()) fail(ExitCode::data, "{} lacks the model's variable '{}'", what, tensors.names[i]);
    const Shape& shape = tensors.tensors[i].shape;
    if (array->shape != shape.extents()) {
      fail(ExitCode::data, "{} holds '{}' of shape {}, the model's is {}", what, array->name,
           Shape(array->shape).text(), shape.text());
    }
    found.push_back(&*array);
  }
  for (std::size_t i = 0; i < found.size(); ++i) upload_floats(device, found[i]->values, tensors.tensors[i]);
}

}  // namespace carillon
