// Device: what a tower computes on. Stream: the order in which its work is done. Buffer: memory on it.
//
// Ops only enqueue work on a stream. The CPU's stream does the work at once, so that its `synchronize` returns at once.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace carillon {

enum class DeviceKind { cpu, cuda };

/// Sole owner of a block of memory, however it was had.
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
};

inline constexpr std::size_t tensor_alignment_bytes = 64;

/// Opens the device that `choice` (auto | cpu | cuda) names for the `local_rank`-th process of this host, which
/// computes with `thread_count` threads where the device is the CPU. Errors: no_device, with the reason.
std::unique_ptr<Device> open_device(std::string_view choice, int local_rank, int thread_count);

}  // namespace carillon
