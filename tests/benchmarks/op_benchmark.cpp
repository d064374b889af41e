// op_benchmark: measures, in milliseconds, each op's forward and backward pass on the CPU, at the shapes of Carillon's
// networks.
//
//   op_benchmark [THREADS [BATCH [TEXT [METHOD [ISA]]]]]
//     THREADS: default 1; BATCH: default 128; TEXT: only ops with this text in their names; METHOD: of convolutions in
//     float32 (auto, direct, winograd), or bf16 for all ops in bf16; ISA: plain, avx2, avx512, avx512_bf16, amx
//     (default: the best that the processor has)
//
// Prints the fastest and the median of 31 runs. To time another op, add a line to `cases`.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/graph/graph.h"
#include "kernels/attention/attention.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/depthwise_conv2d/depthwise_conv2d.h"
#include "kernels/dropout/dropout.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/image_input/image_input.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/lrn/lrn.h"
#include "kernels/pool/pool.h"
#include "kernels/scale_channels/scale_channels.h"
#include "kernels/shared/rows_cpu.h"
#include "src/device/cpu_device.h"
#include "src/graph/passes.h"
#include "src/models/layers.h"

namespace carillon {
namespace {

struct Case {
  std::string name;
  std::function<void(Graph&)> add;  ///< adds the inputs, then the op as the last node
  bool input_gradient = true;       ///< false: the op is the first one of its network, so its input needs no gradient
  double input_density = 1.0;       ///< fraction of the input's values that are not zero
};

/// Adds an op that computes nothing, and returns its output as an input of the measured op: only the memory matters.
/// `extents`: shape of one sample.
Value input(Graph& graph, std::vector<std::int64_t> extents) {
  struct Source final : OpDefinition {
    std::string_view type() const override { return "source"; }
    BackwardNeeds backward_needs() const override { return {}; }
    std::unique_ptr<Op> instantiate(const OpContext&, const OpTensors&) const override { return nullptr; }
  };
  extents.insert(extents.begin(), graph.batch_size());
  return graph.add_op({.name = "input", .definition = std::make_shared<Source>(), .inputs = {}}, Shape(extents));
}
Value input(Graph& graph, std::int64_t height, std::int64_t width, std::int64_t channels) {
  return input(graph, {height, width, channels});
}

Value mnist_layer1(Graph& graph, float expected_density) {
  return dense(graph, "layer1", input(graph, 28, 28, 1), {.units = 500, .input_density = expected_density});
}

/// Sets each image [height, width, channels] to zero, except for a stroke like a stroke of a handwritten digit: one run
/// of values in each of the middle rows. The position of the run changes a little from row to row.
void leave_stroke(const Tensor& images, double density) {
  const std::int64_t height = images.shape[1], width = images.shape[2] * images.shape[3], margin = height / 7;
  const double run = density * static_cast<double>(height * width) / static_cast<double>(height - 2 * margin);
  std::uint32_t state = 1;
  double start = 0.0;
  for (std::int64_t i = 0; i < images.shape.element_count(); ++i) {
    const std::int64_t row = i / width % height, column = i % width;
    const double room = static_cast<double>(width) - run;
    if (column == 0) {
      state = state * 1664525u + 1013904223u;
      const double draw = static_cast<double>(state >> 8) / (1 << 24);
      start = row == margin ? draw * room : std::clamp(start + 4.0 * draw - 2.0, 0.0, std::max(room, 0.0));
    }
    const double at = static_cast<double>(column);
    const bool kept = row >= margin && row < height - margin && at >= start && at < start + run;
    if (!kept) images.floats()[static_cast<std::size_t>(i)] = 0.0f;
  }
}

/// Returns the preprocessing of TensorFlow's CIFAR-10 tutorial.
ImageInputParams standardized(bool distort) {
  ImageInputParams params = tutorial_input;
  params.distort = distort;
  return params;
}

std::vector<Case> cases() {
  const Conv2dParams convolution{.filters = 64, .kernel = 5};
  const auto with_relu = [](Graph& g, Value y) { relu(g, "relu", y); };
  const auto square = [](std::int64_t side, std::int64_t channels, std::int64_t filters, std::int64_t kernel) {
    return [=](Graph& g) {
      conv2d(g, "c", input(g, side, side, channels), {.filters = filters, .kernel = kernel, .biases = std::nullopt});
    };
  };
  return {
      {"image_input", [](Graph& g) { image_input(g, "input", standardized(true)); }},
      {"image_input (evaluation)", [](Graph& g) { image_input(g, "input", standardized(false)); }},
      {"conv1", [=](Graph& g) { with_relu(g, conv2d(g, "conv1", input(g, 24, 24, 3), convolution)); }, false},
      {"conv1 (relu in pool1)", [](Graph& g) { conv2d(g, "conv1", input(g, 24, 24, 3), {.filters = 64, .kernel = 5}); },
       false},
      {"pool1", [](Graph& g) { max_pool(g, "pool1", input(g, 24, 24, 64), {.window = 3, .stride = 2}); }},
      {"pool1 with relu",
       [](Graph& g) { max_pool(g, "pool1", relu(g, "relu", input(g, 24, 24, 64)), {.window = 3, .stride = 2}); }},
      {"norm1, norm2", [](Graph& g) { lrn(g, "norm1", input(g, 12, 12, 64)); }},
      {"conv2", [=](Graph& g) { with_relu(g, conv2d(g, "conv2", input(g, 12, 12, 64), convolution)); }},
      {"pool2", [](Graph& g) { max_pool(g, "pool2", input(g, 12, 12, 64), {.window = 3, .stride = 2}); }},
      {"lenet conv1",
       [=](Graph& g) { with_relu(g, conv2d(g, "c", input(g, 28, 28, 1), {.filters = 32, .kernel = 5})); }, false},
      {"lenet pool1", [](Graph& g) { max_pool(g, "p", input(g, 28, 28, 32), {.window = 2, .stride = 2}); }},
      {"lenet conv2",
       [=](Graph& g) { with_relu(g, conv2d(g, "c", input(g, 14, 14, 32), {.filters = 64, .kernel = 5})); }},
      {"lenet-5 conv1",
       [=](Graph& g) { with_relu(g, conv2d(g, "c", input(g, 28, 28, 1), {.filters = 6, .kernel = 5})); }, false},
      {"lenet-5 conv2",
       [=](Graph& g) {
         with_relu(g, conv2d(g, "c", input(g, 14, 14, 6), {.filters = 16, .kernel = 5, .padding = Padding::valid}));
       }},
      {"3x3 24 to 64 of 31", square(31, 24, 64, 3)},
      {"3x3 64 to 64 of 15", square(15, 64, 64, 3)},
      {"3x3 64 to 256 of 15", square(15, 64, 256, 3)},
      {"3x3 256 to 256 of 15", square(15, 256, 256, 3)},
      {"3x3 256 to 256 of 7", square(7, 256, 256, 3)},
      {"3x3 256 to 256 of 3", square(3, 256, 256, 3)},
      {"3x3 512 to 512 of 4", square(4, 512, 512, 3)},
      {"3x3 64 to 64 of 56", square(56, 64, 64, 3)},
      {"3x3 256 to 256 of 14", square(14, 256, 256, 3)},
      {"3x3 512 to 512 of 7", square(7, 512, 512, 3)},
      {"1x1 64 to 256 of 56", square(56, 64, 256, 1)},
      {"1x1 256 to 64 of 56", square(56, 256, 64, 1)},
      {"1x1 256 to 128 of 56", square(56, 256, 128, 1)},
      {"1x1 128 to 512 of 28", square(28, 128, 512, 1)},
      {"1x1 512 to 128 of 28", square(28, 512, 128, 1)},
      {"1x1 256 to 1024 of 14", square(14, 256, 1024, 1)},
      {"1x1 1024 to 256 of 14", square(14, 1024, 256, 1)},
      {"1x1 2048 to 512 of 7", square(7, 2048, 512, 1)},
      {"3x3 24 to 64 of 31, no dx", square(31, 24, 64, 3), false},
      {"3x3 64 to 64 of 15, no dx", square(15, 64, 64, 3), false},
      {"3x3 64 to 256 of 15, no dx", square(15, 64, 256, 3), false},
      {"3x3 256 to 256 of 7, no dx", square(7, 256, 256, 3), false},
      {"3x3 256 to 256 of 3, no dx", square(3, 256, 256, 3), false},
      {"depthwise 7x7, 96 of 56", [](Graph& g) { depthwise_conv2d(g, "d", input(g, 56, 56, 96), {.kernel = 7}); }},
      {"depthwise 7x7, 192 of 28", [](Graph& g) { depthwise_conv2d(g, "d", input(g, 28, 28, 192), {.kernel = 7}); }},
      {"depthwise 7x7, 384 of 14", [](Graph& g) { depthwise_conv2d(g, "d", input(g, 14, 14, 384), {.kernel = 7}); }},
      {"depthwise 7x7, 768 of 7", [](Graph& g) { depthwise_conv2d(g, "d", input(g, 7, 7, 768), {.kernel = 7}); }},
      {"depthwise 3x3/2, 96 of 56",
       [](Graph& g) { depthwise_conv2d(g, "d", input(g, 56, 56, 96), {.kernel = 3, .stride = 2}); }},
      {"batch norm 256 of 16", [](Graph& g) { batch_norm(g, "n", input(g, 16, 16, 256)); }},
      {"batch norm, relu", [=](Graph& g) { with_relu(g, batch_norm(g, "n", input(g, 16, 16, 256))); }},
      {"batch norm 512 of 4", [](Graph& g) { batch_norm(g, "n", input(g, 4, 4, 512)); }},
      {"layer norm 384", [](Graph& g) { layer_norm(g, "n", input(g, 1, 197, 384)); }},
      {"layer norm 96", [](Graph& g) { layer_norm(g, "n", input(g, 56, 56, 96)); }},
      {"layer norm 768", [](Graph& g) { layer_norm(g, "n", input(g, 7, 7, 768)); }},
      {"scale channels 384", [](Graph& g) { scale_channels(g, "s", input(g, 1, 197, 384)); }},
      {"scale channels 96", [](Graph& g) { scale_channels(g, "s", input(g, 56, 56, 96)); }},
      {"scale channels 768", [](Graph& g) { scale_channels(g, "s", input(g, 7, 7, 768)); }},
      {"gelu", [](Graph& g) { gelu(g, "f", input(g, 16, 16, 256)); }},
      {"silu", [](Graph& g) { silu(g, "f", input(g, 16, 16, 256)); }},
      {"relu", [](Graph& g) { relu(g, "f", input(g, 16, 16, 256)); }},
      {"dropout", [](Graph& g) { dropout(g, "d", input(g, 16, 16, 256), {.rate = 0.5f}); }},
      {"average pool 2 of 16", [](Graph& g) { avg_pool(g, "p", input(g, 16, 16, 256), {.window = 2, .stride = 2}); }},
      {"global average pool", [](Graph& g) { global_avg_pool(g, "p", input(g, 16, 16, 256)); }},
      {"attention 6 of 197",
       [](Graph& g) {
         attention(g, "a", input(g, {197, 3 * 384}), {.heads = 6});
       }},
      {"attention 3 of 65",
       [](Graph& g) {
         attention(g, "a", input(g, {65, 3 * 192}), {.heads = 3});
       }},
      {"local3", [=](Graph& g) { with_relu(g, dense(g, "local3", input(g, 6, 6, 64), {.units = 384})); }},
      {"local4", [=](Graph& g) { with_relu(g, dense(g, "local4", input(g, 1, 1, 384), {.units = 192})); }},
      {"softmax_linear", [](Graph& g) { dense(g, "softmax_linear", input(g, 1, 1, 192), {.units = 10}); }},
      {"mnist layer1 by oneDNN", [=](Graph& g) { with_relu(g, mnist_layer1(g, 1.0f)); }, false, 0.2},
      {"mnist layer1, sparse 0.2", [=](Graph& g) { with_relu(g, mnist_layer1(g, 0.2f)); }, false, 0.2},
      {"mnist layer1, sparse 0.5", [=](Graph& g) { with_relu(g, mnist_layer1(g, 0.2f)); }, false, 0.5},
      {"mnist layer1, sparse 1", [=](Graph& g) { with_relu(g, mnist_layer1(g, 0.2f)); }, false},
  };
}

/// One op with its tensors and a batch of images, without a network around it.
class OpUnderTest {
 public:
  OpUnderTest(const Case& which, std::int64_t batch_size, CpuDevice& device, Arithmetic arithmetic) : device_(device) {
    Graph graph(batch_size, arithmetic);
    const DType type = activation_type(arithmetic);
    which.add(graph);
    fuse_activations(graph, {});
    const Graph::Node& node = graph.nodes().back();
    for (const int value : node.inputs)
      add_pair(graph.values()[value].shape, type, tensors_.inputs, tensors_.input_gradients);
    if (which.input_density < 1.0) leave_stroke(tensors_.inputs.front(), which.input_density);
    if (!which.input_gradient) tensors_.input_gradients.assign(tensors_.inputs.size(), Tensor{});
    for (const int value : node.outputs)
      add_pair(graph.values()[value].shape, type, tensors_.outputs, tensors_.output_gradients);
    for (const int parameter : node.parameters)
      add_pair(graph.parameters()[parameter].shape, DType::f32, tensors_.parameters, tensors_.parameter_gradients);
    for (const int state : node.buffers) add(graph.buffers()[state].shape, DType::f32, tensors_.buffers);
    if (node.definition->gradient_shares_output(0)) tensors_.input_gradients.at(0) = tensors_.output_gradients.at(0);
    make_batch(static_cast<std::size_t>(batch_size));
    op_ = node.definition->instantiate({.device = &device_, .arithmetic = arithmetic, .training = true, .step = &step_},
                                       tensors_);
  }

