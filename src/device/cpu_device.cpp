#include "src/device/cpu_device.h"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "carillon/core/error.h"
#include "carillon/device/device.h"
#include "src/core/process.h"

namespace carillon {

CpuDevice::CpuDevice(int thread_count, const CpuSettings& settings) : thread_count_(thread_count), settings_(settings) {
  settings_.isa = settings.isa.value_or(available_isas().back());
  check(std::ranges::count(available_isas(), isa()) == 1, "this processor does not support the instruction set");
  omp_set_num_threads(thread_count);
  flush_denormals();
#pragma omp parallel num_threads(thread_count)
  flush_denormals();
  for (int i = 0; i < thread_count; ++i) workers_.push_back(std::unique_ptr<Device>(new CpuDevice(*this, 1)));
}

CpuDevice::CpuDevice(const CpuDevice& whole, int levels)
    : thread_count_(1), settings_(whole.settings_), engine_(whole.engine_) {
  if (levels > 0) workers_.push_back(std::unique_ptr<Device>(new CpuDevice(whole, levels - 1)));
}

void CpuDevice::on_workers(int count, const std::function<void(int)>& body) {
  if (thread_count_ == 1 && count == 1) return body(0);
  std::exception_ptr error;
#pragma omp parallel for schedule(static, 1) num_threads(count)
  for (int worker = 0; worker < count; ++worker) {
    omp_set_num_threads(1);
    // Ops divide their work among the threads of the current parallel region. The inner region below has one thread, so
    // an op that `body` runs uses only the thread of this worker.
#pragma omp parallel num_threads(1)
    try {
      body(worker);
    } catch (...) {
#pragma omp critical
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

void CpuDevice::reserve_workspace(std::size_t bytes) {
  if (bytes <= workspace_.bytes()) return;
  workspace_ = {};  // frees the old memory first, because its contents are not needed
  workspace_ = allocate(bytes);
}

Buffer CpuDevice::allocate(std::size_t bytes) {
  // Ops read activations from end to end, megabytes at a time. Huge pages avoid most address translations
  // (docs/lab-notes/2026-11-20-huge-pages.md shows the gain).
  constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;
  const std::size_t alignment = bytes >= huge_page_bytes ? huge_page_bytes : tensor_alignment_bytes;
  const std::size_t rounded = std::max((bytes + alignment - 1) / alignment * alignment, alignment);
  void* data = std::aligned_alloc(alignment, rounded);
  if (data == nullptr) fail(ExitCode::failed, "out of memory: {} bytes requested", bytes);
  if (alignment == huge_page_bytes) static_cast<void>(madvise(data, rounded, MADV_HUGEPAGE));  // only a hint
  std::memset(data, 0, rounded);
  return {data, bytes, [](void* block) { std::free(block); }};
}

void CpuDevice::upload(const void* host, void* memory, std::size_t bytes) {
  if (bytes > 0) std::memcpy(memory, host, bytes);  // an empty array may have no address
}

void CpuDevice::download(const void* memory, void* host, std::size_t bytes) {
  if (bytes > 0) std::memcpy(host, memory, bytes);
}

void limit_onednn(Isa isa) {
  if (isa >= Isa::avx512) return;
  const dnnl::status status = dnnl::set_max_cpu_isa(isa == Isa::avx2 ? dnnl::cpu_isa::avx2 : dnnl::cpu_isa::sse41);
  if (status != dnnl::status::success) fail(ExitCode::failed, "too late to limit the instruction set of oneDNN");
}

CpuDevice& as_cpu(Device& device) {
  auto* cpu = dynamic_cast<CpuDevice*>(&device);
  check(cpu != nullptr, "a CPU op requires a CPU device");
  return *cpu;
}

}  // namespace carillon
