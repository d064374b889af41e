#include "carillon/cli/options/train_options.h"

#include "carillon/core/error.h"
#include "src/cli/options/option_groups.h"
#include "src/cli/options/option_values.h"

namespace carillon {
namespace {

constexpr std::array convolution_choices{Choice{ConvolutionMethod::automatic, "auto"},
                                         Choice{ConvolutionMethod::direct, "direct"},
                                         Choice{ConvolutionMethod::winograd, "winograd"}};
constexpr std::int64_t max_ranks = 4096;
constexpr std::array wire_choices{Choice{Wire::fp32, "fp32"}, Choice{Wire::bf16, "bf16"}};

}  // namespace

void declare(OptionSet& set, DeviceOptions& o) {
  declare_for_evaluation(set, o);
  set.add(
      "ranks", o.ranks, 0, max_ranks,
      "number of ranks on this machine, which the program starts under mpirun; 1: without mpirun; 0: the ranks that "
      "mpirun or srun started",
      Scope::rank);
  set.add("comm", o.comm, communicator_choices, "library that averages the gradients (GPUs); auto: nccl if possible");
  set.add("cuda-graph", o.cuda_graph,
          "replay each step, and each batch of an evaluation, as one captured CUDA graph (GPUs)");
  set.add(
      "bucket-kib", o.bucket_kib, 0, std::int64_t{1} << 30,
      "KiB of gradients per all-reduce (GPUs, several hosts); 0: 8192 on GPUs (25600 if on several hosts), else 4096");
  set.add("log-device-placement", o.log_device_placement, "list every op with its device and memory");
  set.add("wire", o.wire, wire_choices, "number format of gradients sent between hosts (CPUs); bf16 halves the traffic",
          Scope::result);
  set.add("preflight", o.preflight,
          "check ranks, hosts, GPUs, train directory and all-reduce, print what was found, and exit", Scope::rank);
  set.add("share-gpus", o.share_gpus, "accept several ranks per GPU (--preflight)", Scope::rank);
}

void check(const DeviceOptions& o) {
  if (o.share_gpus && !o.preflight) fail(ExitCode::usage, "--share-gpus requires --preflight");
}

void declare_for_evaluation(OptionSet& set, DeviceOptions& o) {
  set.begin_group("Devices");
  set.add("device", o.device, device_choices, "device of each rank");
  set.add("precision", o.precision, precision_choices,
          "number format of convolutions, matrix products and activations; variables stay float32. tf32: GPUs only. "
          "auto: tf32 on GPUs; on CPUs bf16 with AMX, or with AVX512-BF16 if the network gains from it; else fp32",
          Scope::result);
  // The resolved values of these two options influence the result. A run's description stores them in addition to the
  // options.
  set.add("convolution", o.cpu.convolution, convolution_choices,
          "convolution algorithm (CPUs); auto: winograd where it is faster");
  set.add("isa", o.cpu.isa, isa_choices,
          "highest instruction set for convolutions and matrix products (CPUs); auto: the processor's");
  set.add("threads", o.threads, 0, max_option_threads, "CPU threads per rank; 0: the rank's share of the cores",
          Scope::rank);
}

}  // namespace carillon