  void forward() { op_->forward(device_.stream()); }
  void backward() { op_->backward(device_.stream()); }
  /// Must be called before each backward pass, because an op may overwrite its output gradients.
  void refill_output_gradients() {
    for (const Tensor& gradient : tensors_.output_gradients) fill(gradient);
  }

 private:
  void add_pair(const Shape& shape, DType type, std::vector<Tensor>& values, std::vector<Tensor>& gradients) {
    add(shape, type, values);
    add(shape, type, gradients);
  }

  void add(const Shape& shape, DType type, std::vector<Tensor>& list) {
    Tensor tensor{nullptr, shape, type};
    buffers_.push_back(device_.allocate(tensor.bytes()));
    tensor.data = buffers_.back().data();
    list.push_back(tensor);
    fill(tensor);
  }

  static void fill(const Tensor& tensor) {
    std::uint32_t state = 1;  // state of a random number generator: the values have both signs and no pattern
    std::vector<float> values(static_cast<std::size_t>(tensor.shape.element_count()));
    for (float& value : values) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1.0f;
    }
    write_floats(values.data(), values.size(), tensor);
  }

  void make_batch(std::size_t batch_size) {
    pixels_.resize(batch_size * image_bytes);
    for (std::size_t i = 0; i < pixels_.size(); ++i) pixels_[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);
    for (std::size_t b = 0; b < batch_size; ++b) images_.push_back(pixels_.data() + b * image_bytes);
    step_.batch = {.images = images_, .first_position = 0};
  }

