#include "src/app/network_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "carillon/core/error.h"

namespace carillon {
namespace {

/// The time of a step of one image with more work is not worth the wait.
constexpr std::int64_t most_measured_work = 30'000'000'000;  // multiply-adds

std::string step_columns(const NamedNetwork& network, std::int64_t work, const MeasureNetwork& measure) {
  if (work > most_measured_work) return "  not measured: more than 30 billion multiply-adds";
  const std::optional<StepTime> time = measure(network);
  if (!time) return "  not measured: the others took too long";
  return fmt::format(" {:>8} {:>11.3g} {:>9.4g}", time->batch_size, time->seconds, 1.0 / time->seconds_per_image());
}

}  // namespace

std::string network_list(const ProgramSpec& program_spec, const ImageShape& image, std::int64_t outputs,
                         const MeasureNetwork& measure) {
  std::size_t width = 0;
  for (const NamedNetwork& named : program_spec.networks) width = std::max(width, named.name.size());
  std::string lines = fmt::format("{:<{}} {:>12} {:>22} {:>8} {:>11} {:>9}\n", "network", width, "parameters",
                                  "multiply-adds an image", "batch", "s per step", "images/s");
  for (const NamedNetwork& named : program_spec.networks) {
    try {
      const Network network = named.make({.image = image, .outputs = outputs});
      const BuiltNetwork built = build_network(network, {.batch_size = 1, .purpose = Purpose::evaluation});
      const std::int64_t work = multiply_adds(built.graph);
      lines += fmt::format("{:<{}} {:>12} {:>22}{}\n", named.name, width, parameter_count(built.graph), work,
                           step_columns(named, work, measure));
    } catch (const Error& error) {
      if (error.code() != ExitCode::usage) throw;
      lines += fmt::format("{:<{}} {}\n", named.name, width, error.what());
    }
  }
  return lines;
}

}  // namespace carillon
