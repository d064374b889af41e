#include "carillon/graph/parameters.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/core/philox.h"

namespace carillon {
namespace {

/// The Philox key of a variable, and the index of its first element in the sequence of random numbers.
struct Draws {
  std::uint64_t key, first_index;
};

Draws draws_of(const ParameterSpec& spec, std::uint64_t seed) {
  const int number = spec.initializer.number;
  if (number >= 0) return {seed, static_cast<std::uint64_t>(number) << 40};
  return {philox_key_of(seed, RandomPurpose::variable_name, spec.name), 0};
}

/// Draws a standard normal number (Box-Muller on Philox words). Repeats the draw while the number is beyond two
/// standard deviations.
float truncated_normal(std::uint64_t key, std::uint64_t index) {
  constexpr double scale = 0x1p-32;
  for (std::uint32_t attempt = 0;; ++attempt) {
    const Philox4x32 random = philox4x32(key, philox_counter(RandomPurpose::initializer, index, attempt));
    for (int pair = 0; pair < 4; pair += 2) {
      const double radius = std::sqrt(-2.0 * std::log((random.word[pair] + 1.0) * scale));
      const double angle = 2.0 * std::numbers::pi * random.word[pair + 1] * scale;
      for (const double draw : {radius * std::cos(angle), radius * std::sin(angle)}) {
        if (std::abs(draw) < 2.0) return static_cast<float>(draw);
      }
    }
  }
}

/// Draws uniformly from [-1, 1).
float uniform_around_zero(std::uint64_t key, std::uint64_t index) {
  const Philox4x32 random = philox4x32(key, philox_counter(RandomPurpose::initializer, index, 0));
  return 2.0f * uniform_float(random.word[0]) - 1.0f;
}

void set_dirac_filters(const ParameterSpec& spec, std::vector<float>& values) {
  const Shape& shape = spec.shape;
  check(shape.rank() == 4 && shape[0] % 2 == 1 && shape[1] % 2 == 1,
        "dirac filters require 4 extents, height and width odd");
  const std::int64_t in = shape[2], out = shape[3], places = shape[0] * shape[1], middle = places / 2;
  for (std::int64_t o = 0; o < std::min(in, out); ++o) {
    for (std::int64_t i = 0; i < places * in; ++i) values[static_cast<std::size_t>(i * out + o)] = 0.0f;
    values[static_cast<std::size_t>((middle * in + o) * out + o)] = 1.0f;
  }
}

}  // namespace

ParameterLayout::ParameterLayout(const std::vector<ParameterSpec>& specs)
    : offsets_(specs.size()), counts_(specs.size()) {
  for (int i = static_cast<int>(specs.size()) - 1; i >= 0; --i) {
    offsets_[i] = total_;
    counts_[i] = static_cast<std::size_t>(specs[i].shape.element_count());
    total_ += aligned_float_count(counts_[i]);
    order_.push_back(i);
  }
}

std::size_t gradient_bytes(const ParameterLayout& layout, std::size_t sum_count) {
  return (layout.total() + sum_count) * sizeof(float);
}

std::size_t value_bytes(const ParameterLayout& layout) { return layout.total() * sizeof(float); }

ParameterStore::ParameterStore(std::vector<ParameterSpec> specs, Device& device, ParameterMemory memory,
                               std::vector<Slot> slots, std::size_t sum_count)
    : specs_(std::move(specs)),
      layout_(specs_),
      slots_(std::move(slots)),
      sum_count_(sum_count),
      memory_(std::move(memory)) {
  const std::size_t bytes = value_bytes(layout_), slot_bytes = slots_.size() * bytes;
  if (memory_.values.data() == nullptr) memory_.values = device.allocate(bytes);
  if (memory_.slots.data() == nullptr && slot_bytes > 0) memory_.slots = device.allocate(slot_bytes);
  check(memory_.values.bytes() >= bytes, "the memory of the variables is too small");
  check(memory_.slots.bytes() >= slot_bytes, "the memory of the slots is too small");
  check(memory_.gradients.data() == nullptr || memory_.gradients.bytes() >= gradient_bytes(layout_, sum_count_),
        "the gradient memory is too small");
}

int ParameterStore::slot_named(std::string_view name) const {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].name == name) return static_cast<int>(i);
  }
  fail(ExitCode::failed, "the optimiser has no slot '{}'", name);
}

Tensor ParameterStore::gradient(int parameter) const {
  return memory_.gradients.data() == nullptr ? Tensor{} : view(gradients_and_sums(), parameter);
}

std::span<float> ParameterStore::slot(int slot) const {
  check(slot >= 0 && static_cast<std::size_t>(slot) < slots_.size(), "no slot of the parameter store has this number");
  return array(memory_.slots, static_cast<std::size_t>(slot));
}

std::span<float> ParameterStore::gradients_and_sums() const {
  check(memory_.gradients.data() != nullptr, "the parameter store has no gradients");
  return {static_cast<float*>(memory_.gradients.data()), layout_.total() + sum_count_};
}

Tensor ParameterStore::view(std::span<float> array, int parameter) const {
  return {array.data() + layout_.offset(parameter), specs_.at(parameter).shape, DType::f32};
}

std::span<float> ParameterStore::array(const Buffer& buffer, std::size_t number) const {
  return {static_cast<float*>(buffer.data()) + number * layout_.total(), layout_.total()};
}

BufferStore::BufferStore(std::vector<BufferSpec> specs, Device& device) : specs_(std::move(specs)) {
  std::size_t total = 0;
  for (const BufferSpec& spec : specs_) {
    offsets_.push_back(total);
    total += aligned_float_count(static_cast<std::size_t>(spec.shape.element_count()));
  }
  if (total == 0) return;
  memory_ = device.allocate(total * sizeof(float));
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const Tensor buffer = tensor(static_cast<int>(i));
    const std::vector<float> initial(static_cast<std::size_t>(buffer.shape.element_count()), specs_[i].initial_value);
    upload_floats(device, initial, buffer);
  }
}

Tensor BufferStore::tensor(int buffer) const {
  return {static_cast<float*>(memory_.data()) + offsets_.at(buffer), specs_.at(buffer).shape, DType::f32};
}

bool name_matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return name_matches(pattern, name); });
}

void check_patterns(const std::string& option, const std::vector<std::string>& patterns,
                    const std::vector<ParameterSpec>& variables) {
  std::vector<std::string_view> names;
  for (const ParameterSpec& variable : variables) names.push_back(variable.name);
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(variables, [&](const ParameterSpec& v) { return name_matches(pattern, v.name); })) continue;
    fail(ExitCode::usage, "{}: '{}' matches no variable; there are: {}", option, pattern, fmt::join(names, ", "));
  }
}

std::vector<float> initial_values(const ParameterSpec& spec, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(spec.shape.element_count()), spec.initializer.value);
  if (spec.initializer.kind == Initializer::Kind::constant) return values;
  const bool is_uniform = spec.initializer.kind == Initializer::Kind::uniform;
  const auto draw = is_uniform ? uniform_around_zero : truncated_normal;
  const Draws draws = draws_of(spec, seed);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= draw(draws.key, draws.first_index + i);
  if (spec.initializer.dirac) set_dirac_filters(spec, values);
  return values;
}

}  // namespace carillon
