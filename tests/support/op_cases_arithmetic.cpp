// The cases of elementwise functions, broadcasts, changes of shape, means and matrix products of two inputs.
#include "tests/support/op_case_lists.h"

#include "kernels/broadcast/broadcast.h"
#include "kernels/dense/dense.h"
#include "kernels/dropout/dropout.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/gather/gather.h"
#include "kernels/layout/layout.h"
#include "kernels/matmul/matmul.h"
#include "kernels/softmax/softmax.h"
#include "kernels/values/values.h"

namespace carillon::testing {

std::vector<OpCase> elementwise_ops() {
  std::vector<OpCase> cases;
  for (const std::int64_t size : {7, 64}) {
    const std::string name = std::to_string(size);
    cases.push_back({.name = "Dropout" + name, .batch = 5, .drops = true, .build = [=](OpHarness& h) {
                       return dropout(h.graph(), "drop", h.input("x", {5, size}), {.rate = 0.3f});
                     }});
    cases.push_back({.name = "DropPath" + name, .batch = 5, .drops = true, .build = [=](OpHarness& h) {
                       return drop_path(h.graph(), "drop", h.input("x", {5, size}), {.rate = 0.3f});
                     }});
    cases.push_back({.name = "Gelu" + name, .batch = 3, .build = [=](OpHarness& h) {
                       return gelu(h.graph(), "op", h.input("x", {3, size}));
                     }});
    cases.push_back({.name = "Silu" + name, .batch = 3, .build = [=](OpHarness& h) {
                       return silu(h.graph(), "op", h.input("x", {3, size}));
                     }});
  }
  cases.push_back({.name = "Relu", .batch = 3, .build = [](OpHarness& h) {
                     return relu(h.graph(), "relu", h.input("x", {3, 7, 11}));
                   }});
  cases.push_back({.name = "Scale", .batch = 3, .build = [](OpHarness& h) {
                     return scale(h.graph(), "scale", h.input("x", {3, 7, 11}), 0.125f);
                   }});
  using AddFunction = Value (*)(Graph&, const std::string&, Value);
  const auto function = [&](const char* name, bool is_bounded, AddFunction add) {
    for (const std::int64_t size : {7, 64}) {
      cases.push_back({.name = name + std::to_string(size),
                       .batch = 3,
                       .is_bounded = is_bounded,
                       .rounds_once = !std::string_view(name).ends_with("OfExp"),
                       .build = [=](OpHarness& h) {
                         return add(h.graph(), "op", h.input("x", {3, size}));
                       }});
    }
  };
  function("Sigmoid", true, sigmoid);
  function("HardSigmoid", true, [](Graph& graph, const std::string& name, Value x) {
    return hard_sigmoid(graph, name, x, {.alpha = 0.75f});
  });
  function("HardSwish", false, hard_swish);
  function("Clip", true, [](Graph& graph, const std::string& name, Value x) {
    return clip(graph, name, x, {.least = -0.3f, .most = 0.625f});
  });
  function("LeakyRelu", false, [](Graph& graph, const std::string& name, Value x) {
    return leaky_relu(graph, name, x, {.slope = 0.125f});
  });
  function("Tanh", true, tanh);
  function("Exp", false, exp);
  function("SqrtOfExp", false,
           [](Graph& graph, const std::string& name, Value x) { return sqrt(graph, name, exp(graph, "exp", x)); });
  function("ReciprocalOfExp", true, [](Graph& graph, const std::string& name, Value x) {
    return reciprocal(graph, name, exp(graph, "exp", x));
  });
  function("Erf", true, erf);
  function("Shift", false,
           [](Graph& graph, const std::string& name, Value x) { return shift(graph, name, x, 0.625f); });
  for (const std::int64_t units : {12, 64}) {
    for (const auto& [name, kind] :
         {std::pair("Gelu", ActivationKind::gelu), std::pair("Silu", ActivationKind::silu)}) {
      cases.push_back({.name = "Dense" + std::to_string(units) + name,  // on a GPU, gelu and silu sum bias gradients
                       .batch = 70,
                       .rounds_once = false,
                       .build = [units = units, activation = kind](OpHarness& h) {
                         const Value x = h.input("x", {70, 9, 8});
                         return activated(activation, h.graph(),
                                          dense(h.graph(), "layer", x, {.units = units, .per_position = true}));
                       }});
    }
  }
  for (const std::int64_t size : {3, 8}) {
    cases.push_back({.name = "Split" + std::to_string(size),  // no op reads the second part
                     .batch = 5,
                     .integers = true,
                     .drops = true,
                     .build = [=](OpHarness& h) {
                       const std::vector<Value> parts = split(h.graph(), "split", h.input("x", {5, 3, 5 * size}),
                                                              {.sizes = {size, 2 * size, size, size}});
                       return add(h.graph(), "sum", parts[0], parts[3]);
                     }});
  }
  for (const std::int64_t size : {3, 8}) {
    cases.push_back({.name = "Concat" + std::to_string(size), .batch = 5, .integers = true, .build = [=](OpHarness& h) {
                       const std::vector<Value> parts{h.input("x", {5, 3, size}), h.input("y", {5, 3, 2 * size})};
                       return concat(h.graph(), "concat", parts);
                     }});
  }
  for (const auto& [name, shape] : {std::pair("Channels", Shape{3, 16}), std::pair("Columns", Shape{3, 1, 5, 1}),
                                    std::pair("All", Shape{3, 4, 5, 16}), std::pair("One", Shape{3, 1})}) {
    cases.push_back({.name = std::string("MultiplyBy") + name, .batch = 3, .build = [shape = shape](OpHarness& h) {
                       return multiply(h.graph(), "product", h.input("x", {3, 4, 5, 16}), h.input("y", shape));
                     }});
    cases.push_back({.name = std::string("Add") + name, .batch = 3, .build = [shape = shape](OpHarness& h) {
                       return add(h.graph(), "sum", h.input("y", shape), h.input("x", {3, 4, 5, 16}));
                     }});
  }
  cases.push_back({.name = "Constants", .batch = 3, .rounds_once = false, .build = [](OpHarness& h) {
                     const Value scales = constant(h.graph(), "scales", {.shape = {4}, .values = {0.5f, -1, 2, 0.25f}});
                     const Value shift = constant(h.graph(), "shift", {.shape = {7, 1}, .values = {0.75f}});
                     const Value x = multiply(h.graph(), "product", h.input("x", {3, 7, 4}), scales);
                     return add(h.graph(), "sum", x, shift);
                   }});
  cases.push_back({.name = "Variables", .batch = 3, .rounds_once = false, .build = [](OpHarness& h) {
                     const Value factors = variable(h.graph(), "factors", {.shape = {4}});
                     const Value positions = variable(h.graph(), "positions", {.shape = {7, 4}});
                     const Value x = multiply(h.graph(), "product", h.input("x", {3, 7, 4}), factors);
                     return add(h.graph(), "sum", x, positions);
                   }});
  cases.push_back(
      {.name = "SharedVariables", .batch = 3, .integers = true, .rounds_once = false, .build = [](OpHarness& h) {
         Graph& graph = h.graph();
         const Value x = dense(graph, "a", h.input("x", {3, 8}), {.units = 8});
         graph.share_parameter("b/weights", "a/weights");
         graph.share_parameter("b/biases", "a/biases");
         return dense(graph, "b", x, {.units = 8});
       }});
  cases.push_back({.name = "BranchesThatJoin",  // three ops read x; `inner` reads x and a branch of x
                   .batch = 3,
                   .integers = true,
                   .rounds_once = false,
                   .build = [](OpHarness& h) {
                     Graph& graph = h.graph();
                     const Value x = h.input("x", {3, 8});
                     const Value sum = add(graph, "inner", dense(graph, "a", x, {.units = 8}), x);
                     return add(graph, "outer", sum, dense(graph, "b", x, {.units = 8}));
                   }});
  return cases;
}

std::vector<OpCase> shape_ops() {
  std::vector<OpCase> cases;
  const auto add_case = [&](const std::string& name, const Shape& x, bool drops, auto add) {
    cases.push_back({.name = name, .batch = x[0], .integers = true, .drops = drops, .build = [=](OpHarness& h) {
                       return add(h.graph(), h.input("x", x));
                     }});
  };
  for (const std::int64_t size : {3, 16}) {
    const std::string name = std::to_string(size);
    add_case("TransposeRows" + name, {3, 5, 4, size}, false, [](Graph& graph, Value x) {
      return transpose(graph, "op", x, {.axes = {0, 2, 1, 3}});
    });
    add_case("TransposeChannels" + name, {3, 5, 4, size}, false, [](Graph& graph, Value x) {
      return transpose(graph, "op", x, {.axes = {0, 3, 2, 1}});
    });
    add_case("Pad" + name, {3, 5, 4, size}, false, [](Graph& graph, Value x) {
      return pad(graph, "op", x, {.before = {1, 0, 0}, .after = {2, 1, 0}, .value = 0.5f});
    });
    add_case("Crop" + name, {3, 5, 4, size}, true, [](Graph& graph, Value x) {
      return pad(graph, "op", x, {.before = {-1, 0, 2}, .after = {-2, 1, -1}});
    });
    add_case("Slice" + name, {3, 5, size}, true, [](Graph& graph, Value x) {
      return slice(graph, "op", x, {.axis = 1, .first = 4, .count = 2, .step = -3});
    });
    add_case("Gather" + name, {3, 5, size}, true, [](Graph& graph, Value x) {
      return gather(graph, "op", x, {.axis = 1, .indices = {4, 0, 0, -1, 2}});
    });
    add_case("GatherLast" + name, {3, 5, size}, true, [](Graph& graph, Value x) {
      return gather(graph, "op", x, {.indices = {2, 1, 2}});
    });
    add_case("Reshape" + name, {3, 5, size}, false, [](Graph& graph, Value x) {
      return scale(graph, "scale", reshape(graph, "op", x, {.extents = {-1}}), 0.5f);
    });
  }
  return cases;
}

std::vector<OpCase> means_and_products() {
  std::vector<OpCase> cases;
  cases.push_back({.name = "GatherWeighted", .batch = 3, .build = [](OpHarness& h) {
                     const GatherParams params{
                         .axis = 1,
                         .indices = {0, 1, 1, 1, 1, 2, 2, 3, 3, -1},
                         .weights = {0.75f, 0.25f, 1.0f, 0.5f, 0.3f, 0.7f, 0.5f, 0.5f, 1.5f, 2.0f},
                         .terms = 2};
                     return gather(h.graph(), "op", h.input("x", {3, 4, 5, 6}), params);
                   }});
  for (const auto& [name, axes] :
       {std::pair("Images", std::vector<std::int64_t>{1, 2}), std::pair("Channels", std::vector<std::int64_t>{-1}),
        std::pair("Rows", std::vector<std::int64_t>{1}), std::pair("Samples", std::vector<std::int64_t>{1, 2, 3})}) {
    cases.push_back({.name = std::string("MeanOf") + name, .batch = 3, .build = [axes = axes](OpHarness& h) {
                       return mean(h.graph(), "op", h.input("x", {3, 4, 5, 6}), {.axes = axes, .keeps_axes = true});
                     }});
  }
  for (const std::int64_t size : {3, 32, 70}) {
    cases.push_back({.name = "Softmax" + std::to_string(size), .batch = 3, .build = [=](OpHarness& h) {
                       return softmax(h.graph(), "op", h.input("x", {3, 5, size}));
                     }});
  }
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      const std::string name = std::string(a ? "Transposed" : "") + "By" + (b ? "Transposed" : "");
      cases.push_back({.name = "Matmul" + name, .batch = 3, .integers = true, .build = [=](OpHarness& h) {
                         const Value left = h.input("x", a ? Shape{3, 2, 8, 5} : Shape{3, 2, 5, 8});
                         const Value right = h.input("y", b ? Shape{3, 2, 7, 8} : Shape{3, 2, 8, 7});
                         return matmul(h.graph(), "op", left, right, {.transpose_a = a, .transpose_b = b});
                       }});
    }
  }
  return cases;
}

}  // namespace carillon::testing
