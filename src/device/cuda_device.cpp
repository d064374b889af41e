#include "src/device/cuda_device.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "src/device/cuda_backend.h"

namespace carillon {
namespace {

[[noreturn]] void fail_call(const char* library, const char* text, const std::source_location& where) {
  fail(ExitCode::failed, "{}: {} ({}:{})", library, text, where.file_name(), where.line());
}

/// Makes `ordinal` the current device of this thread. (In a new thread, device 0 is current.) Streams, events and
/// handles belong to the device that is current when they are created.
int make_current(int ordinal) {
  check_cuda(cudaSetDevice(ordinal));
  return ordinal;
}

/// Returns the size of the workspace: 1/32 of the GPU's memory, at least 256 MiB and at most 2 GiB. Reason: in fp32,
/// cuDNN's fast kernels for ResNet-50 with a batch of 256 need up to 2 GiB.
std::size_t workspace_bytes() {
  constexpr std::size_t least = std::size_t{256} << 20, most = std::size_t{2} << 30;
  std::size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total));
  return std::clamp(total / 32, least, most);
}

/// True if a query reports completion. Errors: failed (the work itself had an error).
bool is_over(cudaError_t status) {
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // clears the status, so that the next check does not report it
    return false;
  }
  check_cuda(status);
  return true;
}

cudaDeviceProp properties_of(int ordinal) {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, ordinal));
  return properties;
}

}  // namespace

std::vector<std::string> cuda_libraries() {
  return {fmt::format("CUDA {}.{}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10),
          fmt::format("cuDNN {}.{}.{}", CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL),
          fmt::format("cuBLAS {}.{}.{}", CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH)};
}

void check_cuda(cudaError_t status, const std::source_location& where) {
  if (status != cudaSuccess) fail_call("CUDA", cudaGetErrorString(status), where);
}

void check_cublas(cublasStatus_t status, const std::source_location& where) {
  if (status != CUBLAS_STATUS_SUCCESS) fail_call("cuBLAS", cublasLtGetStatusString(status), where);
}

void check_cudnn(cudnnStatus_t status, const std::source_location& where) {
  if (status != CUDNN_STATUS_SUCCESS) fail_call("cuDNN", cudnnGetErrorString(status), where);
}

CudaStream::CudaStream(const std::function<void()>* check) : check_(check) {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  stream_ = Handle<cudaStream_t, cudaStreamDestroy>(stream);
}

void CudaStream::synchronize() {
  if (check_ == nullptr || !*check_) return check_cuda(cudaStreamSynchronize(get()));
  poll_until([&] { return is_over(cudaStreamQuery(get())); }, *check_);
  (*check_)();  // throws if a peer is lost: the stream may be idle only because its work was aborted
}

CudaEvent::CudaEvent() {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  event_ = Handle<cudaEvent_t, cudaEventDestroy>(event);
}

void CudaEvent::record(const CudaStream& stream) { check_cuda(cudaEventRecord(event_.get(), stream.get())); }

void CudaEvent::make_wait(const CudaStream& stream) const {
  check_cuda(cudaStreamWaitEvent(stream.get(), event_.get(), 0));
}

bool CudaEvent::done() const { return is_over(cudaEventQuery(event_.get())); }

void CudaEvent::wait() const { check_cuda(cudaEventSynchronize(event_.get())); }

CudaDevice::CudaDevice(int ordinal) : ordinal_(make_current(ordinal)) {
  check_cudnn_version(cudnnGetVersion());
  cublasLtHandle_t cublas = nullptr;
  check_cublas(cublasLtCreate(&cublas));
  cublas_ = Handle<cublasLtHandle_t, cublasLtDestroy>(cublas);
  cudnnHandle_t cudnn = nullptr;
  check_cudnn(cudnnCreate(&cudnn));
  cudnn_ = Handle<cudnnHandle_t, cudnnDestroy>(cudnn);
  check_cudnn(cudnnSetStream(cudnn, compute_.get()));
  workspace_ = allocate(workspace_bytes());
}

std::string CudaDevice::name() const { return fmt::format("GPU:{}", ordinal_); }

Buffer CudaDevice::allocate(std::size_t bytes) {
  const std::size_t size = std::max(bytes, tensor_alignment_bytes);
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, size);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // clears the error, so that the next call does not report it
    fail(ExitCode::failed, "out of GPU memory on {}: {} bytes requested, {} free", name(), size, free_bytes());
  }
  check_cuda(status);
  Buffer buffer(data, bytes, [](void* block) { static_cast<void>(cudaFree(block)); });
  check_cuda(cudaMemsetAsync(data, 0, size, compute_.get()));
  compute_.synchronize();
  return buffer;
}

// When CUDA copies pageable memory, it waits for earlier work without calling `check_`. Therefore this function first
// polls until the earlier work is done.
void CudaDevice::upload(const void* host, void* memory, std::size_t bytes) {
  make_current(ordinal_);  // any thread may call this function
  compute_.synchronize();
  check_cuda(cudaMemcpyAsync(memory, host, bytes, cudaMemcpyHostToDevice, compute_.get()));
  compute_.synchronize();
}

