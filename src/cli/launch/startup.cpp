#include "src/cli/launch/startup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "carillon/cli/options/train_options.h"
#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "carillon/device/device.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/shared/bf16_tiles.h"
#include "src/checkpoint/checkpoint.h"
#include "src/cli/launch/mpi_main.h"
#include "src/cli/options/option_groups.h"
#include "src/comm/mpi/mpi.h"
#include "src/core/file_tools.h"
#include "src/data/records/record_files.h"
#include "src/device/cpu_device.h"
#include "src/device/cuda_backend.h"
#include "src/report/console.h"
#include "src/train/control/agreement.h"
#include "src/train/control/stop_signal.h"

namespace carillon {

void introduce(OptionSet& set, const std::string& program) {
  set.set_version(version_text(program));
  const std::string ranks = fmt::format("each rank uses one GPU: start one rank per GPU with mpirun -np N {}", program);
  for (const char* name : {"num-gpus", "gpus"}) set.explain(name, ranks);
  set.explain("num-workers", "use --decode-threads");
  set.explain("data-dir", "name TFRecord files with --data; tfrecord_convert makes them from other formats");
  set.explain("checkpoint-dir", program.ends_with("_eval") ? "use --checkpoint" : "use --train-dir");
  set.explain("use-fp16", "use --precision bf16");
  if (!program.ends_with("_eval")) return;
  set.explain("eval-data", "use --data");
  set.explain("eval-dir", "results go to stdout, and with --report to a file");
  set.explain("num-examples", "all records are evaluated");
  const std::string once = "this program evaluates one checkpoint; a training evaluates with --eval-data";
  for (const char* name : {"run-once", "eval-interval-secs"}) set.explain(name, once);
}

bool parse_on_all_ranks(OptionSet& set, int argc, char** argv, const Mpi& mpi) {
  bool proceeds = false;
  mpi.run_on_all([&] { proceeds = set.parse(argc, argv); });
  // Compare --help first: a rank that answers --help has not set the other options.
  require_equal_on_all_ranks(mpi, {{"help", !proceeds}});
  require_equal_on_all_ranks(mpi, set.values().fields());
  if (mpi.rank() != 0) return proceeds;
  if (!proceeds) print_text(STDOUT_FILENO, set.answer());
  for (const std::string& line : set.misspelt_variables()) print_warning(line);
  return proceeds;
}

void check_default_data(const OptionSet& set, const std::vector<std::string>& patterns) {
  if (set.given("data")) return;
  try {
    static_cast<void>(expand_file_patterns(patterns));
  } catch (const Error& error) {
    if (error.code() != ExitCode::no_input) throw;
    const std::filesystem::path directory = std::filesystem::path(patterns.front()).parent_path();
    const std::string format = directory.filename().string();
    const bool is_published = format == "mnist" || format == "cifar10";
    fail(ExitCode::no_input, "{}: name them with --data, or make them with tfrecord_convert {} {} --output {}",
         error.what(), format, is_published ? "--download" : "--input FOLDER", directory.string());
  }
}

void check_no_folders(const std::vector<std::string>& patterns, std::span<const std::string_view> splits) {
  for (const std::string& pattern : patterns) {
    std::error_code error;
    if (!std::filesystem::is_directory(pattern, error)) continue;
    fail(ExitCode::data, "{}: is a directory; {}", pattern, record_files_hint(pattern, splits));
  }
}

void check_shards(const DataOptions& data, const std::vector<std::string>& patterns) {
  if (data.allow_missing_shards || is_synthetic(patterns) || patterns.empty()) return;
  check_shards_exist(expand_file_patterns(patterns));
}

void warn_of_shared_files(const DataOptions& data) {
  if (data.eval_files.empty() || is_synthetic(data.files) || is_synthetic(data.eval_files)) return;
  std::set<std::pair<dev_t, ino_t>> trained;
  const auto identity = [](const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? std::optional(std::pair(status.st_dev, status.st_ino)) : std::nullopt;
  };
  for (const std::string& path : expand_file_patterns(data.files)) {
    if (const auto file = identity(path)) trained.insert(*file);
  }
  std::vector<std::string> shared;
  for (const std::string& path : expand_file_patterns(data.eval_files)) {
    if (const auto file = identity(path); file && trained.contains(*file)) shared.push_back(path);
  }
  if (shared.empty()) return;
  print_warning(
      fmt::format("--data and --eval-data both contain {}{}: the evaluations measure records that the training "
                  "uses",
                  shared.front(), shared.size() > 1 ? fmt::format(" and {} more", shared.size() - 1) : ""));
}

void check_files_exist(const std::vector<std::string>& patterns) {
  if (is_synthetic(patterns)) return;
  for (const std::string& path : expand_file_patterns(patterns)) {
    if (!stamp_of(std::filesystem::path(path))) fail(ExitCode::no_input, "{}: no such file", path);
  }
}

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

StallDetectorSettings stall_detector_settings(double stall_timeout, const Device& device, const Mpi& mpi,
                                              const std::string& program) {
  StallDetectorSettings settings;
  if (stall_timeout > 0.0) settings.stall_seconds = stall_timeout;
  settings.program = program;
  settings.waits_unseen = device.kind() != DeviceKind::cpu;
  settings.end_run = [&mpi, program](const std::string& line) {
    abort_on_own_error(mpi, program, [&]() -> ExitCode { fail(ExitCode::lost_rank, "{}", line); });
  };
  settings.should_save_alone = should_save_alone;
  settings.print = [&mpi, program](const std::string& line) { print_error(program, &mpi, line, ExitCode::lost_rank); };
  return settings;
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

std::string version_text(const std::string& program) {
  std::vector<LibraryVersion> libraries = comm_libraries();
  for (LibraryVersion& library : device_libraries()) libraries.push_back(std::move(library));
  libraries.push_back(checkpoint_library());
  std::string text = version_line(program);
  for (std::size_t i = 0; i < libraries.size(); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "\n" : ", ", libraries[i].name, libraries[i].version);
  }
  return text + (cuda_libraries().empty() ? "; without CUDA\n" : "\n");
}

}  // namespace carillon
