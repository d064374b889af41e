// Conversion between activations and float32 on a CPU.
#pragma once

#include "kernels/shared/element_pointer.h"

namespace carillon {

/// to[i] = from[i].
void read_floats(ElementPointer from, std::size_t count, float* to);
/// to[i] = from[i], rounded to the type of `to`.
void write_floats(const float* from, std::size_t count, ElementPointer to);

}  // namespace carillon
