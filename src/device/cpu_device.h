// CpuDevice: the CPU, through oneDNN, OpenMP and kernels compiled for several instruction sets.
#pragma once

#include <dnnl.hpp>

#include "carillon/device/device.h"

namespace carillon {

class CpuDevice final : public Device {
 public:
  /// Sets the number of OpenMP threads in parallel regions of the calling thread, and makes these threads flush
  /// denormals (src/core/process.h).
  explicit CpuDevice(int thread_count, const CpuSettings& settings = {});

  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string name() const override { return "CPU:0"; }
  Buffer allocate(std::size_t bytes) override;
  Stream& stream() override { return stream_; }
  void upload(const void* host, void* memory, std::size_t bytes) override;
  void download(const void* memory, void* host, std::size_t bytes) override;
  void copy(const void* from, void* to, std::size_t bytes) override { upload(from, to, bytes); }
  /// Returns one device per thread. Each of these devices can run a whole network: it has one thread, its own workspace
  /// and one worker.
  std::span<const std::unique_ptr<Device>> workers() const override { return workers_; }
  /// For bf16 products, the left matrix has one row per sample and is divided into tiles of 16 rows
  /// (kernels/shared/bf16_tiles.h).
  std::int64_t min_samples(Arithmetic arithmetic) const override { return arithmetic == Arithmetic::bf16 ? 16 : 1; }
  void on_workers(int count, const std::function<void(int worker)>& body) override;

  const dnnl::engine& engine() const { return engine_; }
  const dnnl::stream& dnnl_stream() const { return dnnl_stream_; }
  /// Returns the instruction set of Carillon's kernels.
  Isa isa() const { return *settings_.isa; }
  /// Returns the settings of ops on this device. `isa` always has a value.
  const CpuSettings& settings() const { return settings_; }
  int thread_count() const { return thread_count_; }

  /// Grows the workspace to at least `bytes`. Ops call this function in their constructors.
  void reserve_workspace(std::size_t bytes);
  /// Returns scratch memory for the running op. The contents are undefined at the start of an op.
  void* workspace() const { return workspace_.data(); }

 private:
  /// Makes a worker of `whole`. `levels`: the number of levels of workers below this worker.
  CpuDevice(const CpuDevice& whole, int levels);

  class ImmediateStream final : public Stream {
    void synchronize() override {}
  };

  int thread_count_;
  CpuSettings settings_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream dnnl_stream_{engine_};
  ImmediateStream stream_;
  Buffer workspace_;
  std::vector<std::unique_ptr<Device>> workers_;
};

/// Limits oneDNN to the instructions of `isa`, for the whole process. Call it before the first primitive.
/// Errors: failed (oneDNN has already created a primitive).
void limit_onednn(Isa isa);

/// Casts `device` to CpuDevice. Errors: failed (it is a device of another kind).
CpuDevice& as_cpu(Device& device);

}  // namespace carillon
