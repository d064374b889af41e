// Times cuDNN's plans for the convolutions of networks. tests/gpu/measured_plans.py makes the table of measured plans
// from the output.
//
//   time_conv_plans_gpu [--seconds S] [--count N] [NETWORK:IMAGE_SIZE:BATCH:PRECISION...]
//
// Prints a line per plan, with fields separated by tabs: kind; place among the candidates; microseconds; bytes of
// workspace; kernel; convolution (convolution_text). The kinds:
//   rules    the plan that the rules choose, timed twice: a gain must be above the noise
//   plan     one of the first N acceptable plans
//   differs  a plan with other bits in a second run (checked for small results only)
//   product  cuBLASLt's product that computes the same as a 1 x 1 convolution
// Lines that begin with "#" are comments. Ends after S seconds, between two convolutions.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "carillon/models/networks.h"
#include "kernels/shared/matrix_product_cuda.h"
#include "src/core/bf16.h"
#include "tests/gpu/plan_stopwatch.h"
#include "tests/support/conv2d_tasks.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct Request {
  std::string network;
  std::int64_t size = 0, batch = 0;
  Arithmetic arithmetic = Arithmetic::bf16;
};

struct Options {
  double seconds = 80.0;
  std::size_t count = 8;
  std::vector<Request> requests;
};

const std::vector<std::pair<std::string, MakeNetwork>>& networks() {
  static const std::vector<std::pair<std::string, MakeNetwork>> all{{"airbench94", airbench94_network},
                                                                    {"airbench96", airbench96_network},
                                                                    {"resnet18_cifar", resnet18_cifar_network},
                                                                    {"resnet50", resnet50_network},
                                                                    {"cifar10", cifar10_network},
                                                                    {"resnet9", resnet9_network}};
  return all;
}

Request request_of(const std::string& text) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == ':') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (parts.size() != 4) fail(ExitCode::usage, "{}: expected NETWORK:IMAGE_SIZE:BATCH:PRECISION", text);
  Request request{parts[0], std::stoll(parts[1]), std::stoll(parts[2])};
  if (parts[3] != "bf16") request.arithmetic = parts[3] == "tf32" ? Arithmetic::tf32 : Arithmetic::fp32;
  return request;
}

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--seconds" && i + 1 < argc) {
      options.seconds = std::stod(argv[++i]);
    } else if (word == "--count" && i + 1 < argc) {
      options.count = std::stoul(argv[++i]);
    } else {
      options.requests.push_back(request_of(word));
    }
  }
  if (options.requests.empty()) {
    for (const char* text : {"airbench94:32:1024:bf16", "resnet50:224:256:bf16", "resnet18_cifar:32:128:bf16",
                             "airbench96:32:1024:bf16", "cifar10:32:128:bf16"}) {
      options.requests.push_back(request_of(text));
    }
  }
  return options;
}

Network network_of(const Request& request) {
  const auto found = std::ranges::find(networks(), request.network, &std::pair<std::string, MakeNetwork>::first);
  if (found == networks().end()) fail(ExitCode::usage, "{}: unknown network", request.network);
  return found->second({.image = {request.size, request.size, 3}, .outputs = 10, .distort = true});
}

/// Returns device memory with random values in [-1, 1). A kernel can read the memory as bf16 or as f32. In both cases,
/// the values are between about -1 and 1.
Buffer random_buffer(CudaDevice& device, std::size_t bytes) {
  constexpr std::size_t block_values = std::size_t{1} << 21;
  Buffer buffer = device.allocate(bytes);
  const std::vector<float> values = random_values(std::min(block_values, bytes / sizeof(Bf16)), 1);
  std::vector<Bf16> block(values.size());
  std::ranges::transform(values, block.begin(), to_bf16);
  auto* memory = static_cast<std::byte*>(buffer.data());
  std::size_t filled = block.size() * sizeof(Bf16);
  device.upload(block.data(), memory, filled);
  for (; filled < bytes; filled *= 2) device.copy(memory, memory + filled, std::min(filled, bytes - filled));
  return buffer;
}

