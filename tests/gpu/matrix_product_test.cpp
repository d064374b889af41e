// Tests matrix products of cuBLASLt that add a second matrix to the product.
#include "kernels/shared/matrix_product_cuda.h"

#include "tests/gpu/gpu_under_test.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

using MatrixProductOnAGpu = GpuTest;

Buffer uploaded(const std::vector<float>& values, Device& device) {
  Buffer buffer = device.allocate(values.size() * sizeof(float));
  device.upload(values.data(), buffer.data(), buffer.bytes());
  return buffer;
}

TEST_F(MatrixProductOnAGpu, AddsAScaledMatrixToEachScaledProductOfABatch) {
  constexpr std::int64_t rows = 5, columns = 3, inner = 4, count = 3, a_stride = 32, b_stride = 16, c_stride = 20;
  constexpr float alpha = -2.0f, beta = 0.5f;
  const std::vector<float> a = random_values(count * a_stride, 1), b = random_values(count * b_stride, 2);
  const std::vector<float> s = random_values(count * c_stride, 3);
  std::vector<float> c(s.size(), 7.0f);
  {
    CudaDevice device(0);
    const Buffer of_a = uploaded(a, device), of_b = uploaded(b, device), of_s = uploaded(s, device);
    Buffer of_c = uploaded(c, device);
    const auto tensor = [](const Buffer& buffer) { return Tensor{buffer.data(), {}, DType::f32}; };
    const Tensor left = tensor(of_a), right = tensor(of_b), result = tensor(of_c);
    const MatrixProductCuda product(device, Arithmetic::fp32, {&left, {rows, inner}, a_stride},
                                    {&right, {inner, columns}, b_stride}, {&result, {rows, columns}, c_stride},
                                    {.count = count}, {.alpha = alpha, .beta = beta});
    product.run(device.stream(), {of_a.data(), of_b.data(), of_c.data(), of_s.data()});
    device.stream().synchronize();
    device.download(of_c.data(), c.data(), of_c.bytes());
  }
  for (std::int64_t i = 0; i < count * c_stride; ++i) {
    const std::int64_t n = i / c_stride, row = i % c_stride / columns, column = i % c_stride % columns;
    double expected = 7.0;  // the memory between the results of a batch must keep the value 7
    if (row < rows) {
      expected = beta * s.at(i);
      for (std::int64_t k = 0; k < inner; ++k) {
        expected += alpha * a.at(n * a_stride + row * inner + k) * b.at(n * b_stride + k * columns + column);
      }
    }
    EXPECT_NEAR(c.at(i), expected, 1e-5) << i;
  }
}

}  // namespace
}  // namespace carillon::testing
