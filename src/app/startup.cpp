#include "src/app/startup.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "carillon/core/error.h"
#include "src/app/mpi_main.h"
#include "src/app/options.h"
#include "src/app/version_text.h"
#include "src/data/records/file_pattern.h"
#include "src/device/available_isas.h"
#include "src/device/cpu_device.h"
#include "src/train/control/equal_on_all_ranks.h"

namespace carillon {

void introduce(OptionSet& set, const std::string& program) {
  set.set_version(version_text(program));
  const std::string ranks =
      fmt::format("each rank drives one GPU; start as many as there are: mpirun -np N {}", program);
  for (const char* name : {"num-gpus", "gpus"}) set.explain(name, ranks);
  set.explain("num-workers", "say --decode-threads");
  set.explain("data-dir", "name TFRecord files with --data; tfrecord_convert makes them of other formats");
  set.explain("checkpoint-dir", program.ends_with("_eval") ? "say --checkpoint" : "say --train-dir");
  set.explain("use-fp16", "say --precision bf16, on a GPU");
  if (!program.ends_with("_eval")) return;
  set.explain("eval-data", "say --data");
  set.explain("eval-dir", "precision goes to stdout, and with --report to a file");
  set.explain("num-examples", "all records are evaluated");
  const std::string once = "one checkpoint is evaluated; to evaluate while training, give that --eval-data";
  for (const char* name : {"run-once", "eval-interval-secs"}) set.explain(name, once);
}

bool parse_on_all_ranks(OptionSet& set, int argc, char** argv, const Mpi& mpi) {
  bool go_on = false;
  mpi.run_on_all([&] { go_on = set.parse(argc, argv); });
  require_equal_on_all_ranks(mpi,
                             {{"help", !go_on}});  // first: the other options of a rank that only helps are not set
  require_equal_on_all_ranks(mpi, set.values().fields());
  if (!go_on && mpi.rank() == 0) print_text(STDOUT_FILENO, set.answer());
  return go_on;
}

void check_default_data(const OptionSet& set, const std::vector<std::string>& patterns) {
  if (set.given("data")) return;
  try {
    static_cast<void>(expand_file_patterns(patterns));
  } catch (const Error& error) {
    if (error.code() != ExitCode::no_input) throw;
    const std::filesystem::path directory = std::filesystem::path(patterns.front()).parent_path();
    fail(ExitCode::no_input, "{}: name them with --data, or make them: tfrecord_convert {} --input FOLDER --output {}",
         error.what(), directory.filename().string(), directory.string());
  }
}

void check_isa(std::optional<Isa> asked, const std::vector<Isa>& available) {
  if (!asked || std::ranges::count(available, *asked) == 1) return;
  fail(ExitCode::usage, "--isa {}: this processor has {} at most", text_of(isa_choices, asked),
       text_of(isa_choices, std::optional(available.back())));
}

std::unique_ptr<Device> open_own_device(DeviceChoice choice, Arithmetic arithmetic, const CpuSettings& settings,
                                        const Mpi& mpi, const CpuShare& share) {
  check_isa(settings.isa, available_isas());
  std::unique_ptr<Device> device = open_device({.choice = text_of(device_choices, choice),
                                                .local_rank = mpi.local_rank(),
                                                .thread_count = share.thread_count,
                                                .cpu = settings});
  const bool is_cpu = device->kind() == DeviceKind::cpu;
  if (!is_cpu && settings.convolution == ConvolutionMethod::winograd) {
    fail(ExitCode::usage, "--convolution winograd is of a CPU; on a GPU cuDNN's are direct");
  }
  if (!is_cpu && settings.isa) fail(ExitCode::usage, "--isa is of a CPU; the device is {}", device->name());
  if (!device->computes_in(arithmetic)) {
    const bool bf16 = arithmetic == Arithmetic::bf16;
    fail(ExitCode::no_device, "--precision {} is for GPUs, and the device is {}: {}",
         text_of(precision_choices, arithmetic), device->name(),
         bf16 ? "a CPU convolves faster in fp32, by Winograd's method" : "a CPU has no such products");
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
  return settings;
}

std::string isa_text(Device& device) {
  if (device.kind() != DeviceKind::cpu) return {};
  return text_of(isa_choices, std::optional(as_cpu(device).isa()));
}

std::string isas_of_all(Device& device, const Mpi& mpi) {
  std::vector<std::string> distinct;
  for (std::string& isa : mpi.all_gather(isa_text(device))) {
    if (!isa.empty() && std::ranges::count(distinct, isa) == 0) distinct.push_back(std::move(isa));
  }
  return fmt::format("{}", fmt::join(distinct, ", "));
}

}  // namespace carillon
