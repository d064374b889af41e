#include "carillon/core/cpu_device.h"

#include <omp.h>

#include <cstdlib>
#include <cstring>

#include "carillon/core/error.h"

namespace carillon {

CpuDevice::CpuDevice(int thread_count) { omp_set_num_threads(thread_count); }

Buffer CpuDevice::allocate(std::size_t bytes) {
  const std::size_t rounded = (bytes + tensor_alignment_bytes - 1) / tensor_alignment_bytes * tensor_alignment_bytes;
  void* data = std::aligned_alloc(tensor_alignment_bytes, rounded == 0 ? tensor_alignment_bytes : rounded);
  if (data == nullptr) fail(ExitCode::failed, "out of memory: {} bytes asked for", bytes);
  std::memset(data, 0, rounded);
  return {data, bytes, [](void* block) { std::free(block); }};
}

void CpuDevice::upload(const void* host, void* memory, std::size_t bytes) { std::memcpy(memory, host, bytes); }

void CpuDevice::download(const void* memory, void* host, std::size_t bytes) { std::memcpy(host, memory, bytes); }

CpuDevice& as_cpu(Device& device) {
  auto* cpu = dynamic_cast<CpuDevice*>(&device);
  check(cpu != nullptr, "a CPU op was given another device");
  return *cpu;
}

}  // namespace carillon
