#include "src/train/checkpointing/partial_checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "carillon/core/error.h"

namespace carillon {
namespace {

bool matches_one(const std::vector<std::string>& patterns, const std::string& name) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return name_matches(pattern, name); });
}

void check_patterns(const std::vector<std::string>& patterns, const std::vector<ParameterSpec>& variables) {
  std::vector<std::string_view> names;
  for (const ParameterSpec& variable : variables) names.push_back(variable.name);
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(variables, [&](const ParameterSpec& v) { return name_matches(pattern, v.name); })) continue;
    fail(ExitCode::usage, "--init-exclude: '{}' matches no variable; there are: {}", pattern, fmt::join(names, ", "));
  }
}

std::vector<float> first_values(const ParameterSpec& spec, std::uint64_t seed, const std::vector<GivenValues>& given) {
  const auto own = std::ranges::find(given, spec.name, &GivenValues::variable);
  return own == given.end() ? initial_values(spec, seed) : own->values;
}

}  // namespace

std::vector<std::string> exclude(const std::vector<std::string>& patterns, const ParameterStore& parameters,
                                 const BufferStore& buffers, std::uint64_t seed, const std::vector<GivenValues>& given,
                                 CheckpointState& checkpoint) {
  check_patterns(patterns, parameters.specs());
  const auto is_excluded = [&](const NamedArray& array) { return matches_one(patterns, array.name); };
  std::erase_if(checkpoint.variables, is_excluded);
  std::erase_if(checkpoint.buffers, is_excluded);
  std::vector<std::string> names;
  for (const ParameterSpec& spec : parameters.specs()) {
    if (!matches_one(patterns, spec.name)) continue;
    checkpoint.variables.push_back({spec.name, spec.shape.extents(), first_values(spec, seed, given)});
    names.push_back(spec.name);
  }
  for (const BufferSpec& spec : buffers.specs()) {
    if (!matches_one(patterns, spec.name)) continue;
    const auto count = static_cast<std::size_t>(spec.shape.element_count());
    checkpoint.buffers.push_back({spec.name, spec.shape.extents(), std::vector<float>(count, spec.initial_value)});
    names.push_back(spec.name);
  }
  return names;
}

}  // namespace carillon
