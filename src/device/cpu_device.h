// CpuDevice: the CPU, through oneDNN, OpenMP and kernels compiled for several instruction sets.
#pragma once

#include <dnnl.hpp>

#include "carillon/device/device.h"

namespace carillon {

class CpuDevice final : public Device {
 public:
  /// Sets the number of OpenMP threads of the calling thread's parallel regions; denormals count as zero in all of them
  /// (src/core/denormals.h).
  explicit CpuDevice(int thread_count, const CpuSettings& settings = {});

  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string name() const override { return "CPU:0"; }
  Buffer allocate(std::size_t bytes) override;
  Stream& stream() override { return stream_; }
  bool computes_in(Arithmetic arithmetic) const override { return arithmetic == Arithmetic::fp32; }
  void upload(const void* host, void* memory, std::size_t bytes) override;
  void download(const void* memory, void* host, std::size_t bytes) override;
  /// One for each thread, with one thread and a workspace of its own. Each has one worker in its turn, so that it can
  /// be given a whole network.
  std::span<const std::unique_ptr<Device>> workers() const override { return workers_; }
  void on_workers(int count, const std::function<void(int worker)>& body) override;

  const dnnl::engine& engine() const { return engine_; }
  const dnnl::stream& dnnl_stream() const { return dnnl_stream_; }
  /// That the kernels run which are compiled for several.
  Isa isa() const { return isa_; }
  ConvolutionMethod convolution() const { return convolution_; }
  int thread_count() const { return thread_count_; }

  /// Makes the workspace at least as large. For ops, when they are made.
  void reserve_workspace(std::size_t bytes);
  /// Scratch of whichever op is running, which finds it as the last one left it.
  void* workspace() const { return workspace_.data(); }

 private:
  /// A worker of `whole`, with so many levels of workers below it.
  CpuDevice(const CpuDevice& whole, int levels);

  class ImmediateStream final : public Stream {
    void synchronize() override {}
  };

  int thread_count_;
  Isa isa_;
  ConvolutionMethod convolution_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream dnnl_stream_{engine_};
  ImmediateStream stream_;
  Buffer workspace_;
  std::vector<std::unique_ptr<Device>> workers_;
};

/// oneDNN's kernels use no instructions beyond `isa`'s. For the whole process, before its first primitive. Errors:
/// failed (later).
void limit_onednn(Isa isa);

/// The CpuDevice that `device` is. Errors: failed when it is another kind.
CpuDevice& as_cpu(Device& device);

}  // namespace carillon
