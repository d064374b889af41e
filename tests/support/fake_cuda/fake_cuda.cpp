// The fake's settings, counts and errors.
#include "fake_cuda.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "memory.h"
#include "objects.h"

namespace fake_cuda {
namespace {

Settings from_environment() {
  Settings settings;
  if (const char* seed = std::getenv("CARILLON_FAKE_CUDA_SEED")) settings.seed = std::strtoull(seed, nullptr, 10);
  if (const char* devices = std::getenv("CARILLON_FAKE_CUDA_DEVICES")) settings.devices = std::atoi(devices);
  timeline().seed(settings.seed);
  return settings;
}

Settings& mutable_settings() {
  static Settings instance = from_environment();
  return instance;
}

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

const Settings& settings() { return mutable_settings(); }

void configure(const Settings& given) {
  const Guard guard(api_mutex());
  timeline().run_all();
  mutable_settings() = given;
  timeline().seed(given.seed);
}

Counts& mutable_counts() {
  static Counts instance;
  return instance;
}

Counts counts() { return mutable_counts(); }

std::uint64_t draw(std::uint64_t bound) { return timeline().draw(bound); }

std::string left_over() {
  const Guard guard(api_mutex());
  std::string text;
  const auto tell = [&](std::size_t count, const char* what) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
  };
  tell(device_memory().block_count(), "device allocations");
  tell(pinned_memory().block_count(), "page-locked blocks");
  tell(streams().all.size(), "streams");
  tell(events().all.size(), "events");
  tell(graphs().all.size(), "graphs");
  tell(executables().all.size(), "executable graphs");
  tell(static_cast<std::size_t>(library_objects()), "library objects");
  return text;
}

void misuse(const std::string& what) {
  fmt::print(stderr, "fake CUDA: misuse: {}\n", what);
  std::fflush(stderr);
  std::abort();
}

cudaError_t remembered(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

cudaError_t refuse(cudaError_t error, const std::string& why) {
  fmt::print(stderr, "fake CUDA: {}: {}\n", cudaGetErrorName(error), why);
  return remembered(error);
}

}  // namespace fake_cuda

using namespace fake_cuda;

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorIllegalState:
      return "cudaErrorIllegalState";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorHostMemoryAlreadyRegistered:
      return "cudaErrorHostMemoryAlreadyRegistered";
    case cudaErrorHostMemoryNotRegistered:
      return "cudaErrorHostMemoryNotRegistered";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureMerge:
      return "cudaErrorStreamCaptureMerge";
    case cudaErrorStreamCaptureUnmatched:
      return "cudaErrorStreamCaptureUnmatched";
    case cudaErrorStreamCaptureUnjoined:
      return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    case cudaErrorStreamCaptureImplicit:
      return "cudaErrorStreamCaptureImplicit";
    case cudaErrorCapturedEvent:
      return "cudaErrorCapturedEvent";
    case cudaErrorStreamCaptureWrongThread:
      return "cudaErrorStreamCaptureWrongThread";
  }
  return "an unknown error";
}

const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
