#include "src/checkpoint/torch_layout.h"

#include <cstddef>

#include "carillon/core/error.h"

namespace carillon {
namespace {

/// An array of 2 or 4 dimensions as [places][in][out]; a dense layer has one place.
struct Extents {
  std::size_t places = 1, in = 0, out = 0;
};

/// Calls move(index in our layout, index in PyTorch's).
template <typename Move>
void for_each_value(const Extents& extents, const Move& move) {
  for (std::size_t place = 0; place < extents.places; ++place) {
    for (std::size_t in = 0; in < extents.in; ++in) {
      for (std::size_t out = 0; out < extents.out; ++out) {
        move((place * extents.in + in) * extents.out + out, (out * extents.in + in) * extents.places + place);
      }
    }
  }
}

bool differs(std::string_view name, const std::vector<std::int64_t>& shape) {
  return name.ends_with("/weights") && (shape.size() == 2 || shape.size() == 4);
}

Extents extents_of(const std::vector<std::int64_t>& shape, std::size_t count) {
  const std::size_t n = shape.size();
  Extents extents{.in = static_cast<std::size_t>(shape[n - 2]), .out = static_cast<std::size_t>(shape[n - 1])};
  for (std::size_t i = 0; i + 2 < n; ++i) extents.places *= static_cast<std::size_t>(shape[i]);
  check(extents.places * extents.in * extents.out == count, "the shape must be that of the values");
  return extents;
}

}  // namespace

std::vector<std::int64_t> torch_shape(std::string_view name, const std::vector<std::int64_t>& shape) {
  if (!differs(name, shape)) return shape;
  if (shape.size() == 4) return {shape[3], shape[2], shape[0], shape[1]};
  return {shape[1], shape[0]};
}

std::vector<float> to_torch_layout(std::string_view name, const std::vector<float>& values,
                                   const std::vector<std::int64_t>& shape) {
  if (!differs(name, shape)) return values;
  std::vector<float> result(values.size());
  for_each_value(extents_of(shape, values.size()),
                 [&](std::size_t ours, std::size_t torchs) { result[torchs] = values[ours]; });
  return result;
}

std::vector<float> from_torch_layout(std::string_view name, const std::vector<float>& values,
                                     const std::vector<std::int64_t>& shape) {
  if (!differs(name, shape)) return values;
  std::vector<float> result(values.size());
  for_each_value(extents_of(shape, values.size()),
                 [&](std::size_t ours, std::size_t torchs) { result[ours] = values[torchs]; });
  return result;
}

}  // namespace carillon
