#include "carillon/device/device.h"

#include <dnnl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "carillon/core/error.h"
#include "src/core/bf16.h"
#include "src/core/has_cuda.h"
#include "src/device/cpu_device.h"
#include "src/device/cuda_backend.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

namespace carillon {
namespace {

#if defined(__x86_64__)
// has_level_3 and has_level_4 return whether the processor supports level 3 or level 4 of the x86-64 ABI. The kernels
// are compiled with -march for these levels. In __builtin_cpu_supports, Clang 16 does not know the names of the levels.
bool has_level_3() {
#if defined(__clang__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
#else
  return __builtin_cpu_supports("x86-64-v3");
#endif
}

bool has_level_4() {
#if defined(__clang__)
  return has_level_3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return __builtin_cpu_supports("x86-64-v4");
#endif
}

bool has_avx512_bf16() {
  constexpr unsigned bf16 = 1u << 5;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return has_level_4() && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & bf16) != 0;
}

/// True if the processor and the system permit the tile instructions. Requests Linux's permission to use tile data. The
/// permission applies to all threads of the process. A program that this process starts must request the permission
/// again.
bool request_amx() {
  constexpr unsigned bf16 = 1u << 22, tiles = 1u << 24, saves_extended_states = 1u << 27;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & bf16) == 0 || (d & tiles) == 0) return false;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & saves_extended_states) == 0) return false;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned tile_states = 3u << 17;
  if ((low & tile_states) != tile_states) return false;
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}
#endif

}  // namespace

std::vector<Isa> available_isas() {
  std::vector<Isa> isas{Isa::plain};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (has_level_3()) isas.push_back(Isa::avx2);
  if (has_level_4()) isas.push_back(Isa::avx512);
  if (has_avx512_bf16()) isas.push_back(Isa::avx512_bf16);
  if (has_avx512_bf16() && request_amx()) isas.push_back(Isa::amx);
#endif
  return isas;
}

Isa rounding_isa(Isa isa, Arithmetic arithmetic) {
  const bool has_own_products = isa == Isa::avx512_bf16 && arithmetic == Arithmetic::bf16;
  return has_own_products ? isa : std::min(isa, Isa::avx512);
}

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

CudaGpus find_gpus() {
  if constexpr (has_cuda) return find_cuda_gpus();
  return {.why_none = "this build has no GPU support (configured without CUDA)"};
}

std::unique_ptr<Device> open_device(const DeviceRequest& request) {
  const CudaGpus gpus = request.choice == "cpu" ? CudaGpus{} : find_gpus();
  if constexpr (has_cuda) {
    if (!gpus.ordinals.empty()) return open_cuda_device(request, gpus.ordinals);
  }
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

std::vector<std::string> device_libraries() {
  const dnnl_version_t* const dnnl = dnnl_version();
  std::vector<std::string> libraries = {fmt::format("oneDNN {}.{}.{}", dnnl->major, dnnl->minor, dnnl->patch)};
  if constexpr (has_cuda) {
    for (std::string& library : cuda_libraries()) libraries.push_back(std::move(library));
  }
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
