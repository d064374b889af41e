#include "src/report/histogram.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "src/report/bucket_counter.h"

namespace carillon {
namespace {

std::vector<double> make_limits() {
  std::vector<double> positive;
  for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
  positive.push_back(std::numeric_limits<double>::max());
  std::vector<double> limits;
  for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) limits.push_back(-*limit);
  limits.push_back(0.0);
  limits.insert(limits.end(), positive.begin(), positive.end());
  return limits;
}

/// Sums and extremes of values in independent lanes: the order of additions is fixed, and the loop vectorizes.
struct Lanes {
  static constexpr std::size_t width = 16;
  double sums[width] = {}, squares[width] = {};
  float lows[width], highs[width];

  Lanes() {
    std::ranges::fill(lows, std::numeric_limits<float>::infinity());
    std::ranges::fill(highs, -std::numeric_limits<float>::infinity());
  }
  void add(std::size_t lane, float value) {
    sums[lane] += value;
    squares[lane] += static_cast<double>(value) * value;
    lows[lane] = value < lows[lane] ? value : lows[lane];
    highs[lane] = value > highs[lane] ? value : highs[lane];
  }
};

/// Value i belongs to lane i % width.
CARILLON_SIMD void add_values(const float* values, std::size_t count, Lanes& to) {
  Lanes lanes = to;  // in registers
  std::size_t i = 0;
  for (; i + Lanes::width <= count; i += Lanes::width) {
    for (std::size_t lane = 0; lane < Lanes::width; ++lane) lanes.add(lane, values[i + lane]);
  }
  to = lanes;
  for (; i < count; ++i) to.add(i % Lanes::width, values[i]);
}

// A separate function, so that no instruction set fuses product and sum into one rounding.
CARILLON_SIMD void multiply(const float* values, float factor, std::size_t count, float* results) {
  for (std::size_t i = 0; i < count; ++i) results[i] = factor * values[i];
}
CARILLON_SIMD void add_to(const float* values, std::size_t count, float* sums) {
  for (std::size_t i = 0; i < count; ++i) sums[i] += values[i];
}

/// Takes values block by block and reads each block once while it is in the L1 cache.
class Builder {
 public:
  static constexpr std::size_t block_size = 1024;  // a multiple of the lanes' width

  /// `values`: block_size values; the last block may have fewer.
  void add(std::span<const float> values) {
    Lanes with_block = lanes_;
    add_values(values.data(), values.size(), with_block);
    // A sum of squares of finite floats does not overflow a double. If it is not finite, some value is not finite.
    if (std::ranges::all_of(with_block.squares, [](double sum) { return std::isfinite(sum); })) {
      lanes_ = with_block;
      counter_.add(values);
      count_ += values.size();
    } else {
      add_finite(values);
    }
  }

  Histogram finish() const {
    Histogram result{.count = static_cast<double>(count_), .limits = {}, .counts = {}};
    if (count_ > 0) {
      for (std::size_t lane = 0; lane < Lanes::width; ++lane) {
        result.sum += lanes_.sums[lane];
        result.sum_squares += lanes_.squares[lane];
      }
      result.min = *std::ranges::min_element(lanes_.lows);
      result.max = *std::ranges::max_element(lanes_.highs);
    }
    join_empty(result);
    return result;
  }

 private:
  void add_finite(std::span<const float> values) {
    std::array<float, block_size> finite;
    const auto end = std::ranges::copy_if(values, finite.begin(), [](float value) { return std::isfinite(value); }).out;
    const auto count = static_cast<std::size_t>(end - finite.begin());
    add_values(finite.data(), count, lanes_);
    counter_.add(std::span(finite).first(count));
    count_ += count;
  }

  /// Joins runs of empty buckets.
  void join_empty(Histogram& result) const {
    const auto limits = histogram_limits();
    const std::vector<double> counts = counter_.counts();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 0) {
        while (i + 1 < counts.size() && counts[i + 1] == 0) ++i;
      }
      result.limits.push_back(limits[i]);
      result.counts.push_back(counts[i]);
    }
  }

  Lanes lanes_;
  BucketCounter counter_;
  std::size_t count_ = 0;
};

}  // namespace

std::span<const double> histogram_limits() {
  static const auto limits = make_limits();
  return limits;
}

Histogram histogram_of(std::span<const float> values) {
  Builder builder;
  for (std::size_t i = 0; i < values.size(); i += Builder::block_size) {
    builder.add(values.subspan(i, std::min(Builder::block_size, values.size() - i)));
  }
  return builder.finish();
}

Histogram histogram_of_sum(std::span<const float> values, float factor, std::span<const float> others) {
  check(values.size() == others.size(), "a sum of arrays of different lengths");
  Builder builder;
  std::array<float, Builder::block_size> sums;
  for (std::size_t i = 0; i < values.size(); i += Builder::block_size) {
    const std::size_t count = std::min(Builder::block_size, values.size() - i);
    multiply(others.data() + i, factor, count, sums.data());
    add_to(values.data() + i, count, sums.data());
    builder.add(std::span(sums).first(count));
  }
  return builder.finish();
}

}  // namespace carillon
