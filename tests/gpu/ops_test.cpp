// Compares every op's CUDA implementation with its CPU implementation.
#include <cmath>
#include <memory>

#include "kernels/avg_pool/avg_pool.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/cifar_distort/cifar_distort.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/dropout/dropout.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/lrn/lrn.h"
#include "kernels/max_pool/max_pool.h"
#include "kernels/mix_images/mix_images.h"
#include "kernels/normalize_images/normalize_images.h"
#include "kernels/scale_input/scale_input.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"
#include "kernels/warp_images/warp_images.h"
#include "src/device/cuda_device.h"
#include "tests/gpu/ops_on_a_gpu.h"

namespace carillon::testing {
namespace {

TEST_F(OpsOnAGpu, Dense) {
  for (const bool relu : {false, true}) {
    expect_like_cpu({.batch = 5, .integers = true, .build = [=](OpHarness& harness) {
                       return relu_if(relu, harness.graph(),
                                      dense(harness.graph(), "layer", harness.input("x", {5, 7}), {.units = 3}));
                     }});
    expect_like_cpu({.batch = 33, .integers = true, .build = [=](OpHarness& harness) {
                       return relu_if(
                           relu, harness.graph(),
                           dense(harness.graph(), "layer", harness.input("x", {33, 4, 5, 8}), {.units = 129}));
                     }});
  }
}

TEST_F(OpsOnAGpu, DenseWithoutBiases) {
  expect_like_cpu(
      {.batch = 5, .integers = true, .build = [](OpHarness& harness) {
         return dense(harness.graph(), "layer", harness.input("x", {5, 8}), {.units = 16, .biases = std::nullopt});
       }});
}

TEST_F(OpsOnAGpu, ANaNPassesThroughTheReluOfDense) {
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::tf32, Arithmetic::bf16}) {
    CudaDevice gpu(0);
    OpHarness harness(2, gpu, arithmetic);
    harness.finish(
        relu(harness.graph(), "relu", dense(harness.graph(), "layer", harness.input("x", {2, 3}), {.units = 8})));
    harness.set("x", std::vector<float>{1.0f, NAN, 1.0f, 1.0f, 1.0f, 1.0f});
    const std::vector<float> y = copy(harness.forward());
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i < 8) << i;
  }
}

TEST_F(OpsOnAGpu, Conv2d) {
  for (const bool relu : {false, true}) {
    expect_like_cpu({.batch = 3, .integers = true, .build = [=](OpHarness& harness) {
                       return relu_if(relu, harness.graph(),
                                      conv2d(harness.graph(), "conv", harness.input("x", {3, 7, 6, 3}),
                                             {.filters = 5, .kernel = 5}));
                     }});
    expect_like_cpu({.batch = 2, .integers = true, .build = [=](OpHarness& harness) {
                       return relu_if(relu, harness.graph(),
                                      conv2d(harness.graph(), "conv", harness.input("x", {2, 8, 9, 4}),
                                             {.filters = 8, .kernel = 3, .stride = 2, .padding = Padding::valid}));
                     }});
  }
  expect_like_cpu({.batch = 2, .integers = true, .build = [](OpHarness& harness) {
                     const Conv2dParams params{3, 3, 2, Padding::symmetric(1), {}, std::nullopt};
                     return conv2d(harness.graph(), "conv", harness.input("x", {2, 8, 6, 4}), params);
                   }});
  expect_like_cpu({.batch = 2, .integers = true, .build = [](OpHarness& harness) {  // as whitening is
                     return conv2d(harness.graph(), "conv", harness.input("x", {2, 9, 9, 3}),
                                   {.filters = 24, .kernel = 2, .padding = Padding::valid});
                   }});
}

TEST_F(OpsOnAGpu, MaxPool) {
  for (const bool relu : {false, true}) {
    for (const std::int64_t channels : {3, 16}) {
      expect_like_cpu({.batch = 3, .build = [=](OpHarness& harness) {
                         const Value x = relu_if(relu, harness.graph(), harness.input("x", {3, 7, 8, channels}));
                         return max_pool(harness.graph(), "pool", x, {.window = 3, .stride = 2});
                       }});
    }
  }
}

/// The pooling applies the convolution's biases (fused).
TEST_F(OpsOnAGpu, Conv2dBeforeMaxPool) {
  for (const bool relu : {false, true}) {
    for (const std::int64_t filters : {5, 16}) {
      expect_like_cpu(
          {.batch = 3, .integers = true, .build = [=](OpHarness& harness) {
             Graph& graph = harness.graph();
             const Value z = conv2d(graph, "conv", harness.input("x", {3, 7, 8, 4}), {.filters = filters, .kernel = 3});
             return max_pool(graph, "pool", relu_if(relu, graph, z), {.window = 3, .stride = 2});
           }});
    }
  }
}

