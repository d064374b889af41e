// Tests which variant of a function map_cuda computes. The fake GPU runs the kernels' own arithmetic, so the test can
// compare bits.
#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

#include "kernels/elementwise/elementwise_map.h"
#include "src/core/bf16.h"
#include "src/device/cuda_device.h"
#include "tests/gpu/gpu_under_test.h"

namespace carillon::testing {
namespace {

using MapOnAGpu = GpuTest;

template <typename T>
using Values = std::vector<T>;

/// Returns the results of a function of `a`. If `b` is not empty, the function has the arguments `a` and `b`.
template <typename T>
Values<T> mapped(const ElementwiseFunction& function, const Values<T>& a, const Values<T>& b = {}) {
  constexpr DType type = std::is_same_v<T, Bf16> ? DType::bf16 : DType::f32;
  CudaDevice device(0);
  const std::size_t bytes = a.size() * sizeof(T);
  const Buffer of_a = device.allocate(bytes), of_b = device.allocate(bytes), of_y = device.allocate(bytes);
  const auto tensor = [&](const Buffer& memory) {
    return Tensor{memory.data(), Shape{static_cast<std::int64_t>(a.size())}, type};
  };
  device.upload(a.data(), of_a.data(), bytes);
  if (!b.empty()) device.upload(b.data(), of_b.data(), bytes);
  map_cuda({function, tensor(of_a), b.empty() ? Tensor{} : tensor(of_b), tensor(of_y)}, device.stream());
  Values<T> y(a.size());
  device.download(of_y.data(), y.data(), bytes);
  return y;
}

/// For some x, the variants for float32 and for bf16 have different results in bf16, so the test can tell which variant
/// ran.
TEST_F(MapOnAGpu, ComputesTheGeluForBf16IfResultsAreBf16) {
  Values<Bf16> x, dy;
  for (int i = -4096; i < 4096; ++i) {
    x.push_back(to_bf16(static_cast<float>(i) / 1024.0f));
    dy.push_back(to_bf16(static_cast<float>(i % 7) - 3.5f));
  }
  const Values<Bf16> y = mapped(ValueOf<Gelu>{}, x), dx = mapped(GradientOf<Gelu>{}, x, dy);
  int other_values = 0, other_gradients = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float at = to_float(x[i]), by = to_float(dy[i]);
    ASSERT_EQ(to_float(y[i]), to_float(to_bf16(GeluForBf16::value(at)))) << at;
    ASSERT_EQ(to_float(dx[i]), to_float(to_bf16(GeluForBf16::gradient(at, by)))) << at;
    other_values += to_float(y[i]) != to_float(to_bf16(Gelu::value(at)));
    other_gradients += to_float(dx[i]) != to_float(to_bf16(Gelu::gradient(at, by)));
  }
  EXPECT_GT(other_values, 0);
  EXPECT_GT(other_gradients, 0);
}

TEST_F(MapOnAGpu, ComputesTheExactGeluIfResultsAreFloats) {
  Values<float> x;
  for (int i = -4096; i < 4096; ++i) x.push_back(static_cast<float>(i) / 1024.0f);
  const Values<float> y = mapped(ValueOf<Gelu>{}, x);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], Gelu::value(x[i])) << x[i];
}

}  // namespace
}  // namespace carillon::testing
