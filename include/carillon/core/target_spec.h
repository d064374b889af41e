// TargetSpec: element type and shape of the target that a network is trained towards, for one sample.
#pragma once

#include <cstddef>

#include "carillon/core/tensor.h"

namespace carillon {

/// What the target of a sample says: its class, the labels that apply to it, or some numbers.
enum class TargetKind { class_index, labels, numbers };

/// int32 [] for one of n classes, uint8 [n] for n yes-no answers, float32 [k] for k numbers.
struct TargetSpec {
  DType type = DType::i32;
  Shape shape;

  std::size_t bytes() const { return static_cast<std::size_t>(shape.element_count()) * size_of(type); }
  bool operator==(const TargetSpec&) const = default;
};

}  // namespace carillon
