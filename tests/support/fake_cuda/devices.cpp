// The fake's functions for devices and memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "memory.h"
#include "objects.h"

namespace fake_cuda {
namespace {

thread_local int current = 0;

int device_count() {
  const Settings& all = settings();
  return all.gpus.empty() ? all.devices : static_cast<int>(all.gpus.size());
}

bool exists(int device) { return device >= 0 && device < device_count(); }

Gpu gpu_of(int device) {
  const Settings& all = settings();
  return all.gpus.empty() ? Gpu{.number = device, .pci_bus = device} : all.gpus[static_cast<std::size_t>(device)];
}

}  // namespace

int current_device() { return current; }

void check_current(int device, const char* what) {
  if (device != current) misuse(fmt::format("{}: of GPU {}, but the thread uses GPU {}", what, device, current));
}

void check_current(cudaStream_t stream, const char* what) {
  streams().check(stream, what);
  check_current(stream->device, what);
}

}  // namespace fake_cuda

using namespace fake_cuda;

cudaError_t cudaDeviceGetPCIBusId(char* address, int bytes, int device) {
  if (!exists(device) || bytes < 13) return remembered(cudaErrorInvalidDevice);
  const std::string text = fmt::format("0000:{:02x}:00.0", gpu_of(device).pci_bus);
  text.copy(address, text.size());
  address[text.size()] = '\0';
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return remembered(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!exists(device)) return remembered(cudaErrorInvalidDevice);
  const Gpu gpu = gpu_of(device);
  *properties = {};
  const std::string name = fmt::format("Fake GPU {}{}", gpu.number, gpu.name_end);
  name.copy(properties->name, sizeof(properties->name) - 1);
  properties->uuid.bytes[0] = static_cast<char>(0xfa);
  properties->uuid.bytes[15] = static_cast<char>(gpu.number);
  properties->totalGlobalMem = settings().device_bytes;
  properties->major = gpu.major;
  properties->multiProcessorCount = 4;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!exists(device)) return remembered(cudaErrorInvalidDevice);
  current = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  const Guard guard(api_mutex());
  if (const cudaError_t error = refused_in_capture("cudaDeviceSynchronize")) return error;
  timeline().run_all();
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  const Guard guard(api_mutex());
  if (const cudaError_t error = refused_in_capture("cudaMalloc")) return error;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (device_memory().used_bytes(current) + bytes > settings().device_bytes)
    return remembered(cudaErrorMemoryAllocation);
  *pointer = device_memory().allocate(bytes, current);
  return remembered(*pointer == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaFree(void* pointer) {
  const Guard guard(api_mutex());
  if (const cudaError_t error = refused_in_capture("cudaFree")) return error;
  if (pointer == nullptr) return cudaSuccess;
  timeline().run_all();
  device_memory().release(pointer);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned /*flags*/) {
  const Guard guard(api_mutex());
  if (const cudaError_t error = refused_in_capture("cudaHostAlloc")) return error;
  *pointer = pinned_memory().allocate(bytes);
  return remembered(*pointer == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaFreeHost(void* pointer) {
  const Guard guard(api_mutex());
  if (const cudaError_t error = refused_in_capture("cudaFreeHost")) return error;
  if (pointer == nullptr) return cudaSuccess;
  timeline().run_all();
  pinned_memory().release(pointer);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned /*flags*/) {
  const Guard guard(api_mutex());
  if (const cudaError_t error = refused_in_capture("cudaHostRegister")) return error;
  if (pointer == nullptr || bytes == 0) return remembered(cudaErrorInvalidValue);
  return remembered(pinned_memory().add(pointer, bytes) ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered);
}

cudaError_t cudaHostUnregister(void* pointer) {
  const Guard guard(api_mutex());
  if (const cudaError_t error = refused_in_capture("cudaHostUnregister")) return error;
  timeline().run_all();
  return remembered(pinned_memory().remove(pointer) ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Guard guard(api_mutex());
  *total = settings().device_bytes;
  *free = *total - std::min(*total, device_memory().used_bytes(current));
  return cudaSuccess;
}
