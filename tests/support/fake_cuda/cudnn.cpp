// The fake's cuDNN handle.
#include <cudnn.h>

#include "objects.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

cudaStream_t stream_of(cudnnHandle_t handle);

std::size_t cudnnGetVersion() { return CUDNN_MAJOR * 10000 + CUDNN_MINOR * 100 + CUDNN_PATCHLEVEL; }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_BAD_PARAM";
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  ++fake_cuda::library_objects();
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  --fake_cuda::library_objects();
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

/// Returns the stream on which the plans with this handle enqueue their work.
cudaStream_t stream_of(cudnnHandle_t handle) { return handle->stream; }
