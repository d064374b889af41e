// Tests how many graph nodes the captured steps of the reference programs have.
#include <gmock/gmock.h>

#include <algorithm>

#include "carillon/models/networks.h"
#include "src/comm/allreduce/communicators.h"
#include "src/device/cuda_device.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/gpu/towers.h"
#include "tests/support/switched_off.h"

namespace carillon::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using CapturedStepTest = GpuTest;

/// Returns the names of the graph nodes in a captured step of one tower.
std::vector<std::string> nodes_of(const Training& training) {
  CudaDevice device(0);
  const auto communicator = make_self_communicator(device);
  const NoiseRecords records(16, training.network.image.bytes());
  return train(training, records, device, *communicator).captured_nodes;
}
std::vector<std::string> nodes_of(const Network& network, Arithmetic arithmetic, int steps = 4,
                                  const std::string& rule = "sgd") {
  return nodes_of({.network = network, .steps = steps, .arithmetic = arithmetic, .rule = rule});
}

Network mnist() { return mnist_network(mnist_images({.pixel_scale = 1.0f / 255.0f, .regularization = 1e-4f})); }

TEST_F(CapturedStepTest, OfMnistInFp32) {
  EXPECT_THAT(nodes_of(mnist(), Arithmetic::fp32),
              ElementsAre("ImageInputKernel<float>", "cublaslt_product", "cublaslt_product",
                          "SoftmaxKernel<float, 4, false>", "cublaslt_product", "cublaslt_product",
                          "GradientSums<float, 4, ReluMask>", "cublaslt_product", "UpdateKernel<Sgd>"));
}

/// In tf32, cuBLASLt's ReLU replaces a NaN by 0, so the ReLU is a separate kernel.
TEST_F(CapturedStepTest, OfMnistInTf32HasOneMoreKernel) { EXPECT_EQ(nodes_of(mnist(), Arithmetic::tf32).size(), 10u); }

TEST_F(CapturedStepTest, IsKnownWhereAllStepsAreInBlocks) {
  EXPECT_EQ(nodes_of(mnist(), Arithmetic::fp32, 2 + 16).size(), 9u);
}

TEST_F(CapturedStepTest, OfMnistInBf16) { EXPECT_LE(nodes_of(mnist(), Arithmetic::bf16).size(), 10u); }

TEST_F(CapturedStepTest, OfCifar10InBf16) {
  const std::vector<std::string> nodes = nodes_of(cifar10_network(cifar10_images()), Arithmetic::bf16);
  EXPECT_LE(nodes.size(), 34u) << ::testing::PrintToString(nodes);
}

TEST_F(CapturedStepTest, OfPatchesInBf16GathersThemAndHasNoConvolutionOfCudnn) {
  const std::vector<std::string> nodes = nodes_of(attending_network(), Arithmetic::bf16, 3);
  EXPECT_EQ(std::ranges::count(nodes, "cudnn_convolution"), 0);
  EXPECT_THAT(nodes, Contains(HasSubstr("GatherPatches")).Times(1));
}

/// The network has six hidden matrices of four different shapes. Each Muon iteration needs three products per matrix;
/// Muon computes each product for all matrices of one shape at once, as one batched product. If Muon computed the
/// products of each matrix separately, a step would have 235 nodes.
TEST_F(CapturedStepTest, OfAirbench94WithMuonHasThreeProductsPerIterationAndShape) {
  const std::vector<std::string> nodes =
      nodes_of(airbench94_network(cifar10_images()), Arithmetic::fp32, 3, "muon-nesterov");
  constexpr int of_logits = 3, iterations = 5, shapes = 4;
  EXPECT_EQ(std::ranges::count(nodes, "cublaslt_product"), of_logits + iterations * 3 * shapes);
  EXPECT_LE(nodes.size(), 146u) << ::testing::PrintToString(nodes);
}

/// Without fused_attention, each of the two heads needs 7 matrix products and 2 kernels.
TEST_F(CapturedStepTest, HasTwoOperationsPerAttentionInBf16) {
  const std::vector<std::string> nodes = nodes_of(attending_network(), Arithmetic::bf16);
  EXPECT_EQ(std::ranges::count(nodes, "cudnn_attention"), 1);
  EXPECT_EQ(std::ranges::count(nodes, "cudnn_attention_gradient"), 1);
  // SwitchedOff replaces the default list, so its list must repeat bias_gradient_epilogue, which is off by default.
  const SwitchedOff off("fused_attention,bias_gradient_epilogue");
  const std::vector<std::string> by_products = nodes_of(attending_network(), Arithmetic::bf16);
  EXPECT_EQ(by_products.size() - nodes.size(), 2u * 9 - 2);
}

TEST(KernelTitleTest, IsThatOfTheBlockKernelOrOfTheFunction) {
  EXPECT_EQ(kernel_title("_ZN8carillon12block_kernelINS_12UpdateKernelINS_3SgdEEEEEvT_"), "UpdateKernel<Sgd>");
  EXPECT_EQ(kernel_title("_ZN3lib4gemmIfEEvPKT_i"), "lib::gemm<float>");
  EXPECT_EQ(kernel_title("sm90_xmma_gemm_f32"), "sm90_xmma_gemm_f32");
}

}  // namespace
}  // namespace carillon::testing
