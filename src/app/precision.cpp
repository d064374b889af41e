#include "src/app/precision.h"

#include <fmt/format.h>

#include <algorithm>

#include "carillon/core/error.h"
#include "carillon/device/device.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/shared/bf16_tiles.h"
#include "src/report/console.h"

namespace carillon {
namespace {

bool all_have(Isa isa, const std::vector<Isa>& isas) {
  return std::ranges::all_of(isas, [isa](Isa has) { return has >= isa; });
}

/// Winograd's share of the multiply-adds in float32.
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
