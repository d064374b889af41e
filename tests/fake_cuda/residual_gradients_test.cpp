// Tests training steps of residual blocks, with and without the passes that avoid sums and copies of gradients.
#include <gtest/gtest.h>

#include "src/comm/allreduce/communicators.h"
#include "src/device/cuda_device.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/gpu/towers.h"
#include "tests/support/networks.h"
#include "tests/support/switched_off.h"

namespace carillon::testing {
namespace {

/// Returns a network of a ConvNeXt block and a vision transformer block. With 16 channels, each row uses all lanes of
/// the layer norm's kernel.
Network residual_blocks() {
  return make_network("blocks", {.image = {28, 28, 1}}, [](Graph& graph) {
    const Initializer weights = fan_in_uniform(16);
    const auto layer = [&](const std::string& name, Value x, std::int64_t units) {
      return dense(graph, name, x, {.units = units, .weights = weights, .per_position = true});
    };
    Value x = image_input(graph, "input", {.sample = {28, 28, 1}, .scale = 1.0f / 255.0f});
    x = conv2d(graph, "patches", x,
               {.filters = 16, .kernel = 7, .stride = 7, .padding = Padding::valid, .weights = weights});
    Value y = depthwise_conv2d(graph, "depthwise", x, {.kernel = 3, .weights = weights});
    y = gelu(graph, "gelu", layer("expand", layer_norm(graph, "norm1", y), 32));
    y = scale_channels(graph, "scale", layer("project", y, 16), {.initial_factor = 0.5f});
    x = embed_tokens(graph, "tokens", add(graph, "sum1", y, x), {.class_token = weights, .positions = weights});
    y = attention(graph, "attention", layer("qkv", layer_norm(graph, "norm2", x), 48), {.heads = 2});
    x = add(graph, "sum2", layer("out", y, 16), x);
    x = add(graph, "sum3", layer("mlp", layer_norm(graph, "norm3", x), 16), x);
    return dense(graph, "logits", first_token(graph, "class", x), {.units = 10, .weights = weights});
  });
}

struct BlockTraining {
  Arithmetic arithmetic = Arithmetic::fp32;
  const char* switched_off = "bias_gradient_epilogue";
  bool capture = true;
  int steps = 5;
  const char* rule = "adamw";
};

class ResidualGradients : public GpuTest {
 protected:
  static Trained run(const BlockTraining& of) {
    const SwitchedOff off(of.switched_off);
    CudaDevice device(0);
    const auto communicator = make_self_communicator(device);
    const Training training{.network = residual_blocks(),
                            .steps = of.steps,
                            .capture = of.capture,
                            .arithmetic = of.arithmetic,
                            .rule = of.rule};
    const NoiseRecords records(16, training.network.image.bytes());
    return train(training, records, device, *communicator);
  }
};

TEST_F(ResidualGradients, AreEqualInTwoRunsCapturedAndLaunched) {
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::bf16}) {
    const Trained captured = run({.arithmetic = arithmetic});
    EXPECT_EQ(run({.arithmetic = arithmetic}).values, captured.values);
    EXPECT_EQ(run({.arithmetic = arithmetic, .capture = false}).values, captured.values);
  }
}

TEST_F(ResidualGradients, OfSharedMemoryAreEqualInFp32AndTakeTwoKernelsLessForEachBlock) {
  const Trained shared = run({.switched_off = "fused_additions"});
  const Trained separate = run({.switched_off = "fused_additions,shared_gradients"});
  EXPECT_EQ(shared.values, separate.values);
  EXPECT_EQ(shared.captured_nodes.size() + 6, separate.captured_nodes.size());
}

TEST_F(ResidualGradients, OfAdditionsInOtherOpsAreEqualInFp32WithAndWithoutSharedMemory) {
  const Trained shared = run({}), separate = run({.switched_off = "shared_gradients"});
  EXPECT_EQ(shared.values, separate.values);
  EXPECT_EQ(shared.captured_nodes.size() + 3, separate.captured_nodes.size()) << "a fork for each block";
}

/// The order of the additions differs, so the roundings also differ.
TEST_F(ResidualGradients, AreNearlyEqualIfTheAdditionsHaveTheirOwnKernels) {
  for (const auto& [arithmetic, limit] : {std::pair(Arithmetic::fp32, 1e-5), std::pair(Arithmetic::bf16, 0.1)}) {
    BlockTraining of{.arithmetic = arithmetic, .rule = "sgd"};  // AdamW amplifies the rounding errors of small
                                                                // gradients
    const Trained fused = run(of);
    of.switched_off = "fused_additions,bias_gradient_epilogue";
    const Trained separate = run(of);
    EXPECT_EQ(fused.captured_nodes.size() + 3, separate.captured_nodes.size()) << "an addition for each block";
    of.steps = 0;
    EXPECT_LT(distance(fused.values, separate.values), limit * distance(fused.values, run(of).values));
  }
}

}  // namespace
}  // namespace carillon::testing
