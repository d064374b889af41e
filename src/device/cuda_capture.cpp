#include "src/device/cuda_device.h"

#include <cuda.h>
#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include "carillon/core/error.h"

namespace carillon {
namespace {

/// True if a call succeeded. A failure does not end the run, because the names are only information for the user.
bool took(cudaError_t status) {
  if (status == cudaSuccess) return true;
  static_cast<void>(cudaGetLastError());  // clears the error, so that the next call does not report it
  return false;
}

/// Returns a function of the CUDA driver. The program is not linked with the driver, which is missing on machines
/// without a GPU.
template <typename Function>
Function* driver_function(const char* name) {
  constexpr unsigned since = 12030;  // the first CUDA version that has cuFuncGetName
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const bool is_known = took(cudaGetDriverEntryPointByVersion(name, &found, since, cudaEnableDefault, &result));
  return is_known && result == cudaDriverEntryPointSuccess ? reinterpret_cast<Function*>(found) : nullptr;
}

/// Returns the name of the node's kernel. Asks the driver, because the runtime knows only the kernels of this program,
/// not the kernels of libraries.
std::string kernel_name(cudaGraphNode_t node) {
  const auto get_params = driver_function<decltype(cuGraphKernelNodeGetParams)>("cuGraphKernelNodeGetParams");
  const auto get_name = driver_function<decltype(cuFuncGetName)>("cuFuncGetName");
  const auto get_kernel_name = driver_function<decltype(cuKernelGetName)>("cuKernelGetName");
  CUDA_KERNEL_NODE_PARAMS params{};
  const char* name = nullptr;
  if (get_params == nullptr || get_params(node, &params) != CUDA_SUCCESS) return "kernel";
  if (params.func != nullptr && get_name != nullptr && get_name(&name, params.func) == CUDA_SUCCESS) {
    return kernel_title(name);
  }
  if (params.kern != nullptr && get_kernel_name != nullptr && get_kernel_name(&name, params.kern) == CUDA_SUCCESS) {
    return kernel_title(name);
  }
  return "kernel";
}

}  // namespace

std::string kernel_title(std::string_view mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(std::string(mangled).c_str(), nullptr, nullptr, &status), &std::free);
  std::string title(status == 0 ? demangled.get() : mangled);
  constexpr std::string_view ours = "block_kernel<", end = ">(";
  const std::size_t begin = title.find(ours), last = title.find(end);
  if (begin != title.npos && last != title.npos) title = title.substr(begin + ours.size(), last - begin - ours.size());
  if (const std::size_t arguments = title.find('('); begin == title.npos && arguments != title.npos) {
    title.erase(arguments);
  }
  for (const std::string_view part : {std::string_view("carillon::"), std::string_view("void ")}) {
    for (std::size_t at; (at = title.find(part)) != title.npos;) title.erase(at, part.size());
  }
  while (title.ends_with(' ')) title.pop_back();
  return title;
}

std::vector<std::string> node_names(cudaGraph_t graph) {
  std::size_t count = 0;
  if (!took(cudaGraphGetNodes(graph, nullptr, &count))) return {};
  std::vector<cudaGraphNode_t> nodes(count);
  if (!took(cudaGraphGetNodes(graph, nodes.data(), &count))) return {};
  std::vector<std::string> names;
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    static_cast<void>(took(cudaGraphNodeGetType(node, &type)));
    names.push_back(type == cudaGraphNodeTypeKernel   ? kernel_name(node)
                    : type == cudaGraphNodeTypeMemcpy ? "copy"
                    : type == cudaGraphNodeTypeMemset ? "memset"
                                                      : "node");
  }
  return names;
}

namespace {

using CapturedGraph = Handle<cudaGraph_t, cudaGraphDestroy>;

CapturedGraph captured(const CudaStream& stream, const std::function<void()>& enqueue) {
  check_cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
  cudaGraph_t raw = nullptr;
  try {
    enqueue();
  } catch (...) {  // end the capture, because otherwise all later calls would fail
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
