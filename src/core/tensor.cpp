#include "carillon/core/tensor.h"

#include <fmt/ranges.h>

#include <functional>
#include <numeric>

namespace carillon {

std::size_t size_of(DType type) { return type == DType::f32 ? 4 : 1; }

std::int64_t Shape::element_count() const {
  return std::accumulate(extents_.begin(), extents_.end(), std::int64_t{1}, std::multiplies<>());
}

std::string Shape::text() const { return fmt::format("[{}]", fmt::join(extents_, ", ")); }

}  // namespace carillon