void CudaDevice::download(const void* memory, void* host, std::size_t bytes) {
  make_current(ordinal_);
  compute_.synchronize();
  check_cuda(cudaMemcpyAsync(host, memory, bytes, cudaMemcpyDeviceToHost, compute_.get()));
  compute_.synchronize();
}

void CudaDevice::copy(const void* from, void* to, std::size_t bytes) {
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, compute_.get()));
}

void CudaDevice::wait_for(const CudaEvent& event) const {
  poll_until([&] { return event.done(); },
             [&] {
               if (check_) check_();
             });
}

Buffer CudaDevice::allocate_pinned(std::size_t bytes) {
  void* data = nullptr;
  check_cuda(cudaHostAlloc(&data, std::max(bytes, tensor_alignment_bytes), cudaHostAllocPortable));
  Buffer buffer(data, bytes, [](void* block) { static_cast<void>(cudaFreeHost(block)); });
  std::memset(data, 0, bytes);
  return buffer;
}

std::size_t CudaDevice::free_bytes() const {
  std::size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total));
  return free;
}

// Cloned containers may have equal host names and PCI addresses, so the address alone does not identify a GPU. MIG
// slices of one GPU have different UUIDs. The program identifies a slice by the PCI address of its GPU, so that all
// slices of a GPU count as one GPU. Slices have names such as "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
std::string CudaDevice::unique_id() const {
  const cudaDeviceProp properties = properties_of(ordinal_);
  if (std::string_view(properties.name).find(" MIG ") != std::string_view::npos) {
    std::array<char, 32> address{};
    check_cuda(cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), ordinal_));
    return fmt::format("GPU {}", address.data());
  }
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof properties.uuid.bytes; ++i) {
    const bool begins_group = i == 0 || (i >= 4 && i <= 10 && i % 2 == 0);
    text += fmt::format("{}{:02x}", begins_group ? "-" : "", static_cast<unsigned char>(properties.uuid.bytes[i]));
  }
  return text;
}

void check_cudnn_version(std::size_t loaded) {
  constexpr std::size_t built = CUDNN_MAJOR * 10000 + CUDNN_MINOR * 100 + CUDNN_PATCHLEVEL, patches = 100;
  if (loaded / patches >= built / patches) return;
  const auto text = [](std::size_t version) {
    return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  };
  fail(ExitCode::no_device,
       "cuDNN {} is loaded, but this program was built with {}: install that version or a later one", text(loaded),
       text(built));
}

bool launches_early() {
  static const bool early = [] {
    constexpr int first_that_can = 9;
    const char* const requested = std::getenv("CARILLON_EARLY_LAUNCH");
    int ordinal = 0;
    check_cuda(cudaGetDevice(&ordinal));
    return requested != nullptr && std::string_view(requested) == "1" && properties_of(ordinal).major >= first_that_can;
  }();
  return early;
}

CudaGpus find_cuda_gpus() {
  int count = 0, driver = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) {
    static_cast<void>(cudaGetLastError());
    return {.why_none = "there is no GPU"};
  }
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
      return {.why_none = "no NVIDIA driver is installed"};
    }
    return {.why_none = fmt::format("no GPU can be used: {}", cudaGetErrorString(status)), .hidden = true};
  }
  std::vector<int> usable;
  std::string too_old;  // message about the first GPU that is too old
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const cudaDeviceProp properties = properties_of(ordinal);
    if (properties.major >= 8) {
      usable.push_back(ordinal);
    } else if (too_old.empty()) {
      too_old = fmt::format("GPU {}, {}, has compute capability {}.{}; 8.0 or later is needed", ordinal,
                            properties.name, properties.major, properties.minor);
    }
  }
  if (usable.empty()) return {.why_none = too_old, .hidden = true};
  return {.ordinals = std::move(usable)};
}

std::unique_ptr<Device> open_cuda_device(const DeviceRequest& request, std::span<const int> ordinals) {
  return std::make_unique<CudaDevice>(ordinals[static_cast<std::size_t>(request.local_rank) % ordinals.size()]);
}

CudaDevice& as_cuda(Device& device) {
  auto* cuda = dynamic_cast<CudaDevice*>(&device);
  check(cuda != nullptr, "a CUDA op requires a CUDA device");
  return *cuda;
}

const CudaStream& as_cuda(Stream& stream) {
  const auto* cuda = dynamic_cast<const CudaStream*>(&stream);
  check(cuda != nullptr, "a CUDA op requires a CUDA stream");
  return *cuda;
}

void poll_until(const std::function<bool()>& done, const std::function<void()>& check) {
  constexpr int polls_between_checks = 1024;
  for (int polls = 1; !done(); ++polls) {
    if (polls % polls_between_checks == 0) {
      check();
      std::this_thread::yield();
    }
    spin_pause();
  }
}

}  // namespace carillon
