// draw_numbers DIRECTORY: writes DIRECTORY/train-0.tfrecord with 2000 records and test-0.tfrecord with 200. A record
// has 16 random grey pixels, then their mean as a float32 from 0 to 1.
#include <carillon/core/error.h>
#include <carillon/core/file.h>
#include <carillon/data/record.h>

#include <filesystem>
#include <random>
#include <string>

#include "numbers.h"

namespace {

std::string draw(std::mt19937& random) {
  std::string record;
  float sum = 0.0f;
  for (int i = 0; i < 16; ++i) {
    const auto pixel = static_cast<std::uint8_t>(random() % 256);
    record.push_back(static_cast<char>(pixel));
    sum += pixel;
  }
  const float mean = sum / (16.0f * 256.0f);
  return record.append(reinterpret_cast<const char*>(&mean), sizeof mean);
}

int run(int argc, char** argv) {
  if (argc != 2) carillon::fail(carillon::ExitCode::usage, "usage: draw_numbers DIRECTORY");
  std::mt19937 random(1);
  std::filesystem::create_directories(argv[1]);
  for (const auto& [name, count] : {std::pair("train-0.tfrecord", 2000), std::pair("test-0.tfrecord", 200)}) {
    std::string records;
    for (int i = 0; i < count; ++i) carillon::append_record(records, draw(random));
    carillon::write_file_atomically(std::filesystem::path(argv[1]) / name, std::as_bytes(std::span(records)));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return carillon::single_process_main("draw_numbers", [&] { return run(argc, argv); });
}
