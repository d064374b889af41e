// Writes one file in each format that Carillon writes: write_format_samples DIRECTORY. check_formats.py opens the files
// with other readers and checks their contents.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "carillon/core/error.h"
#include "src/checkpoint/checkpoint.h"
#include "src/report/metrics.h"
#include "src/report/tensorboard.h"

namespace carillon {
namespace {

NamedArray ramp(const std::string& name, std::int64_t rows, std::int64_t columns) {
  NamedArray array{name, {rows, columns}, std::vector<float>(static_cast<std::size_t>(rows * columns))};
  std::iota(array.values.begin(), array.values.end(), 0.0f);
  return array;
}

void write_samples(const std::filesystem::path& directory) {
  const CheckpointState state{.model = "mnist",
                              .global_step = 5000000000,
                              .seed = 0xfedcba9876543210u,
                              .stream_position = 1400,
                              .options_json = R"({"batch-size": 100, "data": "größe"})",
                              .variables = {ramp("layer1/weights", 784, 500), {"layer1/biases", {2}, {1, -2}}},
                              .moving_averages = {{"layer1/biases", {2}, {3, 4}}},
                              .optimizer = {{"momentum", {{"layer1/biases", {2}, {5, 6}}}}}};
  write_checkpoint(checkpoint_path(directory, state.global_step), state);

  const auto warn = [](const std::string& line) { fail(ExitCode::io, "{}", line); };
  const auto log = [&](std::int64_t first_step, std::int64_t end_step, double offset) {
    EventWriter events(directory, first_step, warn);
    MetricsWriter metrics(directory, first_step, warn);
    if (first_step == 0) {
      events.graph(std::vector<GraphNode>{{"images", "Input", {}, "CPU:0"}, {"layer1", "Dense", {"images"}, "CPU:0"}});
    }
    for (auto step = first_step; step < end_step; ++step) {
      events.scalar("loss", step, static_cast<double>(step) + offset);
      metrics.write({{"step", step}, {"loss", static_cast<double>(step) + offset}});
    }
    events.histogram("layer1/weights", first_step, histogram_of(std::vector<float>{-2, 0, 0, 1e-3f, 5}));
  };
  log(0, 10, 0);
  log(6, 8, 0.5);  // as a second run does that resumes at step 6 after a first run was killed
}

}  // namespace
}  // namespace carillon

int main(int argc, char** argv) {
  try {
    carillon::check(argc == 2, "usage: write_format_samples DIRECTORY");
    carillon::write_samples(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
