#include <algorithm>

#include "carillon/core/parallel.h"
#include "kernels/conv2d/expanded_columns.h"
#include "src/core/bf16.h"

namespace carillon {

ExpandedColumns::ExpandedColumns(CpuDevice& device, const Tensor& x, const SlidingWindow& columns)
    : x_(x),
      columns_(columns),
      expanded_{nullptr, {x.shape[0], x.shape[1], columns.output, columns.window * x.shape[3]}, x.type} {
  memory_ = device.allocate(expanded_.bytes());
  expanded_.data = memory_.data();
}

void ExpandedColumns::fill() const {
  const std::int64_t channels = x_.shape[3], row = columns_.input * channels;
  const std::int64_t depth = columns_.window * channels, expanded_row = columns_.output * depth;
  const auto rows = static_cast<std::size_t>(x_.shape[0] * x_.shape[1]);
  parallel_items(rows, static_cast<std::size_t>(expanded_row), elementwise_grain,
                 [&](std::size_t first, std::size_t last) {
                   for (auto i = static_cast<std::int64_t>(first); i < static_cast<std::int64_t>(last); ++i) {
                     const Bf16* const from = static_cast<const Bf16*>(x_.data) + i * row;
                     Bf16* to = static_cast<Bf16*>(expanded_.data) + i * expanded_row;
                     for (std::int64_t q = 0; q < columns_.output; ++q, to += depth) {
                       const std::int64_t left = q * columns_.stride - columns_.before;
                       const std::int64_t begin = std::clamp<std::int64_t>(-left, 0, columns_.window);
                       const std::int64_t end = std::clamp(columns_.input - left, begin, columns_.window);
                       std::fill_n(to, begin * channels, Bf16{});
                       std::copy_n(from + (left + begin) * channels, (end - begin) * channels, to + begin * channels);
                       std::fill_n(to + end * channels, depth - end * channels, Bf16{});
                     }
                   }
                 });
}

}  // namespace carillon
