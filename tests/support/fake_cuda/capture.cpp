// The fake's functions for captures and graphs.
#include <cuda.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "objects.h"

namespace fake_cuda {
namespace {

std::set<std::shared_ptr<Capture>>& captures() {
  static std::set<std::shared_ptr<Capture>> instance;
  return instance;
}

cudaError_t invalidate(Capture& capture, cudaError_t error, const std::string& why) {
  capture.invalidated = true;
  return refuse(error, why);
}

void join(CUstream_st& stream, const std::shared_ptr<Capture>& capture) {
  stream.capture = capture;
  stream.capture_after.clear();
  capture->streams.insert(&stream);
}

/// Returns whether the next work of `stream` depends on every node in `nodes`, directly or through other nodes.
bool all_joined(const Nodes& nodes, const CUstream_st& stream) {
  std::set<std::size_t> reached = stream.capture_after;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (reached.contains(i)) reached.insert(nodes[i].after.begin(), nodes[i].after.end());
  }
  return reached.size() == nodes.size();
}

cudaGraphNode_t handle_of(const GraphNode& node) {
  return reinterpret_cast<cudaGraphNode_t>(const_cast<GraphNode*>(&node));
}
const GraphNode& node_of(cudaGraphNode_t handle) { return *reinterpret_cast<const GraphNode*>(handle); }

void leave(const std::shared_ptr<Capture>& capture) {
  for (const cudaStream_t stream : capture->streams) {
    stream->capture.reset();
    stream->capture_after.clear();
  }
  capture->ended = true;
  captures().erase(capture);
}

}  // namespace

Registry<CUgraph_st>& graphs() {
  static Registry<CUgraph_st> instance;
  return instance;
}

Registry<CUgraphExec_st>& executables() {
  static Registry<CUgraphExec_st> instance;
  return instance;
}

cudaError_t refused_in_capture(const char* what) {
  cudaError_t result = cudaSuccess;
  for (const auto& capture : captures()) {
    const bool forbids =
        capture->mode == cudaStreamCaptureModeGlobal ||
        (capture->mode == cudaStreamCaptureModeThreadLocal && capture->thread == std::this_thread::get_id());
    if (!forbids) continue;
    result = invalidate(*capture, cudaErrorStreamCaptureUnsupported, std::string(what) + " during a capture");
  }
  return result;
}

cudaError_t record_node(CUstream_st& stream, std::function<void()> run, const NodeLabel& label) {
  Capture& capture = *stream.capture;
  if (capture.invalidated) return remembered(cudaErrorStreamCaptureInvalidated);
  capture.nodes.push_back({std::move(run), label, stream.lane, stream.capture_after});
  stream.capture_after = {capture.nodes.size() - 1};
  return cudaSuccess;
}

cudaError_t record_in_capture(CUevent_st& event, CUstream_st& stream) {
  if (stream.capture->invalidated) return remembered(cudaErrorStreamCaptureInvalidated);
  event.work.reset();
  event.capture = stream.capture;
  event.capture_after = stream.capture_after;
  return cudaSuccess;
}

cudaError_t wait_in_capture(CUstream_st& stream, const CUevent_st& event) {
  if (event.capture == nullptr) {
    return invalidate(*stream.capture, cudaErrorStreamCaptureIsolation,
                      "a captured stream waits for an event from outside of the capture");
  }
  if (event.capture->ended) return refuse(cudaErrorCapturedEvent, "a wait for an event of a capture that is over");
  if (event.capture->invalidated) return remembered(cudaErrorStreamCaptureInvalidated);
  if (stream.capture == nullptr) join(stream, event.capture);
  if (stream.capture != event.capture) {
    event.capture->invalidated = true;
    return invalidate(*stream.capture, cudaErrorStreamCaptureMerge, "a wait would merge two captures");
  }
  stream.capture_after.insert(event.capture_after.begin(), event.capture_after.end());
  return cudaSuccess;
}

}  // namespace fake_cuda

