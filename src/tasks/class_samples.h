// The samples of a classification: a label (int32 [], 0 .. classes - 1) and logits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace carillon {

/// The number of labels in `targets`.
inline std::size_t label_count(std::span<const std::byte> targets) { return targets.size() / sizeof(std::int32_t); }

/// Label `i` of `targets`.
inline std::size_t label_at(std::span<const std::byte> targets, std::size_t i) {
  std::int32_t label = 0;
  std::memcpy(&label, targets.data() + i * sizeof label, sizeof label);
  return static_cast<std::size_t>(label);
}

/// Calls visit(label, logits) for each sample. `outputs`: [samples, classes].
template <typename Visit>
void for_each_class_sample(std::span<const float> outputs, std::span<const std::byte> targets, const Visit& visit) {
  const std::size_t samples = label_count(targets);
  for (std::size_t i = 0; i < samples; ++i) {
    const std::size_t classes = outputs.size() / samples;
    visit(label_at(targets, i), outputs.subspan(i * classes, classes));
  }
}

/// The class with the largest logit; of equal ones, the first.
inline std::size_t predicted_class(std::span<const float> logits) {
  return static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace carillon