std::size_t bytes_of(const StridedTensor& tensor) {
  std::size_t bytes = sizeof(float);
  for (const std::int64_t extent : tensor.extents) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

/// The operands of the convolutions. Results are written to separate memory, so the operands remain random.
class Operands {
 public:
  Operands(CudaDevice& device, const std::vector<NamedConv2dTask>& tasks) {
    std::size_t x = 0, weights = 0, y = 0;
    for (const auto& [op, task, is_product] : tasks) {
      x = std::max(x, bytes_of(task.layout.x));
      weights = std::max(weights, bytes_of(task.layout.weights));
      y = std::max(y, bytes_of(task.layout.y));
    }
    x_ = random_buffer(device, x);
    weights_ = random_buffer(device, weights);
    y_ = random_buffer(device, y);
    result_ = device.allocate(std::max({x, weights, y}));
  }
  Conv2dPlan::Memory of(Conv2dPass pass) const {
    Conv2dPlan::Memory memory{.x = x_.data(), .weights = weights_.data(), .biases = y_.data(), .y = y_.data()};
    (pass == Conv2dPass::weights_gradient ? memory.weights
     : pass == Conv2dPass::data_gradient  ? memory.x
                                          : memory.y) = result_.data();
    return memory;
  }
  const void* result() const { return result_.data(); }

 private:
  Buffer x_, weights_, y_, result_;
};

/// Returns the matrix product that computes the pass of the convolution. Returns nullopt if the window is not 1 x 1
/// with stride
/// 1. The product for the weights gradient has a float32 result.
std::optional<MatrixProductCuda> product_of(CudaDevice& device, const Conv2dTask& task,
                                            const Conv2dPlan::Memory& memory) {
  const auto& [filters, channels, window_rows, window_columns] = task.layout.weights.extents;
  const auto& [batch, x_channels, rows, columns] = task.layout.x.extents;
  if (task.pass == Conv2dPass::forward_bias || task.layout.x.extents[2] != task.layout.y.extents[2] ||
      window_rows * window_columns != 1) {
    return std::nullopt;
  }
  const std::int64_t pixels = batch * rows * columns;
  const Tensor x{memory.x, {pixels, channels}, task.type}, y{memory.y, {pixels, filters}, task.type};
  const bool is_gradient = task.pass == Conv2dPass::weights_gradient;
  const Tensor weights{memory.weights, {filters, channels}, is_gradient ? DType::f32 : task.type};
  const MatrixOperand of_x{&x, {pixels, channels}}, of_y{&y, {pixels, filters}};
  if (is_gradient) {
    return MatrixProductCuda(device, task.arithmetic, {&x, {channels, pixels, true}}, of_y,
                             {&weights, {channels, filters}});
  }
  if (task.pass == Conv2dPass::data_gradient) {
    return MatrixProductCuda(device, task.arithmetic, of_y, {&weights, {filters, channels}}, of_x);
  }
  return MatrixProductCuda(device, task.arithmetic, of_x, {&weights, {channels, filters, true}}, of_y);
}

class Measurement {
 public:
  Measurement(CudaDevice& device, std::size_t count, const std::vector<NamedConv2dTask>& tasks)
      : device_(device), count_(count), operands_(device, tasks) {}

  /// Times the plans of a convolution. Does nothing if an equal convolution has already been timed.
  void time(const NamedConv2dTask& named) {
    const CudnnTarget target{.handle = device_.cudnn()};
    const Conv2dTask& task = named.task;
    const std::string text = Conv2dPlan::text(target, task);
    if (!timed_.insert(text).second) return;
    std::string reason;
    const auto chosen = Conv2dPlan::find(target, task, reason, {});
    if (!chosen) return;  // no plan exists, for example for a bias in bf16
    double best = timed("rules", -1, *chosen, task, text, 1e9);
    const auto plans = Conv2dPlan::candidates(target, task, count_);
    for (std::size_t i = 0; i < plans.size(); ++i) {
      if (plans[i]->kernel() == chosen->kernel()) continue;
      best = std::min(best, timed("plan", static_cast<int>(i), *plans[i], task, text, best));
    }
    timed("rules", -1, *chosen, task, text, best);
    if (const auto product = product_of(device_, task, operands_.of(task.pass))) {
      const double time = time_of(
          device_, [&] { product->run(device_.stream()); }, best);
      print("product", -1, time, 0, "cuBLASLt", text);
    }
  }

 private:
  double timed(const char* kind, int place, const Conv2dPlan& plan, const Conv2dTask& task, const std::string& text,
               double best) {
    const Conv2dPlan::Memory memory = operands_.of(task.pass);
    const auto run = [&] { plan.run(device_.cudnn(), memory, device_.workspace().data()); };
    const double time = time_of(device_, run, best);
    print(repeats_its_bits(run, task) ? kind : "differs", place, time, plan.workspace_bytes(), plan.kernel(), text);
    return time;
  }
  bool repeats_its_bits(const std::function<void()>& run, const Conv2dTask& task) {
    constexpr std::int64_t most_bytes = std::int64_t{8} << 20;
    const StridedTensor& result = task.pass == Conv2dPass::weights_gradient ? task.layout.weights
                                  : task.pass == Conv2dPass::data_gradient  ? task.layout.x
                                                                            : task.layout.y;
    const std::int64_t bytes = result.extents[0] * result.strides[0] * static_cast<std::int64_t>(size_of(task.type));
    if (bytes > most_bytes) return true;
    std::vector<std::byte> results[2];
    for (std::vector<std::byte>& found : results) {
      found.resize(static_cast<std::size_t>(bytes));
      run();
      device_.stream().synchronize();
      device_.download(operands_.result(), found.data(), found.size());
    }
    return results[0] == results[1];
  }
  static void print(const char* kind, int place, double time, std::size_t workspace, const std::string& kernel,
                    const std::string& text) {
    fmt::print("{}\t{}\t{:.2f}\t{}\t{}\t{}\n", kind, place, time, workspace, kernel, text);
    std::fflush(stdout);
  }

  CudaDevice& device_;
  std::size_t count_;
  Operands operands_;
  std::set<std::string> timed_;
};

void run(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  CudaDevice device(0);
  std::vector<NamedConv2dTask> tasks;
  for (const Request& request : options.requests) {
    const auto more = conv2d_tasks(network_of(request), request.batch, request.arithmetic, device.workspace().size());
    tasks.insert(tasks.end(), more.begin(), more.end());
  }
  Measurement measurement(device, options.count, tasks);
  std::size_t done = 0;
  for (const NamedConv2dTask& task : tasks) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    if (passed.count() > options.seconds) break;
    try {
      measurement.time(task);
    } catch (const std::exception& error) {
      fmt::print("# {}, pass {}: {}\n", task.op, static_cast<int>(task.task.pass), error.what());
    }
    ++done;
  }
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  fmt::print("# {} of {} passes of convolutions in {:.1f} s\n", done, tasks.size(), passed.count());
}

}  // namespace
}  // namespace carillon::testing

int main(int argc, char** argv) {
  try {
    carillon::testing::run(carillon::testing::options_of(argc, argv));
  } catch (const std::exception& error) {
    fmt::print(stderr, "time_conv_plans_gpu: {}\n", error.what());
    return 1;
  }
}
