#include "carillon/graph/parameters.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/core/philox.h"

namespace carillon {
namespace {

std::size_t round_up_to_alignment(std::size_t elements) {
  constexpr std::size_t step = tensor_alignment_bytes / sizeof(float);
  return (elements + step - 1) / step * step;
}

/// A standard normal draw, redrawn while beyond two standard deviations (Box-Muller on Philox words).
float truncated_normal(std::uint64_t seed, std::uint64_t index) {
  constexpr double scale = 0x1p-32;
  for (std::uint32_t attempt = 0;; ++attempt) {
    const Philox4x32 random = philox4x32(seed, philox_counter(RandomPurpose::initializer, index, attempt));
    for (int pair = 0; pair < 4; pair += 2) {
      const double radius = std::sqrt(-2.0 * std::log((random.word[pair] + 1.0) * scale));
      const double angle = 2.0 * std::numbers::pi * random.word[pair + 1] * scale;
      for (const double draw : {radius * std::cos(angle), radius * std::sin(angle)}) {
        if (std::abs(draw) < 2.0) return static_cast<float>(draw);
      }
    }
  }
}

}  // namespace

ParameterLayout::ParameterLayout(const std::vector<ParameterSpec>& specs)
    : offsets_(specs.size()), counts_(specs.size()) {
  for (int i = static_cast<int>(specs.size()) - 1; i >= 0; --i) {
    offsets_[i] = total_;
    counts_[i] = static_cast<std::size_t>(specs[i].shape.element_count());
    total_ += round_up_to_alignment(counts_[i]);
    order_.push_back(i);
  }
}

ParameterStore::ParameterStore(std::vector<ParameterSpec> specs, Device& device, Buffer gradient_memory)
    : specs_(std::move(specs)),
      layout_(specs_),
      values_(device.allocate(layout_.total() * sizeof(float))),
      averages_(device.allocate(layout_.total() * sizeof(float))),
      gradients_(std::move(gradient_memory)) {
  check(gradients_.data() == nullptr || gradients_.bytes() >= (layout_.total() + step_sum_count) * sizeof(float),
        "the gradient memory is too small");
}

Tensor ParameterStore::view(const Buffer& buffer, int parameter) const {
  if (buffer.data() == nullptr) return {};
  return {static_cast<float*>(buffer.data()) + layout_.offset(parameter), specs_.at(parameter).shape, DType::f32};
}

std::span<float> ParameterStore::flat(const Buffer& buffer, std::size_t count) {
  check(buffer.data() != nullptr, "a parameter store without gradients was asked for them");
  return {static_cast<float*>(buffer.data()), count};
}

std::vector<float> initial_values(const ParameterSpec& spec, int parameter, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(spec.shape.element_count()), spec.initializer.value);
  if (spec.initializer.kind == Initializer::Kind::truncated_normal) {
    const std::uint64_t first = static_cast<std::uint64_t>(parameter) << 40;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= truncated_normal(seed, first + i);
  }
  return values;
}

}  // namespace carillon
