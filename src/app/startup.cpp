#include "src/app/startup.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "carillon/options/data_options.h"
#include "src/app/mpi_main.h"
#include "src/app/version_text.h"
#include "src/data/records/file_pattern.h"
#include "src/device/available_isas.h"
#include "src/device/cpu_device.h"
#include "src/options/device_choices.h"
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
  // First: a rank that answers --help has not set the other options.
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
    abort_on_own_error(mpi, program, [&]() -> ExitCode { fail(ExitCode::failed, "{}", line); });
  };
  settings.should_save_alone = should_save_alone;
  settings.print = [&mpi, program](const std::string& line) { print_error(program, &mpi, line); };
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

}  // namespace carillon
