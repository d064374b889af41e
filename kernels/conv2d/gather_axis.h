// GatherAxis: the source positions that a target position reads along one axis, in a convolution or its data gradient.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/shared/window.h"

namespace carillon {

/// One axis. A convolution reads x (source) for y (target); its data gradient reads dz (source) for dx (target).
struct GatherAxis {
  std::int64_t source, target;          ///< extents
  std::int64_t window, stride, before;  ///< geometry of the convolution; before: padding
  bool backward;

  static GatherAxis forward_of(const SlidingWindow& w) {
    return {w.input, w.output, w.window, w.stride, w.before, false};
  }
  static GatherAxis backward_of(const SlidingWindow& w) {
    return {w.output, w.input, w.window, w.stride, w.before, true};
  }

  /// The source that target `at` reads at filter position `tap`; -1 if padding or a stride leaves no source there.
  std::int64_t source_of(std::int64_t at, std::int64_t tap) const {
    std::int64_t found = backward ? at + before - tap : at * stride + tap - before;
    if (backward) {
      if (found < 0 || found % stride != 0) return -1;
      found /= stride;
    }
    return found >= 0 && found < source ? found : -1;
  }

  /// Targets at a distance of period() have the same taps, except at the edges.
  std::int64_t period() const { return backward ? stride : 1; }

  /// The sources that targets [first, last) read.
  struct Range {
    std::int64_t first, last;
    std::int64_t length() const { return last - first; }
  };
  Range sources_of(std::int64_t first, std::int64_t last) const {
    Range range{source, 0};
    for (std::int64_t at = first; at < last; ++at) {
      for (std::int64_t tap = 0; tap < window; ++tap) {
        const std::int64_t found = source_of(at, tap);
        if (found < 0) continue;
        range = {std::min(range.first, found), std::max(range.last, found + 1)};
      }
    }
    return range.first < range.last ? range : Range{0, 0};
  }
  /// The most sources that `count` consecutive targets read.
  std::int64_t most_sources(std::int64_t count) const {
    const std::int64_t most = backward ? (count + window - 2) / stride + 1 : (count - 1) * stride + window;
    return std::min(most, source);
  }
};

}  // namespace carillon
