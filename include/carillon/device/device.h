// Device: what a tower computes on. Stream: the order in which its work is done. Buffer: memory on it.
//
// Ops only enqueue work on a stream. The CPU's stream does the work at once, so that its `synchronize` returns at once.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/tensor.h"
#include "carillon/core/version.h"
#include "carillon/device/isa.h"

namespace carillon {

enum class DeviceKind { cpu, cuda };

/// How a tower computes. Variables, their gradients and averages lie in memory as float32 in all of them.
enum class Arithmetic {
  fp32,  ///< float32 throughout, products exact to float32
  tf32,  ///< float32 in memory, products of the matrix units from 10-bit mantissas
  bf16,  ///< activations in bfloat16, sums in float32
};

/// The type of the activations of a network that computes in `arithmetic`.
inline DType activation_type(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::bf16 ? DType::bf16 : DType::f32;
}

/// Sole owner of a block of memory, freed as its maker says.
class Buffer {
 public:
  Buffer() = default;
  /// `release` frees `data`; it runs once.
  Buffer(void* data, std::size_t bytes, std::function<void(void*)> release)
      : memory_(data, std::move(release)), bytes_(bytes) {}

  void* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<void, std::function<void(void*)>> memory_{nullptr, [](void*) {}};
  std::size_t bytes_ = 0;
};

/// A queue of work on one device.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Returns when all work enqueued so far is done.
  virtual void synchronize() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  /// TensorFlow's form: "CPU:0", "GPU:1".
  virtual std::string name() const = 0;
  /// Zeroed memory, aligned to `tensor_alignment_bytes`. Errors: failed (out of memory).
  virtual Buffer allocate(std::size_t bytes) = 0;
  /// The stream on which the tower computes.
  virtual Stream& stream() = 0;
  /// Whether networks on this device can compute so.
  virtual bool computes_in(Arithmetic arithmetic) const = 0;

  /// Copies between the host's memory and this device's, behind the work enqueued so far; done when they return.
  virtual void upload(const void* host, void* memory, std::size_t bytes) = 0;
  virtual void download(const void* memory, void* host, std::size_t bytes) = 0;

  /// While the host waits for this device's work, `check` is called now and then; what it throws ends the wait. Empty:
  /// nobody looks.
  virtual void check_while_waiting(std::function<void()> /*check*/) {}

  /// Devices for parts of this one's work, each one thread's at a time; none: its work is not divided so.
  virtual std::span<const std::unique_ptr<Device>> workers() const { return {}; }
  /// Calls body(worker) for workers 0 to count - 1 of workers() at once; throws what one of them throws.
  virtual void on_workers(int count, const std::function<void(int worker)>& body);
};

inline constexpr std::size_t tensor_alignment_bytes = 64;

/// `count` floats and the gap behind them, where the next tensor of a flat array begins.
constexpr std::size_t aligned_float_count(std::size_t count) {
  constexpr std::size_t step = tensor_alignment_bytes / sizeof(float);
  return (count + step - 1) / step * step;
}

/// The elements of a float tensor (f32 or bf16) on `device`.
std::vector<float> download_floats(Device& device, const Tensor& tensor);
/// The elements of a float32 tensor, where the host can read them: where they lie on a CPU, else in `copy`.
std::span<const float> host_floats(Device& device, const Tensor& tensor, std::vector<float>& copy);
/// `values` into a float32 tensor on `device`, which has as many elements.
void upload_floats(Device& device, std::span<const float> values, const Tensor& tensor);

/// As many floats from one place on `device` to another, by way of the host's memory.
void copy_floats(Device& device, std::span<float> from, std::span<float> to);

/// How a CPU's convolutions multiply. By Winograd's method a 3x3 or 5x5 filter of stride 1 takes a quarter to a sixth
/// of the products, rounded a little more.
enum class ConvolutionMethod {
  automatic,  ///< what is faster by a rule of the shapes; never by a measurement
  direct,
  winograd,  ///< wherever it is possible
};

/// How a CPU computes.
struct CpuSettings {
  std::optional<Isa> isa;  ///< that the kernels run which are compiled for several; nothing: the highest there is
  ConvolutionMethod convolution = ConvolutionMethod::automatic;
};

struct DeviceRequest {
  std::string choice = "auto";  ///< auto (a GPU where there is one) | cpu | cuda
  int local_rank = 0;           ///< of this process among those of its host, which share out the GPUs by it
  int thread_count = 1;         ///< that a CPU computes with
  CpuSettings cpu = {};
};

/// Errors: no_device, with the reason.
std::unique_ptr<Device> open_device(const DeviceRequest& request);

/// What devices compute with: oneDNN, and in a build with CUDA its libraries, as they were there.
std::vector<LibraryVersion> device_libraries();

}  // namespace carillon
