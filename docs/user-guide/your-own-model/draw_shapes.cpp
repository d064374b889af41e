// draw_shapes DIRECTORY: writes DIRECTORY/train-0.tfrecord of 3000 images and test-0.tfrecord of 600: a square, a disc
// or a cross somewhere on noise.
#include <carillon/core/error.h>
#include <carillon/core/file.h>
#include <carillon/data/record.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "shapes.h"

namespace {

std::vector<std::uint8_t> draw(std::int64_t shape, std::mt19937& random) {
  const std::int64_t side = shape_records.image_shape.height;
  const auto upto = [&](std::int64_t most) { return static_cast<std::int64_t>(random() % (most + 1)); };
  const std::int64_t radius = 3 + upto(4), row = radius + upto(side - 1 - 2 * radius),
                     column = radius + upto(side - 1 - 2 * radius);
  std::vector<std::uint8_t> image(shape_records.image_shape.bytes());
  for (std::int64_t r = 0; r < side; ++r) {
    for (std::int64_t c = 0; c < side; ++c) {
      const std::int64_t y = std::abs(r - row), x = std::abs(c - column);
      const bool in_square = std::max(x, y) <= radius;
      const bool inside = shape == 0   ? in_square
                          : shape == 1 ? x * x + y * y <= radius * radius
                                       : in_square && x * y < 2;
      image[r * side + c] = static_cast<std::uint8_t>(upto(80) + (inside ? 120 : 0));
    }
  }
  return image;
}

int run(int argc, char** argv) {
  if (argc != 2) carillon::fail(carillon::ExitCode::usage, "usage: draw_shapes DIRECTORY");
  std::mt19937 random(1);
  std::filesystem::create_directories(argv[1]);
  for (const auto& [name, count] : {std::pair("train-0.tfrecord", 3000), std::pair("test-0.tfrecord", 600)}) {
    std::string records;
    for (int i = 0; i < count; ++i) {
      carillon::append_record(records, carillon::make_example(shape_records.keys, draw(i % 3, random), i % 3));
    }
    carillon::write_file_atomically(std::filesystem::path(argv[1]) / name, std::as_bytes(std::span(records)));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return carillon::single_process_main("draw_shapes", [&] { return run(argc, argv); });
}
