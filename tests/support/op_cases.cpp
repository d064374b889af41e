#include "tests/support/op_cases.h"

#include <algorithm>
#include <iterator>

#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/image_input/image_input.h"
#include "kernels/lrn/lrn.h"
#include "kernels/pool/pool.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"
#include "src/models/layers.h"
#include "tests/support/op_case_lists.h"

namespace carillon::testing {
namespace {

constexpr std::size_t cifar_bytes = 3072;

/// Returns parameters of image_input as in TensorFlow's CIFAR-10 tutorial.
ImageInputParams standardized_crop(bool distort) {
  ImageInputParams params = tutorial_input;
  params.distort = distort;
  params.seed = 9;
  return params;
}

std::vector<OpCase> image_ops() {
  std::vector<OpCase> cases;
  cases.push_back({.name = "ImageInputScaled", .batch = 5, .image_bytes = 63, .build = [](OpHarness& h) {
                     return image_input(h.graph(), "input", {.sample = {7, 9, 1}, .scale = 1.0f / 255.0f});
                   }});
  const auto images = [](OpHarness& h) {
    return image_input(h.graph(), "input", {.sample = {11, 35, 3}, .scale = 1.0f / 255.0f});
  };
  for (const bool cuts : {false, true}) {
    cases.push_back({.name = cuts ? "CutMix" : "MixUp",
                     .batch = 5,
                     .image_bytes = 1155,
                     .rounds_once = false,
                     .build = [=](OpHarness& h) {
                       const MixingParams params{
                           .mixup = cuts ? 0.0 : 1.0, .cutmix = cuts ? 1.0 : 0.0, .height = 11, .width = 35, .seed = 3};
                       return mix_images(h.graph(), "mixing", images(h), params);
                     }});
  }
  cases.push_back(
      {.name = "ImageInputWarped", .batch = 5, .image_bytes = 1155, .rounds_once = false, .build = [=](OpHarness& h) {
         const Value x = images(h);
         warp_images(h.graph(), x, {.rotation = 20.0, .zoom = 0.2, .shift = 0.1, .seed = 3});
         return x;
       }});
  for (const bool distort : {false, true}) {
    cases.push_back(
        {.name = distort ? "ImageInputStandardized" : "ImageInputStandardizedOff",
         .batch = 5,
         .image_bytes = cifar_bytes,
         .build = [=](OpHarness& h) { return image_input(h.graph(), "input", standardized_crop(distort)); }});
  }
  for (const auto& [name, mirroring, distort] :
       {std::tuple("", ImageMirroring::random, true), std::tuple("Off", ImageMirroring::random, false),
        std::tuple("Alternating", ImageMirroring::alternating, true)}) {
    const ImageInputParams params{.values = PixelValues::normalized,
                                  .mean = {0.5f, 0.4f, 0.3f},
                                  .deviation = {0.25f, 0.5f, 1.0f, 1.0f},
                                  .padding = 4,
                                  .mirroring = mirroring,
                                  .cutout = 8,
                                  .distort = distort,
                                  .record_count = 42,
                                  .seed = 9};
    cases.push_back({.name = std::string("ImageInputNormalized") + name,
                     .batch = 5,
                     .image_bytes = cifar_bytes,
                     .build = [=](OpHarness& h) { return image_input(h.graph(), "input", params); }});
  }
  return cases;
}

OpCase several_ops() {
  return {.name = "Several",
          .batch = 3,
          .image_bytes = cifar_bytes,
          .tf32_tolerance = 0.2f,
          .bf16_tolerance = 0.2f,  // if two values are nearly equal, the pooling may choose the other one
          .rounds_once = false,
          .build = [](OpHarness& h) {
            Graph& graph = h.graph();
            Value x = image_input(graph, "input", standardized_crop(true));
            x = conv2d(graph, "conv", x, {.filters = 8, .kernel = 3});
            x = max_pool(graph, "pool", relu(graph, "relu", x), {.window = 3, .stride = 2});
            x = lrn(graph, "norm", x);
            x = dense(graph, "layer", x, {.units = 10});
            return softmax_cross_entropy(graph, "loss", x, labels(h));
          }};
}

}  // namespace

std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases{several_ops()};
  for (std::vector<OpCase>& some : std::vector{products(), tokens(), pools(), elementwise_ops(), shape_ops(),
                                               means_and_products(), norms(), attentions(), losses(), image_ops()}) {
    std::ranges::move(some, std::back_inserter(cases));
  }
  return cases;
}

}  // namespace carillon::testing
