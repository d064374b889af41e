#include "carillon/device/device.h"

#include <dnnl.h>
#include <unistd.h>

#include <cstdlib>

#include "carillon/core/error.h"
#include "src/core/bf16.h"
#include "src/device/cpu_device.h"
#include "src/device/cuda_backend.h"

namespace carillon {

std::vector<float> download_floats(Device& device, const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.shape.element_count()));
  if (tensor.type == DType::bf16) {
    std::vector<Bf16> stored(values.size());
    device.download(tensor.data, stored.data(), tensor.bytes());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_float(stored[i]);
  } else {
    check(tensor.type == DType::f32, "only float tensors are downloaded");
    device.download(tensor.data, values.data(), tensor.bytes());
  }
  return values;
}

std::span<const float> host_floats(Device& device, const Tensor& tensor, std::vector<float>& copy) {
  check(tensor.type == DType::f32, "only float32 tensors can be read in place");
  if (device.kind() == DeviceKind::cpu) return tensor.floats();
  copy = download_floats(device, tensor);
  return copy;
}

void upload_floats(Device& device, std::span<const float> values, const Tensor& tensor) {
  check(tensor.type == DType::f32 && values.size_bytes() == tensor.bytes(),
        "upload to a tensor of another type or size");
  device.upload(values.data(), tensor.data, values.size_bytes());
}

void copy_floats(Device& device, std::span<float> from, std::span<float> to) {
  check(from.size() == to.size(), "copy between arrays of different sizes");
  device.copy(from.data(), to.data(), from.size_bytes());
}

std::unique_ptr<Device> open_device(const DeviceRequest& request) {
  const CudaGpus gpus = request.choice == "cpu" ? CudaGpus{} : find_cuda_gpus();
  if (!gpus.ordinals.empty()) return open_cuda_device(request, gpus.ordinals);
  if (request.choice == "cuda") fail(ExitCode::no_device, "--device cuda: {}", gpus.why_none);
  if (gpus.hidden && request.local_rank == 0) {
    print_text(STDERR_FILENO, fmt::format("warning: computing on the CPU: {}\n", gpus.why_none));
  }
  if (request.cpu.isa) limit_onednn(*request.cpu.isa);
  return std::make_unique<CpuDevice>(request.thread_count, request.cpu);
}

void Device::on_workers(int /*count*/, const std::function<void(int)>& /*body*/) {
  fail(ExitCode::failed, "{} has no workers", name());
}

std::vector<LibraryVersion> device_libraries() {
  const dnnl_version_t* const dnnl = dnnl_version();
  std::vector<LibraryVersion> libraries = {{"oneDNN", dotted(dnnl->major, dnnl->minor, dnnl->patch)}};
  for (LibraryVersion& library : cuda_libraries()) libraries.push_back(std::move(library));
  return libraries;
}

bool is_switched_off(std::string_view name) {
  const char* const variable = std::getenv("CARILLON_GPU_OFF");
  for (std::string_view names = variable == nullptr ? off_by_default : variable; !names.empty();) {
    const std::size_t end = names.find(',');
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(end == std::string_view::npos ? names.size() : end + 1);
  }
  return false;
}

}  // namespace carillon