/// Images and filters with padded channels.
TEST_F(OpsOnAGpu, Conv2dOfImages) {
  expect_like_cpu({.batch = 3, .image_bytes = 7 * 6 * 3, .integers = true, .build = [](OpHarness& harness) {
                     Graph& graph = harness.graph();
                     const Value x = scale_input(graph, "input", {.sample = {7, 6, 3}, .scale = 1.0f / 256.0f});
                     return conv2d(graph, "conv", x, {.filters = 24, .kernel = 5});
                   }});
}

TEST_F(OpsOnAGpu, AvgPool) {
  for (const std::int64_t channels : {3, 16}) {
    expect_like_cpu({.batch = 3, .build = [=](OpHarness& harness) {
                       const Value x = harness.input("x", {3, 7, 8, channels});
                       return avg_pool(harness.graph(), "pool", x, {.window = 3, .stride = 2});
                     }});
    expect_like_cpu({.batch = 3, .build = [=](OpHarness& harness) {
                       return global_avg_pool(harness.graph(), "pool", harness.input("x", {3, 7, 8, channels}));
                     }});
  }
}

TEST_F(OpsOnAGpu, Dropout) {
  for (const std::int64_t size : {7, 64}) {
    expect_like_cpu({.batch = 5, .drops = true, .build = [=](OpHarness& harness) {
                       return dropout(harness.graph(), "drop", harness.input("x", {5, size}), {.rate = 0.3f});
                     }});
  }
}

TEST_F(OpsOnAGpu, Relu) {
  expect_like_cpu({.batch = 3, .build = [](OpHarness& harness) {
                     return relu(harness.graph(), "relu", harness.input("x", {3, 7, 11}));
                   }});
}

TEST_F(OpsOnAGpu, Activations) {
  for (const std::int64_t width : {7, 64}) {
    for (const auto activation : {gelu, silu}) {
      expect_like_cpu({.batch = 3, .build = [=](OpHarness& harness) {
                         return activation(harness.graph(), "op", harness.input("x", {3, width}));
                       }});
    }
  }
}

/// A value with three readers, one of them the join itself.
TEST_F(OpsOnAGpu, BranchesThatJoin) {
  expect_like_cpu({.batch = 3, .integers = true, .build = [](OpHarness& harness) {
                     Graph& graph = harness.graph();
                     const Value x = harness.input("x", {3, 8});
                     const Value sum = add(graph, "inner", dense(graph, "a", x, {.units = 8}), x);
                     return add(graph, "outer", sum, dense(graph, "b", x, {.units = 8}));
                   }});
}

TEST_F(OpsOnAGpu, Lrn) {
  for (const std::int64_t channels : {5, 64}) {
    expect_like_cpu({.batch = 3, .build = [=](OpHarness& harness) {
                       return lrn(harness.graph(), "norm", harness.input("x", {3, 4, 5, channels}), {.alpha = 0.5f});
                     }});
  }
}

TEST_F(OpsOnAGpu, BatchNorm) {
  for (const ActivationKind kind : {ActivationKind::none, ActivationKind::relu, ActivationKind::gelu}) {
    for (const std::int64_t channels : {5, 16}) {
      expect_like_cpu({.batch = 9, .build = [=](OpHarness& harness) {
                         const Value x = harness.input("x", {9, 3, 5, channels});
                         return activated(kind, harness.graph(),
                                          batch_norm(harness.graph(), "norm", x, {.trains_scale = channels != 5}));
                       }});
    }
  }
}

TEST_F(OpsOnAGpu, BatchNormInEvaluation) {
  std::vector<float> y, moving_mean;
  const auto cpu = std::make_unique<CpuDevice>(1);
  CudaDevice gpu(0);
  for (Device* const device : std::initializer_list<Device*>{cpu.get(), &gpu}) {
    OpHarness harness(7, *device);
    harness.finish(batch_norm(harness.graph(), "norm", harness.input("x", {7, 3, 8})));
    harness.forward();
    const std::vector<float> found = copy(harness.evaluate()), state = copy(harness.state("norm/moving_mean"));
    if (device == cpu.get()) y = found;
    if (device == cpu.get()) moving_mean = state;
    expect_close({{"output", y}, {"state", moving_mean}}, {{"output", found}, {"state", state}}, 2e-6f);
  }
}

/// Those of the noise.
Value labels(OpHarness& harness) { return harness.graph().add_target({.type = DType::i32, .shape = {}}); }

