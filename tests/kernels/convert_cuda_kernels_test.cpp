// Tests the CUDA kernels that convert and transpose arrays. The kernels run on the CPU, by loops over blocks and
// threads (`emulate`).
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/shared/convert.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

constexpr ThreadOrder orders[] = {ThreadOrder::ascending, ThreadOrder::descending};

template <typename From, typename To>
void expect_conversion(std::size_t count) {
  const std::vector<From> from = rounded<From>(random_values(count, 1, -100.0f, 100.0f));
  for (const ThreadOrder order : orders) {
    std::vector<To> to = filled<To>(count);
    with_pack_size<float>(static_cast<std::int64_t>(count), [&]<int n>(std::integral_constant<int, n>) {
      emulate(ForEachElement{ConvertPack<From, To, n>{from.data(), to.data()}, static_cast<std::int64_t>(count) / n},
              order);
    });
    EXPECT_EQ(floats(to), floats(rounded<To>(floats(from)))) << count;
  }
}

TEST(ConvertKernels, RoundToTheTargetsType) {
  for (const std::size_t count : {1, 2, 7, 256, 1030, 4096, 5001}) {
    expect_conversion<float, Bf16>(count);
    expect_conversion<Bf16, float>(count);
    expect_conversion<float, float>(count);
    expect_conversion<Bf16, Bf16>(count);
  }
}

template <typename From, typename To>
void expect_transpose(std::size_t rows, std::size_t columns) {
  const std::vector<From> from = rounded<From>(random_values(rows * columns, 1));
  std::vector<float> expected(rows * columns);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) expected[c * rows + r] = to_float(from[r * columns + c]);
  }
  for (const ThreadOrder order : orders) {
    std::vector<To> to = filled<To>(rows * columns);
    emulate(Transpose<From, To>{from.data(), to.data(), static_cast<std::int64_t>(rows),
                                static_cast<std::int64_t>(columns)},
            order);
    EXPECT_EQ(floats(to), floats(rounded<To>(expected))) << rows << " x " << columns;
  }
}

/// Transposes weights of conv2d from [pixels * channels, filters] to [filters, pixels * padded], and back.
TEST(ConvertKernels, TransposePaddedChannels) {
  constexpr std::int64_t pixels = 25, filters = 40, channels = 3, padded = 8, rows = pixels * channels;
  const ChannelPadding padding{channels, padded};
  const std::vector<float> from = random_values(rows * filters, 1);
  std::vector<float> expected(static_cast<std::size_t>(filters * pixels * padded));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t f = 0; f < filters; ++f) {
      expected[f * pixels * padded + r / channels * padded + r % channels] = from[r * filters + f];
    }
  }
  for (const ThreadOrder order : orders) {
    std::vector<float> to(expected.size()), back(from.size());
    emulate(Transpose<float, float>{from.data(), to.data(), rows, filters, {}, padding}, order);
    EXPECT_EQ(to, expected);
    emulate(Transpose<float, float>{to.data(), back.data(), filters, rows, padding, {}}, order);
    EXPECT_EQ(back, from);
  }
}

TEST(ConvertKernels, TransposeAnySize) {
  for (const auto& [rows, columns] : {std::pair<std::size_t, std::size_t>{1, 1},
                                      {1, 100},
                                      {100, 1},
                                      {32, 32},
                                      {33, 31},
                                      {64, 96},
                                      {500, 10},
                                      {130, 67}}) {
    expect_transpose<float, float>(rows, columns);
    expect_transpose<float, Bf16>(rows, columns);
    expect_transpose<Bf16, float>(rows, columns);
    expect_transpose<Bf16, Bf16>(rows, columns);
  }
}

template <typename T>
void expect_bias_relu(std::size_t rows, std::size_t columns, bool relu) {
  std::vector<T> y = rounded<T>(random_values(rows * columns, 1));
  const std::vector<float> bias = random_values(columns, 2);
  std::vector<float> expected = floats(y);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const float z = expected[i] + bias[i % columns];
    expected[i] = relu && z < 0.0f ? 0.0f : z;
  }
  for (const ThreadOrder order : orders) {
    std::vector<T> found = y;
    with_pack_size<float>(static_cast<std::int64_t>(columns), [&]<int n>(std::integral_constant<int, n>) {
      emulate(
          ForEachElement{BiasReluPack<T, n>{bias.data(), found.data(), static_cast<std::uint32_t>(columns / n), relu},
                         static_cast<std::int64_t>(found.size()) / n},
          order);
    });
    EXPECT_EQ(floats(found), floats(rounded<T>(expected))) << rows << " x " << columns;
  }
}

TEST(ConvertKernels, BiasReluEqualsTheDefinition) {
  for (const auto& [rows, columns] :
       {std::pair<std::size_t, std::size_t>{1, 1}, {7, 3}, {128, 10}, {100, 500}, {33, 64}, {1000, 2}}) {
    for (const bool relu : {false, true}) {
      expect_bias_relu<float>(rows, columns, relu);
      expect_bias_relu<Bf16>(rows, columns, relu);
    }
  }
}

TEST(ConvertKernels, ReluKeepsNotANumber) {
  const float bias[1] = {0.0f};
  std::vector<float> y{std::nanf(""), -1.0f};
  emulate(ForEachElement{BiasReluPack<float, 1>{bias, y.data(), 1, true}, 2});
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 0.0f);
}

}  // namespace
}  // namespace carillon::testing
