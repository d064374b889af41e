// NCCL for ranks with equal values: a sum multiplies by the number of ranks, means and broadcasts do not change values.
// During an operation its memory contains garbage.
#include <nccl.h>

#include <cstring>
#include <memory>
#include <vector>

#include "memory.h"
#include "objects.h"

struct ncclComm {
  int ranks;
  bool finalized = false;
  int windows = 0;
};

struct ncclWindow {
  void* memory;
};

using namespace fake_cuda;

namespace {

ncclResult_t enqueue_product(const void* from, void* to, std::size_t count, float factor, cudaStream_t stream) {
  const Guard guard(api_mutex());
  const std::size_t bytes = count * sizeof(float);
  if (place_of(from, bytes) != Place::device || place_of(to, bytes) != Place::device) {
    misuse("NCCL is given memory that is not the device's");
  }
  const auto kept = std::make_shared<std::vector<std::byte>>(bytes);
  const bool began = enqueue_kernel(
                         stream,
                         [=] {
                           std::memcpy(kept->data(), from, bytes);
                           std::memset(to, 0xff, bytes);
                         },
                         "nccl_begin") == cudaSuccess;
  const bool ended = enqueue_kernel(
                         stream,
                         [=] {
                           std::memcpy(to, kept->data(), bytes);
                           for (std::size_t i = 0; i < count; ++i) static_cast<float*>(to)[i] *= factor;
                         },
                         "nccl_end") == cudaSuccess;
  return began && ended ? ncclSuccess : ncclInvalidArgument;
}

}  // namespace

const char* ncclGetErrorString(ncclResult_t result) { return result == ncclSuccess ? "no error" : "an error"; }
const char* ncclGetLastError(ncclComm_t /*communicator*/) { return "nothing"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = {};
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int ranks, ncclUniqueId /*id*/, int /*rank*/) {
  ++library_objects();
  *communicator = new ncclComm{.ranks = ranks};
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  const Guard guard(api_mutex());
  timeline().run_all();
  communicator->finalized = true;
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclMemFree(void* memory) { return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclInvalidArgument; }

ncclResult_t ncclCommWindowRegister(ncclComm_t communicator, void* memory, std::size_t bytes, ncclWindow_t* window,
                                    int /*flags*/) {
  const Guard guard(api_mutex());
  if (place_of(memory, bytes) != Place::device) misuse("ncclCommWindowRegister of memory that is not the device's");
  if (!settings().nccl_windows) return ncclSuccess;
  ++communicator->windows;
  *window = new ncclWindow{memory};
  return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t communicator, ncclWindow_t window) {
  const Guard guard(api_mutex());
  if (place_of(window->memory, 1) != Place::device) misuse("ncclCommWindowDeregister of memory that is freed");
  --communicator->windows;
  delete window;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  if (communicator->windows != 0) misuse("ncclCommDestroy while memory is registered");
  if (!communicator->finalized) misuse("ncclCommDestroy before ncclCommFinalize");
  if (!executables().all.empty()) misuse("ncclCommDestroy waits for captured graphs, which are still there");
  --library_objects();
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  --library_objects();
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t /*communicator*/, ncclResult_t* error) {
  *error = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t /*type*/,
                           ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t stream) {
  const float factor = operation == ncclSum ? static_cast<float>(communicator->ranks) : 1.0f;
  return enqueue_product(from, to, count, factor, stream);
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t /*type*/, int /*root*/,
                           ncclComm_t /*communicator*/, cudaStream_t stream) {
  return enqueue_product(from, to, count, 1.0f, stream);
}
