#include "src/train/control/rank_device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "carillon/core/error.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/shared/bf16_tiles.h"
#include "src/cli/options/option_groups.h"
#include "src/device/cpu_device.h"
#include "src/report/console.h"

namespace carillon {

void check_isa(std::optional<Isa> requested, const std::vector<Isa>& available) {
  if (!requested || std::ranges::count(available, *requested) == 1) return;
  fail(ExitCode::usage, "--isa {}: this processor supports {} at most", text_of(isa_choices, requested),
       text_of(isa_choices, std::optional(available.back())));
}

std::unique_ptr<Device> open_own_device(const DeviceOptions& options, const Mpi& mpi, const CpuShare& share) {
  check_isa(options.cpu.isa, available_isas());
  std::unique_ptr<Device> device = open_device({.choice = text_of(device_choices, options.device),
                                                .local_rank = mpi.local_rank(),
                                                .thread_count = share.thread_count,
                                                .cpu = options.cpu});
  const bool is_cpu = device->kind() == DeviceKind::cpu;
  if (!is_cpu && options.cpu.convolution == ConvolutionMethod::winograd) {
    fail(ExitCode::usage, "--convolution winograd requires a CPU; the device is {}", device->name());
  }
  if (!is_cpu && options.cpu.isa) fail(ExitCode::usage, "--isa requires a CPU; the device is {}", device->name());
  if (!is_cpu && options.wire != Wire::fp32) {
    fail(ExitCode::usage, "--wire bf16 requires a CPU; the device is {}", device->name());
  }
  return device;
}

std::string isa_text(Device& device, Arithmetic arithmetic) {
  if (device.kind() != DeviceKind::cpu) return {};
  return text_of(isa_choices, std::optional(rounding_isa(as_cpu(device).isa(), arithmetic)));
}

std::string isas_of_all(Device& device, Arithmetic arithmetic, const Mpi& mpi) {
  std::vector<std::string> distinct;
  for (std::string& isa : mpi.all_gather(isa_text(device, arithmetic))) {
    if (!isa.empty() && std::ranges::count(distinct, isa) == 0) distinct.push_back(std::move(isa));
  }
  return fmt::format("{}", fmt::join(distinct, ", "));
}

namespace {

bool all_have(Isa isa, const std::vector<Isa>& isas) {
  return std::ranges::all_of(isas, [isa](Isa has) { return has >= isa; });
}

/// Returns the part of the multiply-adds that Winograd's method would compute in float32.
double winograd_share(const Graph& graph) {
  const std::vector<std::string> names = winograd_convolutions(graph, ConvolutionMethod::automatic);
  std::int64_t count = 0;
  for (const Graph::Node& node : graph.nodes()) {
    if (std::ranges::count(names, node.name) > 0) count += multiply_adds(graph, node);
  }
  return static_cast<double>(count) / static_cast<double>(std::max<std::int64_t>(1, multiply_adds(graph)));
}

}  // namespace

std::vector<Isa> possible_isas(const DeviceOptions& options, const Mpi& mpi) {
  const Isa own = std::min(options.cpu.isa.value_or(Isa::amx), available_isas().back());
  std::vector<Isa> isas;
  for (const std::string& text : mpi.all_gather(std::to_string(static_cast<int>(own)))) {
    isas.push_back(static_cast<Isa>(std::stoi(text)));
  }
  return isas;
}

bool suits_avx512_bf16(const Network& network, std::int64_t samples) {
  constexpr double most_winograd = 0.6;
  if (samples < tile_rows) return false;
  const BuildSettings build{.batch_size = samples, .purpose = Purpose::evaluation};
  return winograd_share(build_network(network, build).graph) <= most_winograd;
}

Arithmetic automatic_precision(DeviceKind device, const std::vector<Isa>& isas, const Network& network,
                               std::int64_t samples) {
  if (device != DeviceKind::cpu) return Arithmetic::tf32;
  const bool is_faster =
      all_have(Isa::amx, isas) || (all_have(Isa::avx512_bf16, isas) && suits_avx512_bf16(network, samples));
  return is_faster ? Arithmetic::bf16 : Arithmetic::fp32;
}

Arithmetic automatic_evaluation_precision(DeviceKind device, const std::vector<Isa>& isas, bool trained_in_bf16) {
  if (device != DeviceKind::cpu) return Arithmetic::tf32;
  return all_have(trained_in_bf16 ? Isa::avx512_bf16 : Isa::amx, isas) ? Arithmetic::bf16 : Arithmetic::fp32;
}

void set_precision(DeviceOptions& options, Arithmetic precision, const Device& device, const std::vector<Isa>& isas,
                   const Mpi& mpi) {
  options.precision = options.arithmetic = precision;
  if (device.kind() != DeviceKind::cpu) return;
  if (precision == Arithmetic::tf32) {
    fail(ExitCode::no_device, "--precision tf32 requires a GPU; the device is {}: use --precision fp32", device.name());
  }
  const auto emulating = std::ranges::count_if(isas, [](Isa isa) { return isa < Isa::avx512_bf16; });
  if (precision == Arithmetic::bf16 && emulating > 0 && mpi.rank() == 0) {
    print_warning(
        fmt::format("--precision bf16: {} of {} ranks use neither AMX nor AVX512-BF16; they emulate AMX's products, "
                    "many times slower than fp32 (use --precision fp32)",
                    emulating, isas.size()));
  }
}

}  // namespace carillon
