#include "src/step/tensor_io.h"

#include <algorithm>
#include <cmath>

#include "carillon/core/error.h"

namespace carillon {

std::vector<NamedTensor> variables_of(const ParameterStore& parameters) {
  return parts_of(parameters.values(), parameters);
}

std::vector<NamedTensor> parts_of(std::span<float> array, const ParameterStore& parameters) {
  std::vector<NamedTensor> named;
  for (std::size_t i = 0; i < parameters.specs().size(); ++i) {
    const ParameterSpec& spec = parameters.specs()[i];
    named.push_back(
        {spec.name, {array.data() + parameters.layout().offset(static_cast<int>(i)), spec.shape, DType::f32}});
  }
  return named;
}

std::vector<NamedTensor> buffers_of(const BufferStore& buffers) {
  std::vector<NamedTensor> named;
  for (std::size_t i = 0; i < buffers.specs().size(); ++i) {
    named.push_back({buffers.specs()[i].name, buffers.tensor(static_cast<int>(i))});
  }
  return named;
}

const NamedArray* find_not_finite(std::span<const NamedArray> arrays) {
  const auto found = std::ranges::find_if_not(arrays, [](const NamedArray& array) {
    return std::ranges::all_of(array.values, [](float value) { return std::isfinite(value); });
  });
  return found == arrays.end() ? nullptr : &*found;
}

std::vector<NamedArray> download(const std::vector<NamedTensor>& tensors, Device& device) {
  std::vector<NamedArray> arrays;
  for (const auto& [name, tensor] : tensors) {
    arrays.push_back({name, tensor.shape.extents(), download_floats(device, tensor)});
  }
  return arrays;
}

void upload(const std::vector<NamedArray>& arrays, const std::vector<NamedTensor>& tensors, Device& device,
            const std::filesystem::path& path) {
  const std::string what = path.string();
  for (const NamedArray& array : arrays) {
    if (std::ranges::find(tensors, array.name, &NamedTensor::name) == tensors.end()) {
      fail(ExitCode::data, "{} holds a variable '{}' that the model does not have", what, array.name);
    }
  }
  std::vector<const NamedArray*> found;
  for (const auto& [name, tensor] : tensors) {
    const auto array = std::ranges::find(arrays, name, &NamedArray::name);
    if (array == arrays.end()) fail(ExitCode::data, "{} lacks the model's variable '{}'", what, name);
    const Shape& shape = tensor.shape;
    if (array->shape != shape.extents()) {
      fail(ExitCode::data, "{} holds '{}' of shape {}, the model's is {}", what, array->name,
           Shape(array->shape).text(), shape.text());
    }
    found.push_back(&*array);
  }
  for (std::size_t i = 0; i < found.size(); ++i) upload_floats(device, found[i]->values, tensors[i].tensor);
}

}  // namespace carillon
