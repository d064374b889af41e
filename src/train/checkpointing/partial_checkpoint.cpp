#include "src/train/checkpointing/partial_checkpoint.h"

#include <algorithm>

#include "carillon/core/error.h"

namespace carillon {
namespace {

std::vector<float> first_values(const ParameterSpec& spec, std::uint64_t seed, const std::vector<GivenValues>& given) {
  const auto own = std::ranges::find(given, spec.name, &GivenValues::variable);
  return own == given.end() ? initial_values(spec, seed) : own->values;
}

}  // namespace

std::vector<std::string> exclude(const std::vector<std::string>& patterns, const ParameterStore& parameters,
                                 const BufferStore& buffers, std::uint64_t seed, const std::vector<GivenValues>& given,
                                 CheckpointState& checkpoint) {
  check_patterns("--init-exclude", patterns, parameters.specs());
  const auto is_excluded = [&](const NamedArray& array) { return matches_any(patterns, array.name); };
  std::erase_if(checkpoint.variables, is_excluded);
  std::erase_if(checkpoint.buffers, is_excluded);
  std::vector<std::string> names;
  for (const ParameterSpec& spec : parameters.specs()) {
    if (!matches_any(patterns, spec.name)) continue;
    checkpoint.variables.push_back({spec.name, spec.shape.extents(), first_values(spec, seed, given)});
    names.push_back(spec.name);
  }
  for (const BufferSpec& spec : buffers.specs()) {
    if (!matches_any(patterns, spec.name)) continue;
    const auto count = static_cast<std::size_t>(spec.shape.element_count());
    checkpoint.buffers.push_back({spec.name, spec.shape.extents(), std::vector<float>(count, spec.initial_value)});
    names.push_back(spec.name);
  }
  return names;
}

}  // namespace carillon
