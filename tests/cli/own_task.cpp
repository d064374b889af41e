// A training program and an evaluation program with a user-defined regression task: own_task train|eval [OPTION...].
// They add no options. Records: 16 grey pixels, then a float32.
#include <string_view>

#include "carillon/cli/program_spec.h"
#include "kernels/dense/dense.h"
#include "kernels/image_input/image_input.h"
#include "tests/support/target_records.h"
#include "tests/tasks/regression_task.h"

namespace carillon::testing {
namespace {

Network linear_network(const NetworkSettings& settings) {
  return make_network("linear", settings, [settings](Graph& graph) {
    const Value x = image_input(graph, "input", {.sample = {4, 4, 1}, .scale = 1.0f / 256.0f});
    return dense(graph, "output", x, {.units = settings.outputs});
  });
}

std::unique_ptr<RecordDecoder> pixels_and_number(const RecordSchema& schema, RecordUse /*use*/) {
  return std::make_unique<PixelsAndTargetDecoder>(schema.image_shape, TargetSpec{.type = DType::f32, .shape = {1}});
}

ProgramSpec own_program() {
  return {.data_set = "numbers",
          .networks = {{"linear", linear_network}},
          .defaults = {.data = {.files = {"train-*"},
                                .record_form = {.make_decoder = pixels_and_number,
                                                .schema = {.image_shape = {.height = 4, .width = 4, .channels = 1}}},
                                .batch_size = 4},
                       .optimizer = {.max_steps = 20, .schedule = {.learning_rate = 0.1}},
                       .checkpoint = {.train_dir = "run"}},
          .make_task = [](const RecordSchema&, const TaskOptions&) { return regression_task(1); }};
}

}  // namespace
}  // namespace carillon::testing

int main(int argc, char** argv) {
  using namespace carillon;
  const bool trains = argc > 1 && std::string_view(argv[1]) == "train";
  return (trains ? training_main : evaluation_main)("own_task", carillon::testing::own_program(), argc - 1, argv + 1);
}
