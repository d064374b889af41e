#include "src/report/tensorboard.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"

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

/// Finds the bucket of a float without a search. The top 13 bits of a float (sign, exponent, 4 bits of mantissa) are
/// its cell. Values in a cell differ by less than a tenth of their size. Neighbouring bucket limits differ by a tenth.
/// Therefore a cell contains at most one limit.
///
/// Compares integers, not floats, because float comparisons treat denormals as 0 (src/core/process.h).
struct BucketTable {
  static constexpr int cell_bits = 13, cell_shift = 32 - cell_bits;
  std::array<std::uint16_t, std::size_t{1} << cell_bits> first_bucket;  ///< [cell] the bucket of the cell's lowest
                                                                        ///< value
  std::vector<std::int32_t> ends;  ///< [bucket] rank() of the lowest float that is not below the bucket's limit

  BucketTable() {
    for (const double limit : histogram_limits()) ends.push_back(rank_of_lowest_from(limit));
    for (std::uint32_t cell = 0; cell < first_bucket.size(); ++cell) {
      // Among negative floats, a larger bit pattern means a lower value.
      const bool is_negative = cell >> (cell_bits - 1) != 0;
      const std::uint32_t other_bits = is_negative ? (std::uint32_t{1} << cell_shift) - 1 : 0;
      const std::int32_t lowest = rank((cell << cell_shift) | other_bits);
      const auto bucket = std::ranges::upper_bound(ends, lowest) - ends.begin();
      // The index is clamped, because infinity has no bucket.
      first_bucket[cell] = static_cast<std::uint16_t>(std::min(bucket, std::ssize(ends) - 1));
    }
  }

  /// Returns the index of the bucket of `value`, which must be finite.
  std::size_t bucket(float value) const {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::size_t first = first_bucket[bits >> cell_shift];
    return first + (rank(bits) >= ends[first] ? 1 : 0);
  }

 private:
  /// Maps the bits of a float to an integer. The integers have the order of the float values; -0 is directly below 0.
  static std::int32_t rank(std::uint32_t bits) {
    const auto number = std::bit_cast<std::int32_t>(bits);
    return number ^ ((number >> 31) & std::numeric_limits<std::int32_t>::max());
  }

  static std::int32_t rank_of_lowest_from(double limit) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    constexpr double most = std::numeric_limits<float>::max();
    if (limit == 0.0) return rank(std::bit_cast<std::uint32_t>(-0.0f));
    if (std::abs(limit) > most) return rank(std::bit_cast<std::uint32_t>(limit > 0.0 ? infinity : -infinity));
    const auto rounded = static_cast<float>(limit);
    const float lowest = static_cast<double>(rounded) >= limit ? rounded : std::nextafter(rounded, infinity);
    return rank(std::bit_cast<std::uint32_t>(lowest));
  }
};

/// Counts the values in each bucket.
class BucketCounter {
 public:
  /// Counts each value in its bucket. `values`: finite.
  void add(std::span<const float> values) {
    static const BucketTable table;
    std::size_t i = 0;
    for (; i + table_count <= values.size(); i += table_count) {
#pragma GCC unroll 4
      for (std::size_t k = 0; k < table_count; ++k) ++counts_[k][table.bucket(values[i + k])];
    }
    for (; i < values.size(); ++i) ++counts_[0][table.bucket(values[i])];
  }

  /// Returns the count of each bucket of histogram_limits().
  std::vector<double> counts() const {
    check(histogram_limits().size() <= table_size, "more buckets than a table counts");
    std::vector<double> sums(histogram_limits().size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      for (const auto& counts : counts_) sums[i] += counts[i];
    }
    return sums;
  }

 private:
  // Neighbouring values often belong to the same bucket. They are counted in different tables, so that an increment
  // need not wait for the previous increment. The distance between tables is not a multiple of 4 KiB, which would cause
  // 4K aliasing.
  static constexpr std::size_t table_count = 4, table_size = 1568;
  std::array<std::array<std::uint32_t, table_size>, table_count> counts_{};
};

/// Sums and extremes of values in independent lanes. The lanes fix the order of the additions and let the loop
/// vectorize.
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

/// Value i is added in lane i % width.
CARILLON_SIMD void add_values(const float* values, std::size_t count, Lanes& to) {
  Lanes lanes = to;  // a local copy, which stays in registers
  std::size_t i = 0;
  for (; i + Lanes::width <= count; i += Lanes::width) {
    for (std::size_t lane = 0; lane < Lanes::width; ++lane) lanes.add(lane, values[i + lane]);
  }
  to = lanes;
  for (; i < count; ++i) to.add(i % Lanes::width, values[i]);
}

// A separate function for the product prevents a fused multiply-add, which would round product and sum only once.
CARILLON_SIMD void multiply(const float* values, float factor, std::size_t count, float* results) {
  for (std::size_t i = 0; i < count; ++i) results[i] = factor * values[i];
}
CARILLON_SIMD void add_to(const float* values, std::size_t count, float* sums) {
  for (std::size_t i = 0; i < count; ++i) sums[i] += values[i];
}

/// Adds values block by block. Two passes read each block, and the second pass finds the block in the L1 cache.
class Builder {
 public:
  static constexpr std::size_t block_size = 1024;  // a multiple of the lanes' width

