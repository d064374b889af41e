// Device: a CPU or a GPU. Stream: an in-order queue of work for one device. Buffer: a block of memory.
//
// Ops only enqueue work on a stream. The stream of a CPU does the work immediately, and its `synchronize` does nothing.
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
#include "carillon/device/isa.h"

namespace carillon {

enum class DeviceKind { cpu, cuda };

/// Number formats of the computation. Variables, their gradients and moving averages are always stored in float32.
enum class Arithmetic {
  fp32,  ///< float32 throughout; products have full float32 precision
  tf32,  ///< float32 in memory; matrix units multiply with 10-bit mantissas
  bf16,  ///< activations in bfloat16, sums in float32
};

/// Returns the element type of the activations.
inline DType activation_type(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::bf16 ? DType::bf16 : DType::f32;
}

/// Instruction sets that this processor supports and this build is compiled for, in ascending order.
std::vector<Isa> available_isas();

/// Returns the lowest instruction set that computes the same bits as `isa` in this arithmetic. For amx, the result is
/// avx512. For avx512_bf16, the result is avx512, except in bf16 arithmetic. For all other instruction sets, the result
/// is `isa`.
Isa rounding_isa(Isa isa, Arithmetic arithmetic);

/// Sole owner of a block of memory.
class Buffer {
 public:
  Buffer() = default;
  /// `release` frees `data`; it is called once.
  Buffer(void* data, std::size_t bytes, std::function<void(void*)> release)
      : memory_(data, std::move(release)), bytes_(bytes) {}

  void* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<void, std::function<void(void*)>> memory_{nullptr, [](void*) {}};
  std::size_t bytes_ = 0;
};

/// An in-order queue of work on one device.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Returns when all enqueued work is done.
  virtual void synchronize() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  /// Returns the name in TensorFlow's format: "CPU:0", "GPU:1".
  virtual std::string name() const = 0;
  /// Returns zeroed memory that is aligned to `tensor_alignment_bytes`. Errors: failed (there is not enough memory).
  virtual Buffer allocate(std::size_t bytes) = 0;
  /// Returns the stream on which the tower computes.
  virtual Stream& stream() = 0;

  /// `upload` and `download` copy between host memory and device memory, after all enqueued work. Both functions block
  /// until the copy is done.
  virtual void upload(const void* host, void* memory, std::size_t bytes) = 0;
  virtual void download(const void* memory, void* host, std::size_t bytes) = 0;
  /// Copies within device memory, after all work that is already on `stream()`. May return before the copy is done.
  /// Work that is later added to `stream()` runs after the copy.
  virtual void copy(const void* from, void* to, std::size_t bytes) = 0;

  /// Sets a function that is called repeatedly while the host waits for this device. The function may throw to end the
  /// wait. Empty: none.
  virtual void check_while_waiting(std::function<void()> /*check*/) {}

  /// Sub-devices that compute parts of this device's work in parallel. Each uses one thread. Empty: the device does not
  /// support this.
  virtual std::span<const std::unique_ptr<Device>> workers() const { return {}; }
  /// Returns the smallest number of samples in a batch tile (src/graph/batch_tiling.h) that ops process efficiently.
  virtual std::int64_t min_samples(Arithmetic /*arithmetic*/) const { return 1; }
  /// Calls body(worker) concurrently for workers 0 to count - 1 of workers(). If one or more calls throw, rethrows one
  /// of the exceptions.
  virtual void on_workers(int count, const std::function<void(int worker)>& body);
};

inline constexpr std::size_t tensor_alignment_bytes = 64;

/// Returns `bytes`, rounded up to a multiple of tensor_alignment_bytes. The next tensor of a block is then aligned.
constexpr std::size_t aligned_bytes(std::size_t bytes) {
  return (bytes + tensor_alignment_bytes - 1) / tensor_alignment_bytes * tensor_alignment_bytes;
}
constexpr std::size_t aligned_float_count(std::size_t count) {
  return aligned_bytes(count * sizeof(float)) / sizeof(float);
}

/// Downloads the elements of a float tensor (f32 or bf16) from `device`.
std::vector<float> download_floats(Device& device, const Tensor& tensor);
/// Makes the elements of a float32 tensor readable in host memory. On a CPU the result is the tensor's memory;
/// otherwise the elements are copied to `copy`.
std::span<const float> host_floats(Device& device, const Tensor& tensor, std::vector<float>& copy);
/// Uploads `values` to a float32 tensor on `device` with the same number of elements.
void upload_floats(Device& device, std::span<const float> values, const Tensor& tensor);

/// Copies one float array to another of equal size, like Device::copy. Both arrays are on `device`.
void copy_floats(Device& device, std::span<float> from, std::span<float> to);

/// The algorithm of convolutions on CPUs. Winograd's method applies to 3x3 and 5x5 filters of stride 1. It needs a
/// quarter to a sixth of the multiplications that the direct method needs, and its rounding errors are slightly larger.
enum class ConvolutionMethod {
  automatic,  ///< chosen by a fixed rule from the shapes, never by a measurement
  direct,
  winograd,  ///< use Winograd's method wherever possible
};

/// Settings of a CPU device.
struct CpuSettings {
  std::optional<Isa> isa;  ///< instruction set of Carillon's kernels; nullopt: the highest available
  ConvolutionMethod convolution = ConvolutionMethod::automatic;
};

struct DeviceRequest {
  std::string choice = "auto";  ///< auto (a GPU if there is one) | cpu | cuda
  int local_rank = 0;           ///< index of this process on its host; selects the GPU
  int thread_count = 1;         ///< threads of a CPU device
  CpuSettings cpu = {};
};

/// Opens the requested device. Errors: no_device (the message states the reason).
std::unique_ptr<Device> open_device(const DeviceRequest& request);

/// Names and versions of the compute libraries: "oneDNN 3.4.1" and, in builds with CUDA, CUDA's libraries.
std::vector<std::string> device_libraries();

}  // namespace carillon
