// The CIFAR-10 tutorial's network, on 24x24 crops of the 32x32 images:
//
//   layer                    output        weights      stddev  bias  weight decay
//   augment                  24x24x3
//   conv1 + ReLU             24x24x64      5x5x3x64     0.05    0.0   0
//   pool1   max 3x3 / 2      12x12x64
//   norm1   LRN              12x12x64
//   conv2 + ReLU             12x12x64      5x5x64x64    0.05    0.1   0
//   norm2   LRN              12x12x64
//   pool2   max 3x3 / 2      6x6x64
//   local3 + ReLU            384           2304x384     0.04    0.1   0.004
//   local4 + ReLU            192           384x192      0.04    0.1   0.004
//   softmax_linear           10            192x10       1/192   0.0   0
#include "src/models/cifar10.h"

#include "kernels/augment/augment.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/lrn/lrn.h"
#include "kernels/max_pool/max_pool.h"

namespace carillon {
namespace {

Initializer normal(float stddev) { return {Initializer::Kind::truncated_normal, stddev}; }
Initializer constant(float value) { return {Initializer::Kind::constant, value}; }

}  // namespace

Value build_cifar10(Graph& graph, const ModelSettings& settings) {
  const float decay = settings.regularization;

  Value x = augment(graph, "input", {.distort = settings.distort, .seed = settings.seed});
  // conv1's ReLU is taken by pool1: the same values and gradients, with a quarter of the elements to go through.
  x = conv2d(graph, "conv1", x, {.filters = 64, .kernel = 5, .weights = normal(0.05f), .biases = constant(0.0f)});
  x = max_pool(graph, "pool1", x, {.window = 3, .stride = 2, .relu = true});
  x = lrn(graph, "norm1", x);
  x = conv2d(graph, "conv2", x,
             {.filters = 64, .kernel = 5, .relu = true, .weights = normal(0.05f), .biases = constant(0.1f)});
  x = lrn(graph, "norm2", x);
  x = max_pool(graph, "pool2", x, {.window = 3, .stride = 2});
  x = dense(graph, "local3", x,
            {.units = 384, .relu = true, .weights = normal(0.04f), .biases = constant(0.1f), .l2_factor = decay});
  x = dense(graph, "local4", x,
            {.units = 192, .relu = true, .weights = normal(0.04f), .biases = constant(0.1f), .l2_factor = decay});
  return dense(graph, "softmax_linear", x, {.units = 10, .weights = normal(1.0f / 192.0f), .biases = constant(0.0f)});
}

}  // namespace carillon