  /// Adds a block of values. `values`: block_size values; the last block may have fewer.
  void add(std::span<const float> values) {
    Lanes with_block = lanes_;
    add_values(values.data(), values.size(), with_block);
    // A sum of squares of finite floats does not overflow a double. Therefore, if the sum is not finite, some value is
    // not finite.
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

/// The floats of a tensor in host memory. They are valid as long as this object exists.
struct HostArray {
  std::vector<float> copy;
  std::span<const float> floats;

  HostArray(Device& device, const Tensor& tensor) : floats(host_floats(device, tensor, copy)) {}
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

ParameterHistograms parameter_histograms(const ParameterStore& parameters, Device& device,
                                         const HistogramShare& share) {
  const std::vector<ParameterSpec>& specs = parameters.specs();
  std::vector<std::unique_ptr<HostArray>> variables, gradients;
  for (int i = 0; i < static_cast<int>(specs.size()); ++i) {
    variables.push_back(std::make_unique<HostArray>(device, parameters.value(i)));
    if (share.gradients) gradients.push_back(std::make_unique<HostArray>(device, parameters.gradient(i)));
  }
  ParameterHistograms result;
  if (share.variables) result.variables.resize(specs.size());
  if (share.gradients) result.gradients.resize(specs.size());
#pragma omp parallel for schedule(dynamic, 1)
  for (std::size_t task = 0; task < 2 * specs.size(); ++task) {
    const std::size_t i = task / 2;
    if (task % 2 == 0 && share.variables) result.variables[i] = histogram_of(variables[i]->floats);
    if (task % 2 == 1 && share.gradients) {
      result.gradients[i] = histogram_of_sum(gradients[i]->floats, specs[i].l2_factor, variables[i]->floats);
    }
  }
  return result;
}

std::string pack(const std::vector<Histogram>& histograms) {
  std::vector<double> numbers;
  for (const Histogram& histogram : histograms) {
    numbers.insert(numbers.end(), {histogram.min, histogram.max, histogram.count, histogram.sum, histogram.sum_squares,
                                   static_cast<double>(histogram.limits.size())});
    numbers.insert(numbers.end(), histogram.limits.begin(), histogram.limits.end());
    numbers.insert(numbers.end(), histogram.counts.begin(), histogram.counts.end());
  }
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double)};
}

std::vector<Histogram> unpack_histograms(std::string_view bytes) {
  const auto take = [&](void* to, std::size_t count) {
    check(count * sizeof(double) <= bytes.size(), "histograms of another length than they say");
    if (count > 0) std::memcpy(to, bytes.data(), count * sizeof(double));
    bytes.remove_prefix(count * sizeof(double));
  };
  std::vector<Histogram> histograms;
  while (!bytes.empty()) {
    double head[6];
    take(head, std::size(head));
    const auto buckets = static_cast<std::size_t>(head[5]);
    Histogram& histogram = histograms.emplace_back(Histogram{
        head[0], head[1], head[2], head[3], head[4], std::vector<double>(buckets), std::vector<double>(buckets)});
    take(histogram.limits.data(), buckets);
    take(histogram.counts.data(), buckets);
  }
  return histograms;
}

namespace {

constexpr std::int64_t max_images = 3;

std::vector<Value> results_of(const BuiltNetwork& network) {
  std::vector<Value> values{network.input};
  for (const BuiltNetwork::Layer& layer : network.layers) values.push_back(layer.output);
  return values;
}

}  // namespace

LayerSummarizer::LayerSummarizer(const Network& network, const BuildSettings& settings,
                                 const ParameterStore& parameters, const BufferStore& buffers, Device& device)
    : device_(device),
      network_(build_network(network, settings)),
      input_stage_(make_input_stage(
          device, {.batch_size = static_cast<std::size_t>(settings.batch_size), .image_bytes = network.image.bytes()})),
      executable_(network_.graph, {device, parameters, buffers, input_stage_->inputs()}, false, results_of(network_)) {}

LayerSummary LayerSummarizer::summarize(const Batch& batch) {
  input_stage_->write(0, {.batch = batch});
  input_stage_->upload(0, 1, device_.stream());
  executable_.forward(device_.stream());
  LayerSummary summary;
  for (const BuiltNetwork::Layer& layer : network_.layers) {
    summary.layers.push_back({layer.name, download_floats(device_, executable_.tensor(layer.output))});
  }
  const Tensor& input = executable_.tensor(network_.input);
  const std::vector<float> values = download_floats(device_, input);
  const Shape& shape = input.shape;
  for (std::int64_t i = 0; i < std::min(max_images, shape[0]); ++i) {
    summary.images.push_back(picture_of(values.data() + i * shape.elements_per_sample(), shape[1], shape[2], shape[3]));
  }
  return summary;
}

Picture picture_of(const float* values, std::int64_t height, std::int64_t width, std::int64_t channels) {
  const std::int64_t count = height * width * channels;
  float lowest = 0.0f, largest = 0.0f;
  for (std::int64_t i = 0; i < count; ++i) {
    lowest = std::min(lowest, values[i]);
    largest = std::max(largest, std::abs(values[i]));
  }
  const float offset = lowest < 0.0f ? 128.0f : 0.0f;
  const float scale = largest < 1e-6f ? 0.0f : (lowest < 0.0f ? 127.0f : 255.0f) / largest;
  Picture picture{height, width, channels, std::vector<std::uint8_t>(static_cast<std::size_t>(count))};
  for (std::int64_t i = 0; i < count; ++i) {
    picture.pixels[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(values[i] * scale + offset);
  }
  return picture;
}

}  // namespace carillon
