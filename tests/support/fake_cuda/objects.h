// The fake's streams, events, captures and graphs, and helpers that several of its source files use.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fake_cuda.h"
#include "timeline.h"

namespace fake_cuda {

/// The type and name of a graph node.
struct NodeLabel {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  std::string name = {};  ///< mangled name of the node's kernel
};

struct GraphNode {
  std::function<void()> run;
  NodeLabel label;
  int lane = 0;
  std::set<std::size_t> after;  ///< numbers of the nodes that must run before this node
};
using Nodes = std::vector<GraphNode>;

struct Capture {
  cudaStream_t origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool invalidated = false, ended = false;
  Nodes nodes;
  std::set<cudaStream_t> streams;
};

}  // namespace fake_cuda

struct CUstream_st {
  int lane = 0, device = 0;
  std::vector<fake_cuda::WorkRef> after;        ///< work that must end before the stream's next work starts
  std::shared_ptr<fake_cuda::Capture> capture;  ///< the capture to which the stream belongs, if there is one
  std::set<std::size_t> capture_after;          ///< nodes that must run before the stream's next node
};

struct CUevent_st {
  int device = 0;
  fake_cuda::WorkRef work;                      ///< the work that the event marks; null: the event was never recorded
  std::shared_ptr<fake_cuda::Capture> capture;  ///< the capture in which the event was last recorded, if there is one
  std::set<std::size_t> capture_after;
};

struct CUgraph_st {
  std::shared_ptr<const fake_cuda::Nodes> nodes;
};

struct CUgraphExec_st {
  std::shared_ptr<const fake_cuda::Nodes> nodes;
  fake_cuda::WorkRef last_launch;  ///< the previous launch; the next launch waits until it ends
};

namespace fake_cuda {

/// A lock of api_mutex(). Every function of CUDA's API holds a Guard while it runs.
using Guard = std::lock_guard<std::recursive_mutex>;

/// All existing objects of a type, to detect invalid handles and leaks.
template <typename Object>
struct Registry {
  std::set<Object*> all;
  template <typename... Arguments>
  Object* make(Arguments&&... arguments) {
    auto* object = new Object{std::forward<Arguments>(arguments)...};
    all.insert(object);
    return object;
  }
  void check(Object* object, const char* what) const {
    if (!all.contains(object)) misuse(std::string(what) + ": a handle that does not exist (any more)");
  }
  void destroy(Object* object, const char* what) {
    check(object, what);
    all.erase(object);
    delete object;
  }
};
Registry<CUstream_st>& streams();
Registry<CUevent_st>& events();
Registry<CUgraph_st>& graphs();
Registry<CUgraphExec_st>& executables();

/// the number of existing handles and descriptors of the libraries
int& library_objects();

const Settings& settings();
Counts& mutable_counts();
int current_device();
/// Reports misuse if `device` is not the current device of this thread. `what`: the object that belongs to `device`.
/// CUDA would not report this misuse, and would compute in a context of the current device.
void check_current(int device, const char* what);
/// Reports misuse if the device of `stream` is not the current device of this thread. The stream must exist.
void check_current(cudaStream_t stream, const char* what);

/// Returns `error` and stores it for cudaGetLastError.
cudaError_t remembered(cudaError_t error);
/// Returns `error`, stores it for cudaGetLastError, and prints the reason on stderr.
cudaError_t refuse(cudaError_t error, const std::string& why);

/// Enqueues work. If the stream is being captured, records the work instead.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> run, const NodeLabel& label = {});

/// Used by API calls that wait, allocate memory or query the state of work. A capture forbids such calls. If this
/// thread is in a capture, invalidates the capture and returns an error. Otherwise returns success. `what`: name of the
/// API call.
cudaError_t refused_in_capture(const char* what);
cudaError_t record_node(CUstream_st& stream, std::function<void()> run, const NodeLabel& label);
cudaError_t record_in_capture(CUevent_st& event, CUstream_st& stream);
cudaError_t wait_in_capture(CUstream_st& stream, const CUevent_st& event);

}  // namespace fake_cuda
