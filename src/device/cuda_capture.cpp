#include "src/device/cuda_capture.h"

#include "carillon/core/error.h"
#include "src/device/cuda_graph_nodes.h"

namespace carillon {
namespace {

using CapturedGraph = Handle<cudaGraph_t, cudaGraphDestroy>;

CapturedGraph captured(const CudaStream& stream, const std::function<void()>& enqueue) {
  check_cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
  cudaGraph_t raw = nullptr;
  try {
    enqueue();
  } catch (...) {  // end the capture: all later calls would fail
    static_cast<void>(cudaStreamEndCapture(stream.get(), &raw));
    const CapturedGraph unfinished(raw);
    static_cast<void>(cudaGetLastError());
    throw;
  }
  check_cuda(cudaStreamEndCapture(stream.get(), &raw));
  return CapturedGraph(raw);
}

}  // namespace

ExecutableGraph capture(const CudaStream& stream, const std::function<void()>& enqueue, const char* what,
                        std::vector<std::string>* nodes) try {
  const CapturedGraph graph = captured(stream, enqueue);
  if (nodes != nullptr) *nodes = node_names(graph.get());
  cudaGraphExec_t executable = nullptr;
  check_cuda(cudaGraphInstantiate(&executable, graph.get(), 0));
  ExecutableGraph result(executable);
  check_cuda(cudaGraphUpload(executable, stream.get()));
  return result;
} catch (const Error& error) {
  fail(error.code(), "{}; while capturing {} (in a training, --cuda-graph=false disables capturing)", error.what(),
       what);
}

}  // namespace carillon