  static constexpr std::size_t image_bytes = 3072;
  CpuDevice& device_;
  std::vector<Buffer> buffers_;
  std::vector<std::uint8_t> pixels_;
  std::vector<const std::uint8_t*> images_;
  StepInputs step_;
  OpTensors tensors_;
  std::unique_ptr<Op> op_;
};

struct Milliseconds {
  double fastest, median;
};

template <typename Prepare, typename Run>
Milliseconds measure(const Prepare& prepare, const Run& run) {
  constexpr int run_count = 31;
  std::vector<double> times;
  for (int i = 0; i < run_count + 1; ++i) {
    prepare();
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    if (i > 0) times.push_back(time.count());
  }
  std::ranges::sort(times);
  return {times.front(), times[times.size() / 2]};
}

const std::map<std::string_view, ConvolutionMethod> convolution_methods{{"auto", ConvolutionMethod::automatic},
                                                                        {"direct", ConvolutionMethod::direct},
                                                                        {"winograd", ConvolutionMethod::winograd}};
const std::map<std::string_view, Isa> isas{{"plain", Isa::plain},
                                           {"avx2", Isa::avx2},
                                           {"avx512", Isa::avx512},
                                           {"avx512_bf16", Isa::avx512_bf16},
                                           {"amx", Isa::amx}};

template <typename Value>
Value named(std::string_view name, const std::map<std::string_view, Value>& values) {
  const auto found = values.find(name);
  check(found != values.end(), "op_benchmark: no such method or instruction set");
  return found->second;
}

int benchmark(std::span<char* const> arguments) {
  const int threads = !arguments.empty() ? std::atoi(arguments[0]) : 1;
  const std::int64_t batch_size = arguments.size() > 1 ? std::atoi(arguments[1]) : 128;
  const std::string_view text = arguments.size() > 2 ? arguments[2] : "";
  check(threads > 0 && batch_size > 0, "usage: op_benchmark [THREADS [BATCH [TEXT [METHOD [ISA]]]]]");
  CpuSettings settings;
  const bool bf16 = arguments.size() > 3 && std::string_view(arguments[3]) == "bf16";
  if (arguments.size() > 3 && !bf16) settings.convolution = named(arguments[3], convolution_methods);
  if (arguments.size() > 4) settings.isa = named(arguments[4], isas);
  CpuDevice device(threads, settings);
  fmt::print("{} threads, batch {}: milliseconds, fastest (median)\n", threads, batch_size);
  fmt::print("{:<26} {:>20} {:>20}\n", "op", "forward", "backward");
  for (const Case& which : cases()) {
    if (which.name.find(text) == std::string::npos) continue;
    OpUnderTest op(which, batch_size, device, bf16 ? Arithmetic::bf16 : Arithmetic::fp32);
    const Milliseconds forward = measure([] {}, [&] { op.forward(); });
    const Milliseconds backward = measure([&] { op.refill_output_gradients(); }, [&] { op.backward(); });
    fmt::print("{:<26} {:>11.3f} ({:6.3f}) {:>11.3f} ({:6.3f})\n", which.name, forward.fastest, forward.median,
               backward.fastest, backward.median);
  }
  return 0;
}

}  // namespace
}  // namespace carillon

int main(int argc, char** argv) {
  return carillon::single_process_main("op_benchmark", [&] {
    return carillon::benchmark(std::span<char* const>(argv + 1, static_cast<std::size_t>(argc - 1)));
  });
}