TEST_F(OpsOnAGpu, SoftmaxCrossEntropy) {
  for (const std::int64_t batch : {1, 7, 300}) {
    expect_like_cpu({.batch = batch, .build = [=](OpHarness& harness) {
                       return softmax_cross_entropy(harness.graph(), "loss", harness.input("z", {batch, 10}),
                                                    labels(harness), {.label_smoothing = batch == 7 ? 0.2f : 0.0f});
                     }});
    expect_like_cpu({.batch = batch, .build = [=](OpHarness& harness) {
                       return softmax_cross_entropy(
                           harness.graph(), "loss", harness.input("z", {batch, 10}), labels(harness),
                           {.label_smoothing = batch == 7 ? 0.2f : 0.0f, .mixing = {.mixup = 1.0, .seed = 3}});
                     }});
  }
}

TEST_F(OpsOnAGpu, SoftmaxCrossEntropyOfManyClasses) {
  for (const std::int64_t classes : {100, 1000}) {
    for (const std::int64_t batch : {3, 70}) {  // the layer's bias gradient is the loss's affair, or its own
      // The input's gradient is a sum over the classes.
      expect_like_cpu({.batch = batch, .integers = true, .fp32_tolerance = 1e-5f, .build = [=](OpHarness& harness) {
                         Graph& graph = harness.graph();
                         const Value z = dense(graph, "layer", harness.input("x", {batch, 8}), {.units = classes});
                         return softmax_cross_entropy(graph, "loss", z, labels(harness));
                       }});
    }
  }
}

TEST_F(OpsOnAGpu, Scale) {
  expect_like_cpu({.batch = 3, .build = [](OpHarness& harness) {
                     return scale(harness.graph(), "scale", harness.input("x", {3, 7, 11}), 0.125f);
                   }});
}

TEST_F(OpsOnAGpu, ScaleInput) {
  expect_like_cpu({.batch = 5, .image_bytes = 63, .build = [](OpHarness& harness) {
                     return scale_input(harness.graph(), "input", {.sample = {7, 9, 1}, .scale = 1.0f / 255.0f});
                   }});
}

TEST_F(OpsOnAGpu, MixImages) {
  for (const bool cuts : {false, true}) {
    expect_like_cpu(
        {.batch = 5, .image_bytes = 1155, .build = [=](OpHarness& harness) {
           const Value x = scale_input(harness.graph(), "input", {.sample = {11, 35, 3}, .scale = 1.0f / 255.0f});
           const MixingParams params{
               .mixup = cuts ? 0.0 : 1.0, .cutmix = cuts ? 1.0 : 0.0, .height = 11, .width = 35, .seed = 3};
           return mix_images(harness.graph(), "mixing", x, params);
         }});
  }
}

TEST_F(OpsOnAGpu, WarpImages) {
  expect_like_cpu(
      {.batch = 5, .image_bytes = 1155, .build = [](OpHarness& harness) {
         const Value x = scale_input(harness.graph(), "input", {.sample = {11, 35, 3}, .scale = 1.0f / 255.0f});
         const WarpParams params{.rotation = 20.0, .zoom = 0.2, .shift = 0.1, .seed = 3};
         return warp_images(harness.graph(), "warp", x, params);
       }});
}

TEST_F(OpsOnAGpu, CifarDistort) {
  for (const bool distort : {false, true}) {
    expect_like_cpu({.batch = 5, .image_bytes = 3072, .build = [=](OpHarness& harness) {
                       return cifar_distort(harness.graph(), "input", {.distort = distort, .seed = 9});
                     }});
  }
}

TEST_F(OpsOnAGpu, NormalizeImages) {
  const auto expect = [](ImageMirroring mirroring, bool distort) {
    expect_like_cpu({.batch = 5, .image_bytes = 3072, .build = [=](OpHarness& harness) {
                       return normalize_images(harness.graph(), "input",
                                               {.mean = {0.5f, 0.4f, 0.3f},
                                                .deviation = {0.25f, 0.5f, 1.0f, 1.0f},
                                                .padding = 4,
                                                .mirroring = mirroring,
                                                .record_count = 42,
                                                .cutout = 8,
                                                .distort = distort,
                                                .seed = 9});
                     }});
  };
  for (const bool distort : {false, true}) expect(ImageMirroring::random, distort);
  expect(ImageMirroring::alternating, true);
}

/// In bfloat16 the pooling may choose another of two nearly equal values.
TEST_F(OpsOnAGpu, Several) {
  expect_like_cpu({.batch = 3, .image_bytes = 3072, .bf16_tolerance = 0.2f, .build = [](OpHarness& harness) {
                     Graph& graph = harness.graph();
                     Value x = cifar_distort(graph, "input", {.distort = true, .seed = 9});
                     x = conv2d(graph, "conv", x, {.filters = 8, .kernel = 3});
                     x = max_pool(graph, "pool", relu(graph, "relu", x), {.window = 3, .stride = 2});
                     x = lrn(graph, "norm", x);
                     x = dense(graph, "layer", x, {.units = 10});
                     return softmax_cross_entropy(graph, "loss", x, labels(harness));
                   }});
}

}  // namespace
}  // namespace carillon::testing
