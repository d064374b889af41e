// picture_benchmark: measures how many pictures per second become training images (decoding, random crop, resize,
// flip).
//
//   picture_benchmark THREADS SECONDS SIZE WINDOW RECORDS_FILE...        files of `tfrecord_convert images`
//
// Images are SIZE x SIZE, in batches of 64, as in image_train. WINDOW: size of the shuffle window; 0: all records.
// Prints one line: "<n> images/s, <n> images".
#include <chrono>
#include <cstdlib>

#include "carillon/core/error.h"
#include "carillon/data/decoder.h"
#include "src/data/decode/dataset_info.h"
#include "src/data/loading/batch_loader.h"

namespace carillon {
namespace {

int benchmark(int argc, char** argv) {
  if (argc < 6) fail(ExitCode::usage, "usage: picture_benchmark THREADS SECONDS SIZE WINDOW RECORDS_FILE...");
  const std::vector<std::string> files(argv + 5, argv + argc);
  const std::int64_t size = std::atoll(argv[3]);
  const double wanted = std::atof(argv[2]);
  const DatasetInfo form = dataset_info_of_files(files).value();
  const RecordSchema schema{.keys = form.keys,
                            .image_shape = {size, size, 3},
                            .class_count = static_cast<std::int64_t>(form.classes.size()),
                            .first_label = form.first_label};
  const Dataset dataset =
      Dataset::open(files, make_picture_decoder(schema, {.distorts = true, .seed = 1, .shorter = size + size / 7}));
  constexpr std::size_t batch_size = 64;
  BatchLoader loader(dataset, SampleOrder(dataset.size(), {.seed = 1, .window = std::strtoull(argv[4], nullptr, 10)}),
                     {.global_batch = batch_size, .batch_size = batch_size}, {.thread_count = std::atoi(argv[1])});
  for (int i = 0; i < 4; ++i) loader.next();
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  double seconds = 0.0;
  std::size_t count = 0;
  for (; seconds < wanted; count += batch_size) {
    loader.next();
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  fmt::print("{:.1f} images/s, {} images\n", static_cast<double>(count) / seconds, count);
  return 0;
}

}  // namespace
}  // namespace carillon

int main(int argc, char** argv) {
  return carillon::single_process_main("picture_benchmark", [&] { return carillon::benchmark(argc, argv); });
}