using namespace fake_cuda;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const Guard guard(api_mutex());
  streams().check(stream, "cudaStreamBeginCapture");
  if (stream->capture != nullptr) return refuse(cudaErrorIllegalState, "the stream is in a capture already");
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  captures().insert(capture);
  join(*stream, capture);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Guard guard(api_mutex());
  streams().check(stream, "cudaStreamEndCapture");
  *graph = nullptr;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return refuse(cudaErrorIllegalState, "the stream is in no capture");
  if (capture->origin != stream) {
    return invalidate(*capture, cudaErrorStreamCaptureUnmatched, "a capture ends on another stream than it began on");
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return invalidate(*capture, cudaErrorStreamCaptureWrongThread, "a capture ends on another thread");
  }
  const bool joined = all_joined(capture->nodes, *stream);
  leave(capture);
  if (capture->invalidated) return remembered(cudaErrorStreamCaptureInvalidated);
  if (!joined) return refuse(cudaErrorStreamCaptureUnjoined, "a forked stream's work was not joined");
  *graph = graphs().make(std::make_shared<const Nodes>(std::move(capture->nodes)));
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const Guard guard(api_mutex());
  streams().check(stream, "cudaStreamIsCapturing");
  *status = stream->capture == nullptr     ? cudaStreamCaptureStatusNone
            : stream->capture->invalidated ? cudaStreamCaptureStatusInvalidated
                                           : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  const Guard guard(api_mutex());
  graphs().check(graph, "cudaGraphInstantiate");
  if (flags != 0) misuse("flags of cudaGraphInstantiate are not faked");
  *executable = executables().make(graph->nodes);
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
  const Guard guard(api_mutex());
  executables().check(executable, "cudaGraphUpload");
  return enqueue(stream, [] {});
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const Guard guard(api_mutex());
  executables().check(executable, "cudaGraphLaunch");
  streams().check(stream, "cudaGraphLaunch");
  if (stream->capture != nullptr) misuse("graphs in captures are not faked");
  ++mutable_counts().graph_launches;
  mutable_counts().graph_nodes += executable->nodes->size();
  std::vector<WorkRef> before = stream->after;
  before.push_back(executable->last_launch);
  std::vector<WorkRef> works;
  for (std::size_t i = 0; i < executable->nodes->size(); ++i) {
    const GraphNode& node = (*executable->nodes)[i];
    std::vector<WorkRef> after;
    for (const std::size_t index : node.after) after.push_back(works[index]);
    works.push_back(timeline().add([nodes = executable->nodes, i] { (*nodes)[i].run(); }, node.lane,
                                   after.empty() ? before : after));
  }
  works.insert(works.end(), before.begin(), before.end());
  stream->after = {timeline().add([] {}, stream->lane, works)};
  executable->last_launch = stream->after.front();
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  const Guard guard(api_mutex());
  graphs().check(graph, "cudaGraphGetNodes");
  if (nodes == nullptr) {
    *count = graph->nodes->size();
    return cudaSuccess;
  }
  for (std::size_t i = 0; i < *count; ++i) nodes[i] = handle_of((*graph->nodes)[i]);
  return cudaSuccess;
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  *type = node_of(node).label.type;
  return cudaSuccess;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) {
  const NodeLabel& label = node_of(node).label;
  if (label.type != cudaGraphNodeTypeKernel) return CUDA_ERROR_INVALID_VALUE;
  *params = {.func = reinterpret_cast<CUfunction>(const_cast<char*>(label.name.c_str())), .kern = nullptr};
  return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char** name, CUfunction function) {
  *name = reinterpret_cast<const char*>(function);
  return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char** /*name*/, CUkernel /*kernel*/) { return CUDA_ERROR_INVALID_VALUE; }

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned /*version*/,
                                             unsigned long long /*flags*/, cudaDriverEntryPointQueryResult* result) {
  static const std::map<std::string_view, void*> functions{
      {"cuGraphKernelNodeGetParams", reinterpret_cast<void*>(&cuGraphKernelNodeGetParams)},
      {"cuFuncGetName", reinterpret_cast<void*>(&cuFuncGetName)},
      {"cuKernelGetName", reinterpret_cast<void*>(&cuKernelGetName)}};
  const auto found = functions.find(symbol);
  *function = found == functions.end() ? nullptr : found->second;
  *result = found == functions.end() ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const Guard guard(api_mutex());
  graphs().destroy(graph, "cudaGraphDestroy");
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const Guard guard(api_mutex());
  executables().destroy(executable, "cudaGraphExecDestroy");
  return cudaSuccess;
}
