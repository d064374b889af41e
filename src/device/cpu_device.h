// CpuDevice: the CPU, through oneDNN and OpenMP.
#pragma once

#include <dnnl.hpp>

#include "carillon/device/device.h"

namespace carillon {

class CpuDevice final : public Device {
 public:
  /// Sets the number of OpenMP threads of the calling thread's parallel regions.
  explicit CpuDevice(int thread_count);

  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string name() const override { return "CPU:0"; }
  Buffer allocate(std::size_t bytes) override;
  Stream& stream() override { return stream_; }
  bool computes_in(Arithmetic arithmetic) const override { return arithmetic == Arithmetic::fp32; }
  void upload(const void* host, void* memory, std::size_t bytes) override;
  void download(const void* memory, void* host, std::size_t bytes) override;

  const dnnl::engine& engine() const { return engine_; }
  const dnnl::stream& dnnl_stream() const { return dnnl_stream_; }

 private:
  class ImmediateStream final : public Stream {
    void synchronize() override {}
  };

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream dnnl_stream_{engine_};
  ImmediateStream stream_;
};

/// The CpuDevice that `device` is. Errors: failed when it is another kind.
CpuDevice& as_cpu(Device& device);

}  // namespace carillon
