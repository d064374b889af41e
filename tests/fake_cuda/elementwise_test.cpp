// Which form of a function map_cuda computes. The fake GPU runs the kernels' own arithmetic, so bits are comparable.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/elementwise/elementwise_map.h"
#include "src/core/bf16.h"
#include "src/device/cuda_device.h"
#include "tests/gpu/gpu_under_test.h"

namespace carillon::testing {
namespace {

using MapOnAGpu = GpuTest;

/// The results of one function, of operands a and b in bf16.
std::vector<Bf16> mapped(const ElementwiseFunction& function, const std::vector<Bf16>& a, const std::vector<Bf16>& b) {
  CudaDevice device(0);
  const std::size_t bytes = a.size() * sizeof(Bf16);
  const Buffer of_a = device.allocate(bytes), of_b = device.allocate(bytes), of_y = device.allocate(bytes);
  device.upload(a.data(), of_a.data(), bytes);
  device.upload(b.data(), of_b.data(), bytes);
  const auto tensor = [&](const Buffer& memory) {
    return Tensor{memory.data(), Shape{static_cast<std::int64_t>(a.size())}, DType::bf16};
  };
  map_cuda({function, tensor(of_a), tensor(of_b), tensor(of_y)}, device.stream());
  std::vector<Bf16> y(a.size());
  device.download(of_y.data(), y.data(), bytes);
  return y;
}

/// Some results of the function for float32 are rounded to other bf16 numbers.
TEST_F(MapOnAGpu, ComputesTheGeluForBf16IfResultsAreBf16) {
  std::vector<Bf16> x, dy;
  for (int i = -4096; i < 4096; ++i) {
    x.push_back(to_bf16(static_cast<float>(i) / 1024.0f));
    dy.push_back(to_bf16(0.7f));
  }
  const std::vector<Bf16> y = mapped(ValueOf<Gelu>{}, x, dy), dx = mapped(GradientOf<Gelu>{}, x, dy);
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

}  // namespace
}  // namespace carillon::testing
