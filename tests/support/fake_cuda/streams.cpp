// The fake's functions for streams, events and copies.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "memory.h"
#include "objects.h"

namespace fake_cuda {
namespace {

void work_ahead() {
  constexpr std::uint64_t unit = 1000, most_pieces = 3;
  if (static_cast<double>(draw(unit)) < settings().eagerness * unit) timeline().run_some(1 + draw(most_pieces));
}

/// Adds work to the end of `stream`.
WorkRef append(CUstream_st& stream, std::function<void()> run) {
  const WorkRef work = timeline().add(std::move(run), stream.lane, stream.after);
  stream.after = {work};
  return work;
}

cudaError_t check_kind(cudaMemcpyKind kind, Place to, Place from) {
  const bool to_device = to == Place::device, from_device = from == Place::device;
  const bool fits = (kind == cudaMemcpyHostToDevice && to_device && !from_device) ||
                    (kind == cudaMemcpyDeviceToHost && !to_device && from_device) ||
                    (kind == cudaMemcpyDeviceToDevice && to_device && from_device) ||
                    (kind == cudaMemcpyHostToHost && !to_device && !from_device) || kind == cudaMemcpyDefault;
  return fits ? cudaSuccess : refuse(cudaErrorInvalidValue, "a copy whose kind does not fit its pointers");
}

}  // namespace

Registry<CUstream_st>& streams() {
  static Registry<CUstream_st> instance;
  return instance;
}

Registry<CUevent_st>& events() {
  static Registry<CUevent_st> instance;
  return instance;
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> run, const NodeLabel& label) {
  streams().check(stream, "work on a stream (the default stream is not faked)");
  if (stream->device != current_device()) {
    return refuse(cudaErrorInvalidResourceHandle, "work on a stream of a device that is not current");
  }
  if (stream->capture != nullptr) return record_node(*stream, std::move(run), label);
  append(*stream, std::move(run));
  work_ahead();
  return cudaSuccess;
}

cudaError_t enqueue_kernel(cudaStream_t stream, std::function<void()> body, const std::string& name) {
  const Guard guard(api_mutex());
  streams().check(stream, "a kernel");
  if (stream->capture == nullptr) ++mutable_counts().kernels;
  return enqueue(stream, std::move(body), {cudaGraphNodeTypeKernel, name});
}

Stall::Stall(cudaStream_t stream) : work_(timeline().add_stalled()) {
  const Guard guard(api_mutex());
  streams().check(stream, "a stall");
  stream->after.push_back(work_);
}

void Stall::release() {
  const Guard guard(api_mutex());
  timeline().release(work_);
}

}  // namespace fake_cuda

using namespace fake_cuda;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const Guard guard(api_mutex());
  static int lanes = 0;
  if (flags != cudaStreamNonBlocking) misuse("streams that wait for the default stream are not faked");
  *stream = streams().make();
  (*stream)->lane = ++lanes;
  (*stream)->device = current_device();
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Guard guard(api_mutex());
  streams().check(stream, "cudaStreamDestroy");
  if (stream->capture != nullptr) misuse("a stream is destroyed in a capture");
  streams().destroy(stream, "cudaStreamDestroy");
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Guard guard(api_mutex());
  check_current(stream, "cudaStreamSynchronize");
  if (const cudaError_t error = refused_in_capture("cudaStreamSynchronize")) return error;
  ++mutable_counts().waits;
  for (const WorkRef& work : std::vector(stream->after)) timeline().run_until_done(work);
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Guard guard(api_mutex());
  check_current(stream, "cudaStreamQuery");
  if (const cudaError_t error = refused_in_capture("cudaStreamQuery")) return error;
  for (const WorkRef& work : stream->after) {
    if (work->done) continue;
    timeline().run_some(1);
    return cudaErrorNotReady;
  }
  ++mutable_counts().waits;
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  const Guard guard(api_mutex());
  check_current(stream, "cudaStreamWaitEvent");
  events().check(event, "cudaStreamWaitEvent");
  if (stream->capture != nullptr || event->capture != nullptr) return wait_in_capture(*stream, *event);
  if (event->work != nullptr && !event->work->done) stream->after.push_back(event->work);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const Guard guard(api_mutex());
  if (flags != cudaEventDisableTiming) misuse("events that take the time are not faked");
  *event = events().make();
  (*event)->device = current_device();
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Guard guard(api_mutex());
  events().destroy(event, "cudaEventDestroy");
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Guard guard(api_mutex());
  streams().check(stream, "cudaEventRecord");
  events().check(event, "cudaEventRecord");
  if (event->device != stream->device) {
    return refuse(cudaErrorInvalidResourceHandle, "an event is recorded on another device's stream");
  }
  if (stream->capture != nullptr) return record_in_capture(*event, *stream);
  event->capture.reset();
  event->work = append(*stream, [] {});
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  constexpr std::uint64_t most_pieces = 4;
  const Guard guard(api_mutex());
  events().check(event, "cudaEventQuery");
  if (const cudaError_t error = refused_in_capture("cudaEventQuery")) return error;
  if (event->capture != nullptr) return refuse(cudaErrorCapturedEvent, "cudaEventQuery");
  if (event->work == nullptr || event->work->done) {
    ++mutable_counts().waits;
    return cudaSuccess;
  }
  timeline().run_some(draw(most_pieces + 1));
  return cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Guard guard(api_mutex());
  events().check(event, "cudaEventSynchronize");
  if (const cudaError_t error = refused_in_capture("cudaEventSynchronize")) return error;
  if (event->capture != nullptr) return refuse(cudaErrorCapturedEvent, "cudaEventSynchronize");
  ++mutable_counts().waits;
  timeline().run_until_done(event->work);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const Guard guard(api_mutex());
  if (bytes == 0) return cudaSuccess;
  const Place to_place = place_of(to, bytes), from_place = place_of(from, bytes);
  if (const cudaError_t error = check_kind(kind, to_place, from_place)) return error;
  check_current(stream, "a copy");
  if (stream->capture == nullptr) ++mutable_counts().copies;
  if (to_place == Place::pageable || from_place == Place::pageable) {
    if (const cudaError_t error = refused_in_capture("a copy of memory that is not page-locked")) return error;
  }
  if (from_place == Place::pageable) {
    const auto* begin = static_cast<const std::byte*>(from);
    return enqueue(stream,
                   [to, kept = std::make_shared<std::vector<std::byte>>(begin, begin + bytes)] {
                     std::memcpy(to, kept->data(), kept->size());
                   },
                   {cudaGraphNodeTypeMemcpy});
  }
  const cudaError_t error = enqueue(stream, [=] { std::memmove(to, from, bytes); }, {cudaGraphNodeTypeMemcpy});
  if (error != cudaSuccess || to_place != Place::pageable) return error;
  // As with CUDA, a copy to memory that is not page-locked returns only after all bytes are copied.
  return cudaStreamSynchronize(stream);
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const Guard guard(api_mutex());
  if (bytes == 0) return cudaSuccess;
  check_current(stream, "cudaMemsetAsync");
  if (place_of(to, bytes) == Place::pageable) return refuse(cudaErrorInvalidValue, "cudaMemset of pageable memory");
  return enqueue(stream, [=] { fill(to, value, bytes); }, {cudaGraphNodeTypeMemset});
}
